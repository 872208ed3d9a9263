"""The episodes behind a number: a cell of the effects, or what a policy got on held-out tasks; counted again and compared."""

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from pipeline.audit.contents import content
from pipeline.audit.plan import fork_path, role, trunk_path
from pipeline.audit.study import Recorded, config_of
from pipeline.config.models import Study
from pipeline.errors import BadInput, CheckFailed
from pipeline.records.files import read_json
from pipeline.records.tables import read_rows

CELLS = ("rescue", "harm", "kept-success", "unchanged-failure")
KEYS = ("trunk_key", "branch_key")
PAIRS, EFFECTS, SUMMARY = "outcomes/pairs.parquet", "outcomes/effects.parquet", "evaluation/summary.json"
COLUMNS = (
    "cohort",
    "task",
    "folder",
    "factual_success",
    "condition",
    "delay",
    "operator",
    "y0",
    "ym",
    "cell",
    "fork_action",
)


def as_recorded(study: Recorded, name: str) -> Path:
    """Where an artifact stands. Raises CheckFailed where it isn't the file that its record claims."""
    file, place = study.entry(name), study.root / name
    if file is None:
        raise CheckFailed(f"{name}: no record claims it; `cir audit` says what is missing")
    found = content(place)
    if found is None or found.sha256 != file.sha256:
        raise CheckFailed(f"{name}: is not the file that its record claims; `cir audit` says what is wrong")
    return place


def study_config(study: Recorded) -> Study:
    """The study's config. Raises CheckFailed where neither record nor study.json holds it."""
    if (config := config_of(study)) is None:
        raise CheckFailed("study.json: neither it nor its record can be read; `cir audit` says what is wrong")
    return config


def pair_rows(study: Recorded) -> list[dict[str, Any]]:
    """The pairs, with the keys of both branches where the table has them (else null)."""
    place = as_recorded(study, PAIRS)
    have = pq.read_schema(place).names
    rows = read_rows(place, columns=[*COLUMNS, *(key for key in KEYS if key in have)])
    return [dict.fromkeys(KEYS) | row for row in rows]


def episode(row: Mapping[str, Any]) -> dict[str, Any]:
    """A pair as it is shown: outcomes, keys, and the two files that hold its branches."""
    c, e, d, m = (row[name] for name in ("cohort", "condition", "delay", "operator"))
    shown = {
        name: row[name]
        for name in ("task", "folder", "condition", "delay", "operator", "y0", "ym", "cell", "fork_action", *KEYS)
    }
    return shown | {"trunk": trunk_path(c, e), "branch": fork_path(c, e, d, m)}


def behind_effects(
    study: Recorded,
    condition: str,
    delay: int,
    operator: str | None,
    cohort: str | None,
    population: str,
    cell: str | None,
) -> dict[str, Any]:
    """The episodes of one row of the effects, of one of its cells or of all four.

    Operator and cohort default to the router's and the fit cohort. Raises BadInput where the study has no such row,
    CheckFailed where the pairs' counts are not the row's.
    """
    config = study_config(study)
    operator, cohort = operator or config.router.operator, cohort or role(config, "fit")
    wanted = {"cohort": cohort, "population": population, "condition": condition, "delay": delay, "operator": operator}
    effects = read_rows(as_recorded(study, EFFECTS), "effects")
    row = next((row for row in effects if all(row[key] == value for key, value in wanted.items())), None)
    if row is None:
        asked = ", ".join(f"{key} {value}" for key, value in wanted.items())
        protocol = config.protocol
        raise BadInput(
            f"{EFFECTS}: has no row of {asked}; conditions are {', '.join(protocol.conditions)}, delays "
            f"{', '.join(map(str, protocol.delays))}, operators {', '.join(protocol.operators)}, cohorts {', '.join(config.cohorts)}"
        )
    pairs = [
        pair
        for pair in pair_rows(study)
        if all(pair[key] == value for key, value in wanted.items() if key != "population")
        and (population == "complete" or pair["factual_success"])
    ]
    counts = Counter(pair["cell"] for pair in pairs)
    for name in CELLS:
        if counts[name] != row[name.replace("-", "_")]:
            raise CheckFailed(
                f"{EFFECTS}: {row[name.replace('-', '_')]} {name}, but {PAIRS} holds {counts[name]}; run the workflow again"
            )
    chosen = [episode(pair) for pair in pairs if cell in (None, pair["cell"])]
    return wanted | {"counts": {name: counts[name] for name in CELLS}, "cell": cell, "episodes": chosen}


def behind_policy(study: Recorded, policy: str, cell: str | None) -> dict[str, Any]:
    """What a policy did on each held-out episode, by evaluation's own look-up, of one cell or of all.

    Raises BadInput for a policy that is not evaluated, or that draws; CheckFailed where counts are not the summary's.
    """
    from pipeline.evaluation.lookup import held_out
    from pipeline.evaluation.policies import outcomes_by_policy
    from pipeline.router.model import Router

    cohort = role(study_config(study), "evaluate")
    router = Router.load(as_recorded(study, "router/router.json"))
    found = held_out(router, as_recorded(study, "router/decisions.parquet"), as_recorded(study, PAIRS), cohort)
    played = outcomes_by_policy(router, found)
    if policy not in played:
        raise BadInput(f"--policy {policy}: was not evaluated; policies are {', '.join(played)}")
    if any(not isinstance(outcome.intervened, bool) for outcome in played[policy]):
        raise BadInput(f"--policy {policy}: draws, so its counts are expectations and no episodes stand behind them")
    pairs = {
        (r["task"], r["condition"], r["delay"], r["operator"]): r for r in pair_rows(study) if r["cohort"] == cohort
    }
    episodes = []
    for outcome in played[policy]:
        name = _cell(outcome.y0, int(outcome.y))
        row = pairs.get((outcome.task, outcome.condition, outcome.delay, outcome.operator))
        if row is not None:
            episodes.append(episode(row))
        else:
            # Left alone: the trunk is all there is; its key stands with each of its pairs.
            any_pair = next(r for key, r in pairs.items() if key[:2] == (outcome.task, outcome.condition))
            alone = {
                "delay": None,
                "operator": None,
                "ym": bool(outcome.y),
                "cell": name,
                "fork_action": None,
                "branch_key": None,
            }
            episodes.append(episode(any_pair) | alone | {"branch": None})
    counts = Counter(one["cell"] for one in episodes)
    acted = sum(one["delay"] is not None for one in episodes)
    summary = read_json(as_recorded(study, SUMMARY))
    row = next(one for one in summary["policies"] if one["policy"] == policy)
    for name, have in (
        ("rescue", counts["rescue"]),
        ("harm", counts["harm"]),
        ("episodes", len(episodes)),
        ("interventions", acted),
    ):
        if row[name] != have:
            raise CheckFailed(f"{SUMMARY}: {policy} has {row[name]} {name}, the look-up {have}; run the workflow again")
    return {
        "policy": policy,
        "cohort": cohort,
        "interventions": acted,
        "counts": {name: counts[name] for name in CELLS},
        "cell": cell,
        "episodes": [one for one in episodes if cell in (None, one["cell"])],
    }


def _cell(y0: int, y: int) -> str:
    return {(0, 1): "rescue", (1, 0): "harm", (1, 1): "kept-success", (0, 0): "unchanged-failure"}[y0, y]


def transcripts(study: Recorded, one: Mapping[str, Any]) -> tuple[list[str], list[str]]:
    """Lines of both branches after the fork: what the agent said and was shown, left alone and recovered."""
    from pipeline.records.episodes import step_of_action, steps_of

    def row_of(name: str) -> dict[str, Any]:
        rows = read_rows(as_recorded(study, name), columns=["task", "steps"])
        return next(row for row in rows if row["task"] == one["task"])

    trunk = steps_of(row_of(one["trunk"])["steps"])
    if one["branch"] is None:
        return _lines(trunk), []
    position = step_of_action(trunk, one["fork_action"])
    rest = trunk[position + 1 :] if position is not None else []
    return _lines(rest), _lines(steps_of(row_of(one["branch"])["steps"]))


def _lines(steps: Sequence[Any]) -> list[str]:
    lines = []
    for step in steps:
        if step.output is not None:
            lines.append(f"> {step.output}")
        if step.observation_shown is not None:
            lines += [f"  {line}" for line in step.observation_shown.splitlines() if line]
    return lines
