"""Features from the prefix only, the exhaustive search against a naive loop, fitting, decisions and their clear ends."""

import json
import time
from dataclasses import replace
from itertools import product

import numpy as np
import pyarrow as pa
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.cli import cir
from pipeline.errors import BadInput, CheckFailed
from pipeline.records.episodes import Step
from pipeline.records.schemas import decisions_schema
from pipeline.records.tables import read_rows, write_rows, write_table
from pipeline.router.decisions import decision_rows
from pipeline.router.features import FEATURES, agrees, features
from pipeline.router.fit import FitSettings, fit
from pipeline.router.goals import Goal, parse_goal
from pipeline.router.model import Router
from pipeline.router.policy import Candidate, DecisionEpisode, PolicyCounts, Thresholds, counts, harm_limit
from pipeline.router.prefix import Entry, Prefix, prefix_at, prefix_from_json
from pipeline.router.thresholds import gamma_values, grid_values, rate_matched, search
from pipeline.router.training import training

OPENING = (
    "You are in the middle of a room. Looking quickly around you, you see a desk 1, and a shelf 1.\n\n"
    "Your task is to: put a clean mug in shelf."
)


def act(index, action, shown, output=None):
    return Step(index, "act", output or action, action, shown, shown, "s", "t")


STEPS = [
    Step(0, "reset", None, None, OPENING, OPENING, "s", "t"),
    Step(1, "think", "think: a mug may be on the desk", None, None, "OK.", "s", "t"),
    act(2, "go to desk 1", "You arrive at desk 1. On the desk 1, you see a mug 2."),
    act(3, "take mug 2 from desk 1", "You pick up the mug 2 from the desk 1."),
    act(4, "take mug 2 from desk 1", "Nothing happens."),
    act(5, "go to sink 1", "You arrive at desk 1. On the desk 1, you see a mug 2."),
    act(6, "clean mug 2 with sink 1", "You clean the mug 2 using the sink 1.", "think: go on\nclean mug 2 with sink 1"),
    act(7, "move mug 2 to shelf 1", "You move the mug 2 to the shelf 1."),
]


def test_features_tell_what_happened():
    early, late = (features(prefix_at(STEPS, number, 49, 64)) for number in (1, 6))
    assert tuple(late) == FEATURES
    assert (early["x_target_seen"], early["x_target_held"], early["x_targets_placed"]) == (1, 0, 0)
    assert (late["x_target_changed"], late["x_targets_placed"], late["x_target_held"]) == (1, 1, 0)
    assert late["x_no_ops"] == pytest.approx(1 / 6)
    assert late["x_contradictions"] == pytest.approx(1 / 6)
    assert late["x_recent_old_contradictions"] == pytest.approx(1 / 5)
    assert late["x_actions_since_contradiction"] == pytest.approx(0.2)
    assert late["x_action_repeats"] == pytest.approx(1 / 6)
    assert features(prefix_at(STEPS, 3, 49, 64))["x_same_action_run"] == 1
    assert late["x_turns_left"] == pytest.approx((49 - 7) / 49)
    assert late["x_actions_left"] == pytest.approx((64 - 6) / 64)


def test_nothing_true_later_or_named_reaches_a_feature():
    """Rewrites everything that a prefix must not hold: later steps, true texts, hashes, rejections."""
    at = 4
    changed = [
        replace(step, observation_true="another truth", state_hash="x", transcript_hash="y", rejection="rejected")
        for step in STEPS[:6]
    ] + [act(6, "look", "something else"), act(7, "give up", "ended")]
    assert prefix_at(changed, at, 49, 64) == prefix_at(STEPS, at, 49, 64)
    assert prefix_at(STEPS[:6], at, 49, 64) == prefix_at(STEPS, at, 49, 64)
    names = {name for kind in (Prefix, Entry) for name in kind.__dataclass_fields__}
    assert names == {
        "opening", "entries", "turns", "actions", "turn_budget", "action_budget", "kind", "output", "action", "shown"
    }  # fmt: skip


@given(st.lists(st.sampled_from(STEPS[1:]), min_size=1, max_size=12), st.data())
@settings(max_examples=40, deadline=None)
def test_features_are_finite_and_blind_to_what_follows(middle, data):
    steps = [STEPS[0], *middle]
    number = sum(step.kind == "act" for step in middle)
    if number == 0:
        return
    cut = data.draw(st.integers(1, number))
    values = features(prefix_at(steps, cut, 49, 64))
    assert all(np.isfinite(value) for value in values.values())
    # What stands after the last wanted action, and what was true, may be anything.
    acts = [place for place, step in enumerate(steps) if step.kind == "act"]
    upto = [replace(step, observation_true="a truth", rejection="rejected") for step in steps[: acts[cut - 1] + 1]]
    assert features(prefix_at([*upto, act(99, "look", "later")], cut, 49, 64)) == values


def test_prefix_needs_its_action():
    with pytest.raises(ValueError, match="action 7"):
        prefix_at(STEPS, 7, 49, 64)


@pytest.mark.parametrize(
    ("action", "reply", "expected"),
    [
        ("go to shelf 1", "You arrive at shelf 1. On the shelf 1, you see nothing.", True),
        ("go to shelf 1", "You arrive at shelf 10. On the shelf 10, you see nothing.", False),
        ("go to shelf 1", "Nothing happens.", None),
        ("open drawer 1", "You open the drawer 1. The drawer 1 is open. In it, you see nothing.", True),
        ("take mug 1 from desk 2", "You open the drawer 1.", False),
        ("put mug 1 in/on desk 2", "You put the mug 1 in/on the desk 2.", True),
        ("move mug 1 to desk 2", "You move the mug 1 to the desk 2.", True),
        ("heat egg 1 with microwave 1", "You heat the egg 1 using the microwave 1.", True),
        ("use desklamp 1", "You turn on the desklamp 1.", True),
        ("examine desk 1", "On the desk 1, you see a pen 1.", True),
        ("examine mug 1", "There's nothing special about mug 1.", True),
        ("look", "You are facing the desk 1. Next to it, you see nothing.", True),
        ("inventory", "You are not carrying anything.", True),
        ("go to shelf 1", "Observation unavailable.", False),
        ("dance", "You arrive at shelf 1.", None),
    ],
)
def test_agreement_of_action_and_reply(action, reply, expected):
    assert agrees(action, reply) is expected


@pytest.mark.parametrize(
    ("sentence", "goal"),
    [
        ("put a mug in shelf", Goal("mug", place="shelf")),
        ("put some pencil on desk.", Goal("pencil", place="desk")),
        ("put a clean mug in shelf.", Goal("mug", verb="clean", place="shelf")),
        ("heat some egg and put it in garbagecan.", Goal("egg", verb="heat", place="garbagecan")),
        ("put a hot egg in garbagecan", Goal("egg", verb="heat", place="garbagecan")),
        ("cool some pan and put it in/on countertop", Goal("pan", verb="cool", place="countertop")),
        ("put two winebottle in garbagecan.", Goal("winebottle", 2, place="garbagecan")),
        ("find two cd and put them in safe.", Goal("cd", 2, place="safe")),
        ("look at alarmclock under the desklamp.", Goal("alarmclock", lamp="desklamp")),
        ("examine the alarmclock with the desklamp.", Goal("alarmclock", lamp="desklamp")),
        ("dance in the kitchen", None),
    ],
)
def test_goals(sentence, goal):
    assert parse_goal(sentence) == goal


# --- thresholds -------------------------------------------------------------------------------------------------------


def random_episodes(rng, tasks, delays=3, levels=None):
    """Episodes of clean and stale with random signals; `levels` makes ties by rounding to that many values."""
    episodes = []
    for task, condition in product(range(tasks), ("clean", "stale-2")):
        clean, y0 = condition == "clean", int(rng.random() < 0.7)
        moments = []
        for delay in range(int(rng.integers(0, delays + 1))):
            p_err, need, u = rng.random(3)
            if levels:
                p_err, need, u = (np.floor(value * levels) / levels for value in (p_err, need, u))
            moments.append(Candidate(delay, float(p_err), float(need), float(u - 0.5), int(rng.random() < 0.6) - y0))
        episodes.append(DecisionEpisode(f"t{task}", condition, clean, tuple(moments)))
    return episodes


def naive(episodes, alphas, betas, gammas, epsilon):
    best = None
    for alpha, beta, gamma in product(alphas, betas, gammas):
        did = counts(Thresholds(alpha, beta, gamma), episodes)
        if did.clean_harms <= harm_limit(episodes, epsilon):
            rank = (did.net_gain, -did.clean_harms, -did.interventions, alpha, beta, gamma)
            best = max(best, (rank, did)) if best else (rank, did)
    return best


def axes(episodes, quantiles=5):
    moments = [moment for episode in episodes for moment in episode.candidates]
    return (
        grid_values([moment.p_err for moment in moments]),
        grid_values([moment.need for moment in moments]),
        gamma_values([moment.u for moment in moments], quantiles),
    )


@pytest.mark.parametrize("seed", range(25))
def test_the_search_equals_the_naive_loop(seed, monkeypatch):
    rng = np.random.default_rng(seed)
    episodes = random_episodes(rng, tasks=int(rng.integers(1, 7)), delays=4, levels=None if seed % 2 else 4)
    epsilon = float(rng.choice([0.0, 0.02, 0.2, 0.5]))
    # Small blocks, so that sums carried from one block to the next are tested too.
    monkeypatch.setattr("pipeline.router.thresholds._BLOCK_CELLS", int(rng.choice([7, 40, 10_000])))
    alphas, betas, gammas = axes(episodes)
    found = search(episodes, alphas, betas, gammas, epsilon)
    rank, did = naive(episodes, alphas, betas, gammas, epsilon)
    assert (found.thresholds.alpha, found.thresholds.beta, found.thresholds.gamma) == rank[3:]
    assert found.counts == did


@pytest.mark.parametrize("seed", range(10))
def test_rate_matching_equals_its_definition(seed):
    rng = np.random.default_rng(100 + seed)
    episodes = random_episodes(rng, tasks=6, levels=None if seed % 2 else 5)
    alphas, *_ = axes(episodes)
    wanted = int(rng.integers(0, 8))
    options = []
    for alpha in alphas:
        did = counts(Thresholds(alpha, 0.0, -np.inf), episodes)
        if did.clean_harms <= harm_limit(episodes, 0.2):
            options.append((-abs(did.interventions - wanted), -did.interventions, alpha))
    assert rate_matched(episodes, alphas, wanted, 0.2).thresholds.alpha == max(options)[2]


def test_nothing_feasible_is_none_and_nothing_to_gain_never_acts():
    harm = DecisionEpisode("t", "clean", True, (Candidate(1, 1.0, 1.0, 1.0, -1),))
    assert search([harm], [0.0, 1.0], [0.0, 1.0], [0.0], 0.02) is None
    assert rate_matched([harm], [0.0, 1.0], 1, 0.02) is None
    nothing = DecisionEpisode("t", "stale-2", False, (Candidate(1, 0.5, 0.5, 0.5, -1),))
    found = search([nothing], [0.0, 0.5, 1.0], [0.0, 0.5, 1.0], [0.0, 0.5], 0.02)
    assert (found.thresholds, found.counts) == (Thresholds(1.0, 1.0, 0.5), PolicyCounts(0, 0, 0))


def test_the_full_search_takes_seconds():
    """93 tasks x 2 conditions x 3 delays: about 6 million triples."""
    episodes = random_episodes(np.random.default_rng(0), 93)
    alphas, betas, gammas = axes(episodes, 19)
    started = time.perf_counter()
    found = search(episodes, alphas, betas, gammas, 0.02)
    assert time.perf_counter() - started < 20
    assert found.counts == counts(found.thresholds, episodes)
    assert found.counts.clean_harms <= harm_limit(episodes, 0.02) == 1


# --- fitting ----------------------------------------------------------------------------------------------------------


def decisions(tasks=30, conditions=("clean", "stale-2"), seed=0, **changes):
    """A decisions table with signal: x_a tells the condition, x_b the need; a third of late moments is not live."""
    rng = np.random.default_rng(seed)
    rows = []
    for task, condition in product(range(tasks), conditions):
        y0 = rng.random() < (0.9 if condition == "clean" else 0.4)
        for delay in (1, 2, 4):
            live = delay < 4 or task % 3 > 0
            wrong = condition != "clean"
            row = {
                "cohort": "main", "task": f"f{task // 2:02}/t{task:02}", "folder": f"f{task // 2:02}", "condition": condition,
                "delay": delay, "live": live, "factual_success": task % 10 != 9, "y0": bool(y0),
                "ym": bool(y0 if not live else (rng.random() < (0.85 if wrong else 0.9))),
                "x_a": float(rng.normal(1.5 * wrong)), "x_b": float(rng.normal(1.0 * y0)), "x_constant": 1.0,
            } | {name: change(task, condition, delay) for name, change in changes.items()}  # fmt: skip
            rows.append(row | ({} if live else {"x_a": None, "x_b": None, "x_constant": None}))
    return rows


def written(path, rows):
    write_rows(path, rows, decisions_schema([name for name in rows[0] if name.startswith("x_")]))
    return path


def fitted(path, rows, **options):
    data, notes = training(written(path, rows), ("clean", "stale-2"), (1, 2, 4))
    return fit(data, FitSettings(**options), {"decisions": "0" * 64}, notes)


def test_a_fit_is_the_protocols(tmp_path):
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import GroupKFold
    from sklearn.preprocessing import StandardScaler

    rows = decisions()
    made = fitted(tmp_path / "d.parquet", rows)
    mine = sorted(
        (row for row in rows if row["live"] and row["factual_success"]),
        key=lambda r: (r["task"], r["condition"], r["delay"]),
    )
    X = np.array([[row["x_a"], row["x_b"], row["x_constant"]] for row in mine])
    labels = {
        "p_err": [row["condition"] != "clean" for row in mine],
        "p_0": [r["y0"] for r in mine],
        "p_1": [r["ym"] for r in mine],
    }
    groups = [row["folder"] for row in mine]
    assert [(row["task"], row["condition"], row["delay"]) for row in made.oof] == [
        (row["task"], row["condition"], row["delay"]) for row in mine
    ]
    for number, (train, held) in enumerate(GroupKFold(5, shuffle=True, random_state=0).split(X, groups=groups)):
        scaler = StandardScaler().fit(X[train])
        for name, y in labels.items():
            model = LogisticRegression(C=0.1, tol=1e-10, max_iter=10_000).fit(
                scaler.transform(X[train]), np.array(y)[train]
            )
            expected = model.predict_proba(scaler.transform(X[held]))[:, 1]
            assert [made.oof[place][name] for place in held] == pytest.approx(expected, abs=1e-9)
        assert {made.oof[place]["fold"] for place in held} == {number}
    first = made.oof[0]
    assert first["u"] == pytest.approx((1 - first["p_0"]) * first["p_1"] - 2 * first["p_0"] * (1 - first["p_1"]))
    assert made.router["fit"]["tasks"] == sorted({row["task"] for row in rows if row["factual_success"]})
    assert made.router["oof"]["clean_episodes"] == 27
    assert made.router["oof"]["policies"]["cir"]["clean_harms"] <= made.router["oof"]["clean_harm_limit"] == 0


def test_decisions_equal_scikit_learns(tmp_path):
    from sklearn.linear_model import LogisticRegression
    from sklearn.preprocessing import StandardScaler

    rows = decisions()
    router = Router.parse(fitted(tmp_path / "d.parquet", rows).router, "router")
    mine = [row for row in rows if row["live"] and row["factual_success"]]
    mine.sort(key=lambda row: (row["task"], row["condition"], row["delay"]))
    X = np.array([[row["x_a"], row["x_b"], row["x_constant"]] for row in mine])
    scaler = StandardScaler().fit(X)
    for name, y in (("p_err", [r["condition"] != "clean" for r in mine]), ("p_0", [r["y0"] for r in mine])):
        model = LogisticRegression(C=0.1, tol=1e-10, max_iter=10_000).fit(scaler.transform(X), y)
        theirs = model.predict_proba(scaler.transform(X))[:, 1]
        ours = [getattr(router.signals(row), name) for row in mine]
        assert np.abs(np.array(ours) - theirs).max() < 1e-12


def test_a_held_out_fold_is_not_learnt_from(tmp_path):
    rows = decisions()
    before = fitted(tmp_path / "d.parquet", rows)
    folder = rows[0]["folder"]
    number = next(row["fold"] for row in before.oof if row["task"].startswith(folder))
    held = {row["task"] for row in before.oof if row["fold"] == number}
    for row in rows:
        if row["task"] in held:
            row["y0"], row["ym"] = not row["y0"], not row["ym"]
    after = fitted(tmp_path / "d.parquet", rows)
    same = [(a, b) for a, b in zip(before.oof, after.oof, strict=True) if a["fold"] == number]
    assert same
    assert all(a == b for a, b in same)
    assert any(a != b for a, b in zip(before.oof, after.oof, strict=True) if a["fold"] != number)


def test_the_conditions_name_and_the_order_of_rows_change_nothing(tmp_path):
    rows = decisions()
    first = fitted(tmp_path / "d.parquet", rows)
    renamed = [row | {"condition": row["condition"].replace("stale-2", "aaa")} for row in reversed(rows)]
    data, _ = training(written(tmp_path / "e.parquet", renamed), ("clean", "aaa"), (1, 2, 4))
    second = fit(data, FitSettings(), {"decisions": "0" * 64})
    by_moment = {(row["task"], row["condition"] == "clean", row["delay"]): row for row in second.oof}
    for row in first.oof:
        other = by_moment[row["task"], row["condition"] == "clean", row["delay"]]
        assert [other[name] for name in ("p_err", "p_0", "p_1", "u")] == pytest.approx(
            [row[name] for name in ("p_err", "p_0", "p_1", "u")], abs=1e-8
        )
    shuffled = fitted(tmp_path / "f.parquet", rows[::-1])
    assert shuffled.router == first.router


def invoke(*arguments):
    return CliRunner().invoke(cir, [str(argument) for argument in arguments])


def test_the_command_writes_equal_bytes_twice(tmp_path):
    path = written(tmp_path / "d.parquet", decisions())
    for name in ("first", "second"):
        result = invoke("fit", path, "--out", tmp_path / f"{name}.json", "--oof", tmp_path / f"{name}.parquet")
        assert result.exit_code == 0, result.exception
    assert (tmp_path / "first.json").read_bytes() == (tmp_path / "second.json").read_bytes()
    assert (tmp_path / "first.parquet").read_bytes() == (tmp_path / "second.parquet").read_bytes()
    assert read_rows(tmp_path / "first.parquet", "oof")
    router = Router.load(tmp_path / "first.json")
    assert router.policies()["cir"].alpha >= 0
    assert set(router.policies()) == {"sequential-anomaly", "rate-matched-anomaly", "cir"}


def test_flags_go_before_settings_and_settings_before_defaults(tmp_path):
    path = written(tmp_path / "d.parquet", decisions())
    keys = json.dumps({"router": {"folds": 3, "lambda": 1.5, "epsilon": 0.1}})
    assert invoke("fit", path, "--out", tmp_path / "r.json", "--settings", keys, "--epsilon", "0").exit_code == 0
    router = json.loads((tmp_path / "r.json").read_text())
    assert [router[name] for name in ("folds", "lambda", "epsilon", "C")] == [3, 1.5, 0.0, 0.1]


def test_one_class_gives_a_constant_model_said_aloud(tmp_path):
    made = fitted(tmp_path / "d.parquet", decisions(y0=lambda *_: True, ym=lambda *_: True))
    assert made.router["models"]["p_0"]["constant"]
    assert made.router["models"]["p_0"]["coefficients"] == [0.0, 0.0, 0.0]
    assert any("p_0: every label is the same" in note for note in made.notes)
    rows = decisions(tasks=10, y0=lambda task, condition, delay: task < 2, ym=lambda *_: True)
    made = fitted(tmp_path / "d.parquet", rows)
    assert any("p_0: without fold" in note for note in made.notes)
    assert not made.router["models"]["p_0"]["constant"]


def test_without_a_clean_success_it_never_refreshes(tmp_path):
    rows = decisions(y0=lambda task, condition, delay: condition != "clean" and task % 2 == 0)
    path = written(tmp_path / "d.parquet", rows)
    result = invoke("fit", path, "--out", tmp_path / "r.json")
    assert result.exit_code == 0
    assert "no clean episode succeeds" in result.stderr
    router = Router.load(tmp_path / "r.json")
    assert router.thresholds is None
    assert set(router.policies().values()) == {None}
    assert json.loads((tmp_path / "r.json").read_text())["thresholds"] == {"alpha": None, "beta": None, "gamma": None}


def test_too_few_folders_and_unusable_tables_have_a_clear_end(tmp_path):
    def refused(rows, message, *options):
        result = invoke("fit", written(tmp_path / "d.parquet", rows), "--out", tmp_path / "r.json", *options)
        assert isinstance(result.exception, BadInput), result.output
        assert message in str(result.exception)
        assert not (tmp_path / "r.json").exists()

    refused(decisions(tasks=6), "3 task folder")
    refused(decisions(), "no row with condition missing", "--conditions", "clean,missing")
    refused(decisions(), "no row with delay 3", "--delays", "1,3")
    refused(decisions(), "must rise; found 4, 1", "--delays", "4,1")
    refused(decisions(), "at least one other", "--conditions", "clean")
    refused(decisions(), "of cohort other", "--cohort", "other")
    refused([row | {"live": False} for row in decisions()], "no live row")
    missing = decisions()
    missing[4]["x_b"] = None
    refused(missing, "feature x_b is missing")
    refused(decisions() + decisions()[:1], "stand more than once")
    refused([row | ({"folder": "other"} if row["delay"] == 1 else {}) for row in decisions()], "stands in the folders")


def test_foreign_tables(tmp_path):
    def refused(table, message):
        write_table(tmp_path / "d.parquet", table)
        result = invoke("fit", tmp_path / "d.parquet", "--out", tmp_path / "r.json")
        assert isinstance(result.exception, BadInput), result.output
        assert message in str(result.exception)

    table = pa.Table.from_pylist(decisions())
    refused(table.drop_columns(["folder"]), "lacks the column(s) folder")
    refused(table.drop_columns(["x_a", "x_b", "x_constant"]), "no feature column")
    refused(table.append_column("x_text", pa.array(["a"] * len(table))), "x_text is string")
    refused(table.slice(0, 0), "holds no rows")
    # Whole numbers, booleans and columns nobody knows are welcome.
    extra = table.append_column("note", pa.array(["a"] * len(table)))
    extra = extra.append_column("x_flag", pa.array([True, False] * (len(table) // 2)))
    write_table(tmp_path / "d.parquet", extra)
    assert invoke("fit", tmp_path / "d.parquet", "--out", tmp_path / "r.json").exit_code == 0


def test_an_episode_without_a_row_at_every_delay_is_left_out(tmp_path):
    made = fitted(tmp_path / "d.parquet", decisions()[1:])
    assert any("1 episode(s) without a row" in note for note in made.notes)
    assert made.router["oof"]["episodes"] == 53


# --- features and decide through the command line ---------------------------------------------------------------------


def trunk_row(task, condition, k=2):
    steps = [
        {name: getattr(step, name) for name in Step.__dataclass_fields__}
        for step in (STEPS if condition == "clean" else STEPS[:5])
    ]
    return {
        "task": task, "condition": condition, "agent": "a", "success": condition == "clean", "exit": "success",
        "turns": 7, "actions": 6,
        "altered_at": k, "steps": steps, "transcript_hash": "t", "prompt_tokens": None, "completion_tokens": None,
        "excluded": None,
    }  # fmt: skip


def pair_row(task, condition, delay, operator, live, k=2):
    y0 = condition == "clean"
    return {
        "cohort": "main", "task": task, "folder": task.split("/")[0], "task_type": "simple", "factual_success": True,
        "condition": condition, "delay": delay, "operator": operator, "y0": y0, "ym": y0 or live, "cell": "rescue",
        "intervened": live and operator != "none", "null_alteration": False, "fork_action": k + delay, "state_hash": "s",
        "transcript_hash": "t",
    }  # fmt: skip


@pytest.fixture
def study(tmp_path):
    pairs = []
    for condition in ("clean", "stale-2"):
        path = tmp_path / f"trajectories/cohort=main/condition={condition}/trunk.parquet"
        write_rows(path, [trunk_row(f"f{n}/t", condition) for n in range(2)], "trajectories")
        # The clean trunk has 6 actions (live after 5), the stale one 3 (live after 2).
        last = 5 if condition == "clean" else 2
        pairs += [
            pair_row(f"f{n}/t", condition, delay, operator, 2 + delay <= last)
            for n in range(2) for delay in (0, 1, 2) for operator in ("none", "refresh")
        ]  # fmt: skip
    write_rows(tmp_path / "pairs.parquet", pairs, "pairs")
    return tmp_path


def test_features_table(study):
    result = invoke(
        "features", "--pairs", study / "pairs.parquet", "--trajectories", study / "trajectories", "--cohort", "main",
        "--conditions", "clean,stale-2", "--delays", "0,1,2", "--operator", "refresh", "--turns", 49, "--actions", 64,
        "--out", study / "decisions.parquet",
    )  # fmt: skip
    assert result.exit_code == 0, result.exception
    rows = read_rows(study / "decisions.parquet")
    assert len(rows) == 2 * 2 * 3
    live = [row for row in rows if row["live"]]
    assert len(live) == 2 * (3 + 1)
    clean = next(row for row in live if row["condition"] == "clean" and row["delay"] == 1)
    assert {name: clean[name] for name in FEATURES} == features(prefix_at(STEPS, 3, 49, 64))
    # Stale and clean share their shown texts here, and so every feature: the condition's name is no input.
    stale = next(row for row in live if row["condition"] == "stale-2" and row["delay"] == 0)
    same = next(row for row in live if row["condition"] == "clean" and row["delay"] == 0)
    assert [stale[name] for name in FEATURES] == [same[name] for name in FEATURES]
    assert all(row[name] is None for row in rows if not row["live"] for name in FEATURES)


def test_k_reaches_no_feature(tmp_path):
    """Tasks altered at actions 1, 2 and 3 and asked 2, 1 and 0 actions later: one moment, one prefix, one set of features."""
    pairs = []
    for k in (1, 2, 3):
        task = f"f{k}/t"
        pairs += [pair_row(task, "stale-2", delay, "refresh", True, k) for delay in (0, 1, 2) if k + delay == 3]
    trunks = [
        {**trunk_row(pair["task"], "clean", pair["fork_action"] - pair["delay"]), "condition": "stale-2"}
        for pair in pairs
    ]
    write_rows(tmp_path / "cohort=main/condition=stale-2/trunk.parquet", trunks, "trajectories")
    write_rows(tmp_path / "pairs.parquet", pairs, "pairs")
    rows = decision_rows(tmp_path / "pairs.parquet", tmp_path, ["main"], ["stale-2"], [0, 1, 2], "refresh", 49, 64)
    assert [(row["task"], row["delay"]) for row in rows] == [("f1/t", 2), ("f2/t", 1), ("f3/t", 0)]
    assert len({tuple(row[name] for name in FEATURES) for row in rows}) == 1


def test_features_refuse_what_does_not_fit_together(study):
    def rows(**changes):
        given_ = {
            "pairs": study / "pairs.parquet", "trajectories": study / "trajectories", "cohorts": ["main"],
            "conditions": ["clean"], "delays": [0], "operator": "refresh", "turn_budget": 49, "action_budget": 64,
        }  # fmt: skip
        return decision_rows(**(given_ | changes))

    with pytest.raises(BadInput, match="condition missing"):
        rows(conditions=["clean", "missing"])
    with pytest.raises(BadInput, match="delay 4"):
        rows(delays=[0, 4])
    with pytest.raises(CheckFailed, match="recovered"):
        rows(operator="none")
    path = study / "trajectories/cohort=main/condition=clean/trunk.parquet"
    write_rows(path, [trunk_row("f0/t", "clean")], "trajectories")
    with pytest.raises(CheckFailed, match="f1/t: no trunk"):
        rows()


def router_file(folder):
    """A router over the real features with a strong hand for contradictions."""
    size = len(FEATURES)
    strong = [float(name == "x_recent_contradictions") * 8 for name in FEATURES]
    value = {
        "format": 1, "features": list(FEATURES), "scaling": {"mean": [0.0] * size, "scale": [1.0] * size},
        "models": {
            "p_err": {"intercept": -1.0, "coefficients": strong},
            "p_0": {"intercept": -1.0, "coefficients": [0.0] * size},
            "p_1": {"intercept": 1.0, "coefficients": [0.0] * size},
        },
        "never": False, "thresholds": {"alpha": 0.5, "beta": 0.1, "gamma": 0.0},
        "comparators": {"sequential-anomaly": {"alpha": 0.5}, "rate-matched-anomaly": {"alpha": None}},
        "lambda": 2, "epsilon": 0.02, "delays": [1, 2, 4], "operator": "refresh", "fit": {"tasks": [], "folders": []},
    }  # fmt: skip
    (folder / "router.json").write_text(json.dumps(value))
    return value


def prefix_value(number):
    prefix = prefix_at(STEPS, number, 49, 64)
    entries = [{name: getattr(entry, name) for name in Entry.__dataclass_fields__} for entry in prefix.entries]
    return {"opening": prefix.opening, "entries": entries, "turn_budget": 49, "action_budget": 64}


def test_decide(tmp_path):
    router_file(tmp_path)
    answers = []
    for number in (2, 5):
        (tmp_path / "prefix.json").write_text(json.dumps(prefix_value(number)))
        result = invoke("decide", tmp_path / "router.json", tmp_path / "prefix.json", "--format", "json")
        assert result.exit_code == 0, result.exception
        answers.append(json.loads(result.stdout))
    assert [answer["intervene"] for answer in answers] == [False, True]
    assert answers[0]["passed"] == {"alpha": False, "beta": True, "gamma": True}
    assert prefix_from_json(prefix_value(5), "x") == prefix_at(STEPS, 5, 49, 64)
    text = invoke("decide", tmp_path / "router.json", tmp_path / "prefix.json").stdout
    assert "Intervene now" in text
    assert max(map(len, text.splitlines())) <= 80


def test_decide_is_fast_and_light(tmp_path):
    import subprocess
    import sys

    router = Router.parse(router_file(tmp_path), "router")
    prefix = prefix_at(STEPS, 5, 49, 64)
    taken = []
    for _ in range(5):  # the best of five: others may use the machine
        started = time.perf_counter()
        for _ in range(50):
            router.decide(prefix)
        taken.append((time.perf_counter() - started) / 50)
    assert min(taken) < 0.001
    code = "import sys, pipeline.router.model; print({'numpy', 'pandas', 'sklearn', 'pyarrow'} & set(sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "set()\n"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": 3}, "format 3, expected 1 or 2"),
        ({"format": 2}, "lacks the key 'joint'"),
        ({"models": {}}, "lacks the key 'p_err'"),
        ({"scaling": {"mean": [0.0], "scale": [1.0]}}, "differ in length"),
        ({"lambda": "two"}, "no router"),
        ({"lambda": float("nan")}, "nan is no usable number"),
        ({"epsilon": float("inf")}, "inf is no usable number"),
        ({"delays": []}, "delays must not be empty"),
        ({"scaling": {"mean": [0.0] * len(FEATURES), "scale": [0.0] * len(FEATURES)}}, "scales be above 0"),
    ],
)
def test_damaged_routers_are_refused(tmp_path, change, message):
    with pytest.raises(BadInput, match=message):
        Router.parse(router_file(tmp_path) | change, "router.json")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"condition": "stale-2"}, "expected an object"),
        ({"entries": [{"kind": "act"}]}, r"entries\[0\]"),
        ({"entries": [{"kind": "walk", "output": "", "action": None, "shown": ""}]}, "kind 'walk'"),
        ({"turn_budget": 0}, "at least 1"),
        ({"turns": -1}, "whole number"),
    ],
)
def test_damaged_prefixes_are_refused(change, message):
    with pytest.raises(BadInput, match=message):
        prefix_from_json(prefix_value(2) | change, "prefix.json")


def test_a_router_that_lacks_a_feature_says_so(tmp_path):
    router = Router.parse(router_file(tmp_path) | {"features": ["x_unknown", *FEATURES[1:]]}, "router")
    with pytest.raises(BadInput, match="x_unknown"):
        router.decide(prefix_at(STEPS, 2, 49, 64))


def test_further_operators_stand_as_columns_of_their_outcomes(study):
    rows = read_rows(study / "pairs.parquet")
    replan = [row | {"operator": "replan-only", "ym": row["y0"]} for row in rows if row["operator"] == "refresh"]
    write_rows(study / "pairs.parquet", [*rows, *replan[1:]], "pairs")
    keys = {
        "protocol": {
            "conditions": ["clean", "stale-2"],
            "operators": ["none", "refresh", "replan-only", "content-ablated"],
        },
        "router": {"operator": "refresh", "delays": [0, 1, 2], "operators": None},
        "harness": {"turns": 49, "actions": 64},
    }
    arguments = ["features", "--pairs", study / "pairs.parquet", "--trajectories", study / "trajectories"]
    arguments += ["--cohort", "main", "--settings", json.dumps(keys), "--out", study / "decisions.parquet"]
    assert invoke(*arguments).exit_code == 0
    made = read_rows(study / "decisions.parquet")
    outcomes = [row["ym_replan-only"] for row in made]
    assert "ym_content-ablated" not in made[0]
    assert outcomes.count(None) == 1
    assert all(row["ym_replan-only"] in (row["y0"], None) for row in made)
    # Operators that are named must have been measured, and must leave the same trunk.
    assert "operator content-ablated" in str(invoke(*arguments, "--operators", "content-ablated").exception)
    write_rows(study / "pairs.parquet", [*rows, replan[0] | {"y0": not replan[0]["y0"]}], "pairs")
    assert isinstance(invoke(*arguments).exception, CheckFailed)


def test_an_extension_policy_names_its_operator(tmp_path):
    value, size = router_file(tmp_path), len(FEATURES)

    def constant(intercept):
        return {"intercept": intercept, "coefficients": [0.0] * size}

    limits = {"never": False, "thresholds": {"alpha": 0.5, "beta": 0.1, "gamma": 0.0}}
    value |= {
        "format": 2,
        "joint": {
            "refresh": {"rescue": constant(-1.0), "harm": constant(-4.0)},
            "replan-only": {"rescue": constant(1.0), "harm": constant(-4.0)},
        },
        "extensions": {"joint-outcome": limits, "operator-choice": limits},
    }
    router = Router.parse(value, "router")
    early, late = (prefix_at(STEPS, number, 49, 64) for number in (2, 5))
    assert router.operator_now("joint-outcome", early) is None
    assert router.operator_now("joint-outcome", late) == "refresh"
    assert router.operator_now("operator-choice", late) == "replan-only"
    with pytest.raises(BadInput, match="no policy 'certified'"):
        router.operator_now("certified", late)
