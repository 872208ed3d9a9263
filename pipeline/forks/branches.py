"""Branches of one (cohort, condition, delay, operator): units to play, and the rows of tasks that are not played."""

from collections.abc import Mapping, Sequence
from typing import Any

from pipeline.errors import BadInput
from pipeline.harness.player import Unit
from pipeline.records.episodes import is_live, step_of_action, steps_of


def altered(trunks: Sequence[Mapping[str, Any]], source: str) -> None:
    """Check that these are trunks. Raises BadInput naming `source` where it is empty or holds factual runs."""
    if not trunks:
        raise BadInput(f"{source}: holds no row; expected the trunks of a cohort, as `cir trunk` writes them")
    if whole := [row["task"] for row in trunks if row["altered_at"] is None]:
        raise BadInput(
            f"{source}: {whole[0]} has no altered action, so it is a factual run; expected trunks, as `cir trunk` writes them"
        )


def branch_units(
    trunks: Sequence[Mapping[str, Any]], delay: int, operator: str, translations: Mapping[str, bytes]
) -> tuple[list[Unit], list[dict[str, Any]]]:
    """Units to play, and finished rows of the others: tasks whose trunk had ended before d, and tasks without a trunk.

    A branch stands after the reply to action k + d and before the next turn. A task that had ended by then carries its
    trunk's outcome forward, with no recovery applied (protocol.md section 1, [R]).
    """
    units: list[Unit] = []
    rows: list[dict[str, Any]] = []
    for trunk in sorted(trunks, key=lambda row: row["task"]):
        number = trunk["altered_at"] + delay
        steps = steps_of(trunk["steps"])
        if trunk["excluded"] is not None:
            rows.append(_unplayed(trunk, delay, operator, carried=False) | {"excluded": f"trunk: {trunk['excluded']}"})
        elif not is_live(steps, number):
            rows.append(_unplayed(trunk, delay, operator, carried=True))
        else:
            position = step_of_action(steps, number)
            units.append(
                Unit(
                    task=trunk["task"],
                    translation=translations[trunk["task"]],
                    prefix=tuple(step.output for step in steps[1 : position + 1]),
                    condition=trunk["condition"],
                    k=trunk["altered_at"],
                    operator=operator,
                    delay=delay,
                    expected_state=steps[position].state_hash,
                    expected_transcript=steps[position].transcript_hash,
                    origin=trunk["episode_key"],
                )
            )
    return units, rows


def branch_row(unit: Unit, row: Mapping[str, Any]) -> dict[str, Any]:
    """A played unit's row of the forks table."""
    return dict(row) | {
        "delay": unit.delay,
        "operator": unit.operator,
        "fork_action": unit.k + unit.delay,
        "carried_forward": False,
    }


def lost_branch(unit: Unit, trunk: Mapping[str, Any]) -> dict[str, Any]:
    """Row of a branch whose worker died: no outcome, counted by name."""
    return _unplayed(trunk, unit.delay, unit.operator, carried=False) | {
        "excluded": "infrastructure",
        "exit": "infrastructure",
    }


def _unplayed(trunk: Mapping[str, Any], delay: int, operator: str, carried: bool) -> dict[str, Any]:
    last = trunk["steps"][-1] if trunk["steps"] else {"state_hash": ""}
    return dict(trunk) | {
        "success": trunk["success"] and carried,
        "steps": [],
        "prompt_tokens": None,
        "completion_tokens": None,
        "delay": delay,
        "operator": operator,
        "fork_action": trunk["altered_at"] + delay,
        "state_hash": last["state_hash"],
        "final_transcript_hash": trunk["transcript_hash"],
        "intervened": False,
        "carried_forward": carried,
        "episode_key": None,
    }
