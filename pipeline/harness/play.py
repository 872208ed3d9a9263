"""Playing many units in worker processes: what the store holds is taken from it, what is played goes there."""

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pipeline.agents.registry import build
from pipeline.config.models import AgentSection, Alteration, Harness, RecoveryTexts
from pipeline.config.scopes import parsed_settings, section
from pipeline.harness.keys import inputs_of
from pipeline.harness.player import Player, Settings, Unit
from pipeline.harness.prompt import agent_digest
from pipeline.records.canonical import digest, file_sha256
from pipeline.runtime.notes import note
from pipeline.runtime.progress import tracked
from pipeline.runtime.workers import WorkerDied, run_units
from pipeline.store.episodes import EpisodeStore

_player: Player | None = None


def _setup(settings: Settings) -> None:
    global _player
    _player = Player(settings)


def _work(unit: Unit) -> dict[str, Any]:
    assert _player is not None
    return _player.play(unit)


def play_all(
    units: Sequence[Unit], settings: Settings, agent: str, threads: int, store: EpisodeStore, what: str
) -> dict[str, dict[str, Any]]:
    """Play units (one a task) in `threads` worker processes; rows by task, each with its `episode_key`.

    Rows the store holds are taken from it and not played again; a row that is played goes there at once. A row without
    an outcome (`excluded`) is not stored and has no key: it says something about a server or a machine, not about the
    agent. A unit that ended as infrastructure is tried once more when all others are through. A unit whose worker died
    twice gets no row; the caller counts it as infrastructure. `agent` is the digest that `agent_of` gives. How many
    were found and how many played is said on stderr and noted. Raises BadInput where the store can't be read or written.
    """
    inputs = {unit.task: inputs_of(unit, settings, agent) for unit in units}
    rows = {unit.task: row for unit in units if (row := _stored(store, unit, inputs[unit.task])) is not None}
    found = len(rows)
    left = [unit for unit in units if unit.task not in rows]
    if left:
        store.prepare()
    again: list[Unit] = []
    for attempt in (left, again):
        done = len(units) - len(attempt)
        for unit, row in tracked(_results(attempt, settings, threads), len(units), what, done=done):
            if isinstance(row, WorkerDied):
                continue
            rows[unit.task] = _kept(store, unit, inputs[unit.task], row)
            if row["excluded"] == "infrastructure" and attempt is left:
                again.append(unit)
    counts = {"found": found, "generated": len(left)}
    note(store=counts)
    print(f"store: {found} episodes found, {len(left)} generated", file=sys.stderr)
    return rows


def _stored(store: EpisodeStore, unit: Unit, inputs: Mapping[str, Any]) -> dict[str, Any] | None:
    entry = store.get(inputs)
    return None if entry is None else _of(unit, entry)


def _kept(store: EpisodeStore, unit: Unit, inputs: Mapping[str, Any], row: dict[str, Any]) -> dict[str, Any]:
    """The row as it stands in the store: another job's, where that was quicker, so that all studies have the same one."""
    return row | {"episode_key": None} if row["excluded"] else _of(unit, store.put(inputs, row))


def _of(unit: Unit, entry: tuple[str, dict[str, Any]]) -> dict[str, Any]:
    key, row = entry
    # The same game may stand under another name in another study.
    return row | {"task": unit.task, "episode_key": key}


def _results(units: Sequence[Unit], settings: Settings, threads: int) -> Iterator[tuple[Unit, Any]]:
    if units:
        yield from run_units(units, _work, _setup, (settings,), threads)


def parse_settings(text: str) -> Settings:
    """Settings from a `--settings` JSON; sections a stage isn't given keep their defaults and are not used by it."""
    given = parsed_settings(text).get("protocol", {})
    return Settings(
        agent=section(text, "agent", AgentSection),
        harness=section(text, "harness", Harness),
        alteration=section(text, "protocol.alteration", Alteration) if "alteration" in given else Alteration(),
        texts=section(text, "protocol.texts", RecoveryTexts) if "texts" in given else RecoveryTexts(),
    )


def job_key(what: str, settings: str, inputs: Sequence[str], code: str) -> str:
    """What identifies a job's rows: its units, config, inputs and code. Finished ones are reused only under the same key."""
    return digest([what, json.loads(settings), [file_sha256(path) for path in inputs], code])


def agent_of(settings: Settings) -> str:
    """Digest of the agent and harness that these settings make, as it stands in its episodes; the identity is noted."""
    agent = build(settings.agent.kind, settings.agent.parameters)
    note(agent=dict(agent.identity))
    return agent_digest(agent, settings.harness)
