"""Live mode: the router inside the harness, deciding from the running prefix (protocol.md section 3, [D]).

An episode is rebuilt to action k with its altered reply, as trunks are; from there the agent plays. At every candidate
moment the router is asked about the prefix that the session holds by then. Under deterministic replay each decision and
outcome equals the look-up evaluation's, and `disagreements` says where it does not.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from pipeline.environment.interface import TextEnvironment
from pipeline.errors import BadInput
from pipeline.evaluation.lookup import HeldOut, Key, play
from pipeline.harness.operators import Operator, operator
from pipeline.harness.player import Player, Settings, Unit
from pipeline.harness.session import Altered, Session
from pipeline.records.episodes import step_of_action, steps_of
from pipeline.router.model import Router
from pipeline.router.prefix import prefix_at
from pipeline.runtime.journal import Journal
from pipeline.runtime.progress import tracked
from pipeline.runtime.workers import WorkerDied, run_units

# Sums of the logits are exact and features are stored as doubles; this allows for another machine's exp.
TOLERANCE = 1e-12


class RoutedSession(Session):
    """A session whose recovery a router decides: asked right after the reply to action k + d, at most once a yes."""

    def __init__(
        self, task: str, environment: TextEnvironment, settings: Settings, altered: Altered, router: Router
    ) -> None:
        """Reset and show observation 0; the router is asked from `advance` on."""
        self.router = router
        self.recovery: Operator = operator(router.operator, settings.texts)
        self.moments: list[dict[str, Any]] = []
        self.recovered_at: int | None = None
        self._k = altered.k
        super().__init__(task, environment, settings.harness, altered)

    def advance(self, output: str) -> None:
        """One turn of the agent, and the router's word where it ends at a candidate moment of a running episode."""
        super().advance(output)
        delay = self.agent_actions - self._k
        if (
            self.exit is None
            and self.recovered_at is None
            and self.steps[-1].kind == "act"
            and delay in self.router.delays
        ):
            prefix = prefix_at(self.steps, self.agent_actions, self.harness.turns, self.harness.actions)
            decision = self.router.decide(prefix)
            self.moments.append({"delay": delay, **asdict(decision.signals), "intervene": decision.intervene})
            if decision.intervene:
                self.recovered_at = delay
                self.intervene(self.recovery)


class LivePlayer(Player):
    """An agent, an environment and a router that are used for one episode after another."""

    def __init__(self, settings: Settings, router: Router) -> None:
        """Build the agent; the environment comes with the first unit."""
        super().__init__(settings)
        self.router = router

    def play(self, unit: Unit) -> dict[str, Any]:
        """Play a unit to its end: its episode without steps, with the moments asked and what was decided.

        Where the rebuilt prefix has other hashes than the trunk the row is `excluded` by name and not played on.
        """
        altered = self._altered(unit)
        assert altered is not None
        session = RoutedSession(unit.task, self._load(unit), self.settings, altered, self.router)
        session.replay(unit.prefix)
        # Delay 0 asks at the end of the prefix, so the trunk's step is not always the last one.
        reached = session.steps[len(unit.prefix)]
        excluded = None
        if reached.state_hash != unit.expected_state:
            excluded = "state-mismatch"
        elif reached.transcript_hash != unit.expected_transcript:
            excluded = "transcript-mismatch"
        episode = (session.run if excluded is None else session.episode)(self.agent)
        row = episode.row()
        del row["steps"]
        return row | {
            "intervened": session.recovered_at is not None,
            "delay": session.recovered_at,
            "moments": session.moments,
            "excluded": excluded or ("infrastructure" if episode.exit == "infrastructure" else None),
        }


def live_units(
    episodes: Sequence[HeldOut],
    trunks: Mapping[Key, Mapping[str, Any]],
    translations: Mapping[str, bytes],
    operator_name: str,
) -> list[Unit]:
    """One unit a held-out episode: the trunk's outputs up to action k.

    Raises BadInput naming the episodes without a trunk.
    """
    if missing := [f"{e.task} {e.condition}" for e in episodes if (e.task, e.condition) not in trunks]:
        raise BadInput(
            f"--trunk: {len(missing)} held-out episodes have no trunk in the given files, the first: "
            f"{'; '.join(missing[:5])}; name the trunk table of every condition"
        )
    units = []
    for episode in episodes:
        trunk = trunks[episode.task, episode.condition]
        steps = steps_of(trunk["steps"])
        position = step_of_action(steps, trunk["altered_at"])
        if position is None:
            raise BadInput(f"{episode.task} {episode.condition}: its trunk has no action {trunk['altered_at']}")
        units.append(
            Unit(
                task=episode.task,
                translation=translations[episode.task],
                prefix=tuple(str(step.output) for step in steps[1 : position + 1]),
                condition=episode.condition,
                k=trunk["altered_at"],
                operator=operator_name,
                expected_state=steps[position].state_hash,
                expected_transcript=steps[position].transcript_hash,
            )
        )
    return units


_player: LivePlayer | None = None


def _setup(settings: Settings, router: Router) -> None:
    global _player
    _player = LivePlayer(settings, router)


def _work(unit: Unit) -> dict[str, Any]:
    assert _player is not None
    return _player.play(unit)


def play_live(
    units: Sequence[Unit], settings: Settings, router: Router, threads: int, journal: Journal
) -> dict[Key, dict[str, Any]]:
    """Play units in `threads` worker processes; rows by (task, condition), those of the journal taken from it.

    A unit whose worker died twice gets no row. Raises BadInput for a router whose delays do not ascend: time runs one way.
    """
    if list(router.delays) != sorted(set(router.delays)):
        raise BadInput(
            f"the router asks at delays {', '.join(map(str, router.delays))}; live they can only come in ascending order"
        )
    rows = dict(journal.rows)
    left = [unit for unit in units if _name(unit) not in rows]
    results = run_units(left, _work, _setup, (settings, router), threads) if left else ()
    for unit, row in tracked(results, len(units), "live", done=len(units) - len(left)):
        if not isinstance(row, WorkerDied):
            rows[_name(unit)] = row
            if row["excluded"] != "infrastructure":
                journal.add(_name(unit), row)
    return {(unit.task, unit.condition): rows[_name(unit)] for unit in units if _name(unit) in rows}


def _name(unit: Unit) -> str:
    return f"{unit.condition}/{unit.task}"


def compared(
    episodes: Sequence[HeldOut], rows: Mapping[Key, Mapping[str, Any]], router: Router, agent: str
) -> list[dict[str, Any]]:
    """Rows of the live table, in order of (task, condition): each episode beside its look-up, with their difference."""
    table = []
    for episode, found in zip(episodes, play(episodes, router.thresholds), strict=True):
        chosen = router.thresholds.choose(episode.moments) if router.thresholds else None
        live = rows.get((episode.task, episode.condition)) or _lost(episode, agent)
        row = dict(live) | {
            "folder": episode.folder,
            "lookup_delay": chosen.delay if chosen else None,
            "lookup_success": bool(found.y),
        }
        table.append(row | {"difference": _difference(row, episode)})
    return sorted(table, key=lambda row: (row["task"], row["condition"]))


def _difference(row: Mapping[str, Any], episode: HeldOut) -> str | None:
    """How a live episode differs from its look-up, or None: hashes, moments, signals, decision, delay, outcome."""
    if row["excluded"] is not None:
        return str(row["excluded"])
    if row["delay"] != row["lookup_delay"]:
        return f"decision: live {_when(row['delay'])}, look-up {_when(row['lookup_delay'])}"
    last = row["delay"]
    expected = [m for m in episode.moments.candidates if last is None or m.delay <= last]
    asked = [moment["delay"] for moment in row["moments"]]
    if asked != [moment.delay for moment in expected]:
        return f"moments: live {asked}, look-up {[moment.delay for moment in expected]}"
    for mine, theirs in zip(row["moments"], expected, strict=True):
        pairs = ((mine["p_err"], theirs.p_err), (1 - mine["p_0"], theirs.need), (mine["u"], theirs.u))
        if any(abs(a - b) > TOLERANCE for a, b in pairs):
            return f"signals at delay {theirs.delay}"
    if row["success"] != row["lookup_success"]:
        return f"outcome: live {row['success']}, look-up {row['lookup_success']}"
    return None


def _when(delay: int | None) -> str:
    return "never" if delay is None else f"at {delay}"


def _lost(episode: HeldOut, agent: str) -> dict[str, Any]:
    """Row of an episode whose worker died twice: no outcome."""
    return {
        "task": episode.task,
        "condition": episode.condition,
        "agent": agent,
        "success": False,
        "exit": "infrastructure",
        "turns": 0,
        "actions": 0,
        "altered_at": None,
        "transcript_hash": "",
        "prompt_tokens": None,
        "completion_tokens": None,
        "intervened": False,
        "delay": None,
        "moments": [],
        "excluded": "infrastructure",
    }
