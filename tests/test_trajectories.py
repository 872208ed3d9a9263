"""Cohorts: disjoint, stable, filled with feasible tasks or refused; factual runs and trunks on real engine games."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.config.models import Alteration, Cohort
from pipeline.errors import BadInput
from pipeline.trajectories.cohorts import altered_action, draw, settle


def games(folders, trials=2, split="train", task_type="pick_and_place_simple"):
    return [
        {
            "task": f"{split}-f{folder}/t{trial}",
            "folder": f"{split}-f{folder}",
            "split": split,
            "task_type": task_type,
            "sha256": f"{split}{folder}{trial}",
        }
        for folder in range(folders)
        for trial in range(trials)
    ]


def cohort(role="measure", split="train", size=5, **keys):
    return Cohort(role=role, split=split, size=size, **keys)


@given(st.integers(1, 6), st.integers(1, 6), st.integers(1, 4), st.integers(0, 3))
def test_cohorts_share_no_game_and_no_folder(first, second, trials, seed):
    rows = draw(games(40, trials), {"a": cohort(size=first, seed=seed), "b": cohort("fit", size=second, seed=seed)})
    by = {name: [row for row in rows if row["cohort"] == name] for name in "ab"}
    assert not {row["folder"] for row in by["a"]} & {row["folder"] for row in by["b"]}
    assert len({row["task"] for row in rows}) == len(rows)
    assert [row["rank"] for row in by["a"]] == list(range(len(by["a"])))


@given(st.integers(1, 10), st.integers(1, 10))
def test_a_larger_size_appends_candidates(small, more):
    pool = games(60)
    before = draw(pool, {"a": cohort(size=small)})
    after = draw(pool, {"a": cohort(size=small + more)})
    assert after[: len(before)] == before


def test_the_order_of_games_and_of_the_config_does_not_matter():
    pool = games(20) + games(20, split="valid_seen")
    cohorts = {"a": cohort(), "b": cohort("evaluate", "valid_seen"), "c": cohort("fit")}
    assert draw(pool[::-1], cohorts) == draw(pool, cohorts)


def test_evaluation_takes_its_folders_first():
    """Official valid_seen folders stand in train too: the smaller split must not lose them to the larger."""
    shared = [game | {"split": "valid_seen", "task": game["task"] + "v"} for game in games(8, 1)]
    rows = draw(
        games(30) + shared, {"fit": cohort("fit", size=10), "held": cohort("evaluate", "valid_seen", size=8, reserve=0)}
    )
    held = {row["folder"] for row in rows if row["cohort"] == "held"}
    assert len(held) == 8
    assert not held & {row["folder"] for row in rows if row["cohort"] == "fit"}


def test_task_types_are_respected():
    pool = games(9) + games(9, split="train", task_type="look_at_obj_in_light")
    pool = [
        game | {"folder": game["folder"] + game["task_type"], "task": game["task"] + game["task_type"]} for game in pool
    ]
    rows = draw(pool, {"a": cohort(task_types=["look_at_obj_in_light"])})
    assert {row["task_type"] for row in rows} == {"look_at_obj_in_light"}


@pytest.mark.parametrize(
    ("cohorts", "message"),
    [
        ({"a": cohort(size=99)}, r"cohorts\.a\.size: 99 tasks are wanted, split train has 12"),
        ({"a": cohort(split="valid_unseen")}, r"split valid_unseen has 0 games"),
        (
            {"a": cohort(size=12), "b": cohort("fit", size=9)},
            r"cohorts\.a\.size: 12 tasks are wanted, .* stand in folders of other",
        ),
    ],
)
def test_cohorts_that_cannot_be_filled_are_refused(cohorts, message):
    with pytest.raises(BadInput, match=message):
        draw(games(6), cohorts)


@pytest.mark.parametrize(("actions", "k"), [(0, None), (1, 1), (4, 1), (5, 2), (8, 2), (9, 3), (64, 16)])
def test_k_is_a_quarter_rounded_up(actions, k):
    assert altered_action(actions, 0.25) == k


@pytest.mark.parametrize(("actions", "fraction", "k"), [(25, 0.28, 7), (50, 0.14, 7), (50, 0.56, 28), (26, 0.28, 8)])
def test_k_takes_the_fraction_as_it_is_written(actions, fraction, k):
    """In binary floating point 0.28 x 25 is more than 7."""
    assert altered_action(actions, fraction) == k


def _factual(lengths, **keys):
    return {("a", f"t{i}"): {"actions": n, "success": n < 20, "excluded": None} | keys for i, n in enumerate(lengths)}


def _candidates(count):
    return [
        {"cohort": "a", "role": "fit", "rank": i, "task": f"t{i}", "folder": f"f{i}", "task_type": "x", "sha256": "0"}
        for i in range(count)
    ]


def test_infeasible_tasks_fall_out_with_a_reason_and_the_next_step_in():
    lengths = [4, 8, 0, 30, 12, 16]
    factual = _factual(lengths)
    factual["a", "t4"] = {"actions": 0, "success": False, "excluded": "infrastructure"}
    rows = settle(_candidates(6), factual, {"a": 2}, ["clean", "stale-2"], Alteration())
    reasons = {row["task"]: row["excluded"] for row in rows}
    assert reasons == {
        "t0": "stale-2 needs 2 earlier observations, action 1 has 1",
        "t1": None,
        "t2": "factual run has no environment action",
        "t3": None,
        "t4": "factual run: infrastructure",
        "t5": "beyond the cohort's size",
    }
    assert {row["task"]: row["factual_success"] for row in rows if row["feasible"]} == {"t1": True, "t3": False}
    assert {row["task"]: row["altered_at"] for row in rows if row["feasible"]} == {"t1": 2, "t3": 8}
    assert next(row for row in rows if row["task"] == "t4")["factual_success"] is None


def test_a_cohort_larger_than_its_feasible_tasks_is_refused_by_name():
    with pytest.raises(
        BadInput, match=r"cohorts\.a\.size: 3 tasks are wanted, but only 2 of 4 candidates are feasible"
    ):
        settle(_candidates(4), _factual([4, 8, 2, 8]), {"a": 3}, ["stale-2"], Alteration())


@settings(max_examples=30)
@given(
    st.lists(st.integers(0, 64), min_size=1, max_size=12),
    st.sampled_from([["clean"], ["clean", "stale-1"], ["stale-3"]]),
)
def test_settled_cohorts_are_feasible_for_every_condition(lengths, conditions):
    from pipeline.harness.conditions import condition

    try:
        rows = settle(_candidates(len(lengths)), _factual(lengths), {"a": 1}, conditions, Alteration())
    except BadInput:
        assert all(
            not n or any(condition(c, Alteration()).infeasible(altered_action(n, 0.25)) for c in conditions)
            for n in lengths
        )
        return
    assert sum(row["feasible"] for row in rows) == 1
    assert len(rows) == len(lengths)
    for row in rows:
        assert row["feasible"] == (row["excluded"] is None)
