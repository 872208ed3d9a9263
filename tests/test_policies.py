"""Every policy on the same held-out episodes: chance, the best branch, joint-outcome, choice; differences and costs."""

import json
from fractions import Fraction
from itertools import combinations, product

import numpy as np
import pytest
from click.testing import CliRunner

from pipeline.cli import cir
from pipeline.errors import CheckFailed
from pipeline.evaluation.costs import PRICES, cost_curve, looks_of
from pipeline.evaluation.lookup import HeldOut, Outcome, held_out
from pipeline.evaluation.paired import differences, paired_figures
from pipeline.evaluation.policies import at_random, outcomes_by_policy
from pipeline.records.schemas import decisions_schema
from pipeline.records.tables import write_rows
from pipeline.router.model import Router
from pipeline.router.policy import DecisionEpisode
from pipeline.statistics.paired import mcnemar_exact, sign_flip_exact

CONDITIONS, DELAYS = ("clean", "stale-2"), (1, 2, 4)
LIMITS = {"never": False, "thresholds": {"alpha": 0.5, "beta": 0.2, "gamma": 0.0}}


def model(intercept, *coefficients):
    return {"intercept": intercept, "coefficients": list(coefficients)}


def router_value(**changes):
    """p_err follows x_a; refresh is said to rescue where x_b is high, replan-only where it is low."""
    return {
        "format": 2, "features": ["x_a", "x_b"], "scaling": {"mean": [0.0, 0.0], "scale": [1.0, 1.0]},
        "models": {"p_err": model(0.0, 3.0, 0.0), "p_0": model(0.0, 0.0, -1.0), "p_1": model(1.0, 0.0, 1.0)},
        **LIMITS,
        "comparators": {"sequential-anomaly": {"alpha": 0.5}, "rate-matched-anomaly": {"alpha": 0.9}},
        "joint": {
            "refresh": {"rescue": model(0.0, 0.0, 2.0), "harm": model(-3.0, 0.0, -1.0)},
            "replan-only": {"rescue": model(0.0, 0.0, -2.0), "harm": model(-3.0, 0.0, 1.0)},
        },
        "extensions": {
            "joint-outcome": LIMITS,
            "operator-choice": LIMITS,
            "certified": {"never": True, "thresholds": dict.fromkeys(("alpha", "beta", "gamma"))},
        },
        "lambda": 2, "epsilon": 0.02, "delays": list(DELAYS), "operator": "refresh",
        "fit": {"tasks": ["fit/1"], "folders": ["fit"]},
    } | changes  # fmt: skip


def tables(tasks=20, seed=0):
    rng = np.random.default_rng(seed)
    rows, pairs = [], []
    for task, condition in product(range(tasks), CONDITIONS):
        y0 = bool(rng.random() < 0.6)
        ends = rng.choice([1, 2, 9], p=[0.1, 0.1, 0.8])
        name = {"cohort": "e", "task": f"e{task // 2}/t{task}", "folder": f"e{task // 2}", "condition": condition}
        for delay in DELAYS:
            live = bool(delay < ends)
            made = {operator: bool(rng.random() < 0.5) if live else y0 for operator in ("refresh", "replan-only")}
            features = {x: float(rng.normal()) if live else None for x in ("x_a", "x_b")}
            base = name | {"delay": delay, "factual_success": True, "y0": y0}
            rows.append(base | {"live": live, "ym": made["refresh"], **features})
            pairs += [
                base | {"task_type": "simple", "operator": operator, "ym": ym, "cell": "rescue", "intervened": live,
                        "null_alteration": False, "fork_action": 3, "state_hash": "s", "transcript_hash": "t"}
                for operator, ym in made.items()
            ]  # fmt: skip
    return rows, pairs


@pytest.fixture
def files(tmp_path):
    def write(rows, pairs, **router):
        write_rows(tmp_path / "decisions.parquet", rows, decisions_schema(["x_a", "x_b"]))
        write_rows(tmp_path / "pairs.parquet", pairs, "pairs")
        (tmp_path / "router.json").write_text(json.dumps(router_value(**router)))
        return tmp_path

    return write


def played(folder):
    router = Router.load(folder / "router.json")
    found = held_out(router, folder / "decisions.parquet", folder / "pairs.parquet")
    return outcomes_by_policy(router, found), found


def evaluate(folder, *options):
    arguments = ["evaluate", folder / "router.json", "--decisions", folder / "decisions.parquet"]
    arguments += ["--pairs", folder / "pairs.parquet", *options]
    return CliRunner().invoke(cir, [str(argument) for argument in arguments])


def sigmoid(value):
    return 1 / (1 + np.exp(-value))


def walked(rows, pairs, test):
    """Outcome, delay and operator of each episode by walking its moments; `test` gives an operator or None."""
    ym = {(r["task"], r["condition"], r["delay"], r["operator"]): r["ym"] for r in pairs}
    found = {}
    for row in sorted(rows, key=lambda r: r["delay"]):
        key = row["task"], row["condition"]
        found.setdefault(key, (int(row["y0"]), None, None))
        if row["live"] and found[key][2] is None and (operator := test(row["x_a"], row["x_b"])):
            found[key] = int(ym[*key, row["delay"], operator]), row["delay"], operator
    return found


def by_hand(a, b, operators):
    """The rule of the joint-outcome models, written out from the coefficients above."""
    sign = {"refresh": 1, "replan-only": -1}
    rescue = {m: sigmoid(2 * sign[m] * b) for m in operators}
    u = {m: rescue[m] - 2 * sigmoid(-3 - sign[m] * b) for m in operators}
    best = max(operators, key=u.get)
    return best if sigmoid(3 * a) >= 0.5 and rescue[best] >= 0.2 and u[best] >= 0 else None


@pytest.mark.parametrize("seed", range(5))
def test_joint_outcome_and_operator_choice_take_the_branches_that_a_walk_takes(files, seed):
    rows, pairs = tables(seed=seed)
    outcomes, _ = played(files(rows, pairs))
    for policy, operators in (("joint-outcome", ["refresh"]), ("operator-choice", ["refresh", "replan-only"])):
        expected = walked(rows, pairs, lambda a, b, operators=operators: by_hand(a, b, operators))
        assert {(o.task, o.condition): (o.y, o.delay, o.operator) for o in outcomes[policy]} == expected
    used = {outcome.operator for outcome in outcomes["operator-choice"]}
    assert used == {None, "refresh", "replan-only"}
    assert all(outcome.y == outcome.y0 for outcome in outcomes["certified"])


@pytest.mark.parametrize("seed", range(5))
def test_random_is_the_exact_expectation_at_the_routers_rate(files, seed):
    outcomes, found = played(files(*tables(seed=seed)))
    acted = [outcome.delay for outcome in outcomes["cir"] if outcome.delay]
    shares = {
        delay: Fraction(acted.count(delay), sum(episode.branches[delay][1] for episode in found.episodes))
        for delay in DELAYS
    }
    assert sum(shares.values()) <= 1
    for episode, outcome in zip(found.episodes, outcomes["random"], strict=True):
        left = 1 - sum(shares.values())
        y = left * episode.y0 + sum(share * episode.branches[delay][0] for delay, share in shares.items())
        assert outcome.y == pytest.approx(float(y), abs=1e-12)
    assert sum(outcome.intervened for outcome in outcomes["random"]) == pytest.approx(len(acted))
    # The same by drawing.
    rng = np.random.default_rng(seed)
    draws = rng.choice([0, *DELAYS], p=[float(1 - sum(shares.values())), *map(float, shares.values())], size=(4000, 40))
    ys = [[episode.branches[d][0] if d else episode.y0 for d in (0, *DELAYS)] for episode in found.episodes]
    column = {d: place for place, d in enumerate((0, *DELAYS))}
    mean = np.mean([[ys[place][column[d]] for place, d in enumerate(row)] for row in draws], axis=0).sum()
    assert sum(outcome.y for outcome in outcomes["random"]) == pytest.approx(mean, abs=0.3)


def test_random_never_intervenes_twice_in_an_episode():
    """A policy that acts nearly always, at moments few episodes reach: the shares would add up to more than 1."""
    late = [
        HeldOut(f"t{n}", "clean", "f", 1, {1: (0, True), 2: (0, n == 0)}, DecisionEpisode("", "", True, ()))
        for n in range(4)
    ]
    like = [Outcome(e.task, "clean", "f", 1, 0, True, 2 if n == 0 else 1, "refresh") for n, e in enumerate(late)]
    found = at_random(late, like, "refresh")
    assert all(0 <= outcome.intervened <= 1 and 0 <= outcome.y <= 1 for outcome in found)
    assert sum(outcome.intervened for outcome in found) < 4


@pytest.mark.parametrize("seed", range(5))
def test_no_policy_beats_the_oracle_in_any_episode(files, seed):
    rows, pairs = tables(seed=seed)
    outcomes, _ = played(files(rows, pairs))
    ym = {}
    for row in pairs:
        ym.setdefault((row["task"], row["condition"]), []).append(row["ym"])
    best = outcomes["oracle"]
    assert all(outcome.y == max(outcome.y0, *ym[outcome.task, outcome.condition]) for outcome in best)
    assert all(not outcome.intervened or outcome.y > outcome.y0 for outcome in best)
    for mine in outcomes.values():
        assert all(outcome.y <= top.y for outcome, top in zip(mine, best, strict=True))


def test_differences_are_paired_and_of_every_two_policies(files):
    outcomes, _ = played(files(*tables()))
    rows = {(row["policy"], row["versus"]): row for row in differences(outcomes, 1000, 0)}
    names = [name for name in outcomes if name != "never"]
    assert set(rows) == {(later, earlier) for earlier, later in combinations(names, 2)}
    a, b = outcomes["joint-outcome"], outcomes["cir"]
    row = rows["joint-outcome", "cir"]
    better = sum(x.y > y.y for x, y in zip(a, b, strict=True))
    worse = sum(x.y < y.y for x, y in zip(a, b, strict=True))
    assert (row["better"], row["worse"], row["episodes"], row["tasks"]) == (better, worse, 40, 20)
    assert row["difference_pp"] == pytest.approx(100 * (better - worse) / 40)
    sums = {}
    for x, y in zip(a, b, strict=True):
        sums[x.task] = sums.get(x.task, 0) + x.y - y.y
    assert row["sign_flip_p"] == sign_flip_exact(list(sums.values()))
    assert row["mcnemar_p"] == mcnemar_exact(better, worse)
    # A bootstrap written out: whole tasks drawn, both policies together.
    rng, values = np.random.default_rng(3), np.array(list(sums.values()))
    means = values[rng.integers(0, 20, size=(20_000, 20))].sum(axis=1) / 40
    assert row["ci95_pp"] == pytest.approx(list(100 * np.quantile(means, [0.025, 0.975])), abs=2.6)
    swapped = paired_figures(b, [o.y for o in b], [o.y for o in a], 1000, 0)
    assert (swapped["better"], swapped["worse"], swapped["mean_pp"]) == (worse, better, -row["difference_pp"])


def test_expectations_have_intervals_and_no_tests(files):
    summary = json.loads(evaluate(files(*tables()), "--format", "json").stdout)
    random = next(row for row in summary["policies"] if row["policy"] == "random")
    router = next(row for row in summary["policies"] if row["policy"] == "cir")
    assert random["interventions"] == pytest.approx(router["interventions"])
    assert random["rescue"] - random["harm"] == pytest.approx(random["success"] - random["never_success"])
    assert random["ci95_pp"][0] < random["gain_pp"] < random["ci95_pp"][1]
    for name in ("sign_flip_p", "sign_flip_p_mc", "mcnemar_p", "clean_harm_upper95"):
        assert random[name] is None
    assert isinstance(router["rescue"], int)
    versus = next(r for r in summary["differences"] if (r["policy"], r["versus"]) == ("cir", "random"))
    assert versus["difference_pp"] == pytest.approx(router["gain_pp"] - random["gain_pp"])
    assert versus["sign_flip_p"] is None


def test_the_cost_curve_is_gain_less_the_price_of_what_was_used(files):
    outcomes, _ = played(files(*tables()))
    curve = cost_curve(outcomes, 500, 0)
    assert len(curve) == len(outcomes) * 2 * len(PRICES)
    for row in curve:
        mine = outcomes[row["policy"]]
        looks = row["unit"] == "look"
        units = sum(o.intervened for o in mine if not (looks and o.operator == "replan-only"))
        gain = sum(o.y - o.y0 for o in mine)
        assert row["value_pp"] == pytest.approx(100 * (gain - row["c"] * units) / len(mine), abs=1e-6)
        assert row["ci95_pp"][0] <= row["value_pp"] + 1e-6
        assert row["value_pp"] <= row["ci95_pp"][1] + 1e-6


def test_costs_for_each_net_rescue(files):
    folder = files(*tables())
    summary = json.loads(evaluate(folder, "--format", "json").stdout)
    for row in summary["policies"]:
        net = row["rescue"] - row["harm"]
        expected = row["interventions"] / net if net > 0 else None
        assert row["interventions_per_net_rescue"] == (expected if expected is None else pytest.approx(expected))
    choice = next(row for row in summary["policies"] if row["policy"] == "operator-choice")
    assert 0 < choice["looks"] < choice["interventions"]
    assert [looks_of(name) for name in (None, "refresh", "content-ablated", "replan-only", "theirs")] == [
        0,
        1,
        1,
        0,
        None,
    ]


def test_an_operator_nobody_knows_has_no_looks(files):
    rows, pairs = tables()
    theirs = [row | {"operator": "theirs"} for row in pairs if row["operator"] == "refresh"]
    value = router_value()
    folder = files(rows, theirs, operator="theirs", joint={"theirs": value["joint"]["refresh"]}, extensions={})
    summary = json.loads(evaluate(folder, "--format", "json").stdout)
    assert next(row for row in summary["policies"] if row["policy"] == "cir")["looks"] is None
    assert {row["unit"] for row in summary["cost_curve"] if row["policy"] == "cir"} == {"intervention"}


def test_an_operator_that_was_not_measured_leaves_choice_out_aloud(files):
    rows, pairs = tables()
    result = evaluate(files(rows, [row for row in pairs if row["operator"] == "refresh"]), "--format", "json")
    summary = json.loads(result.stdout)
    names = [row["policy"] for row in summary["policies"]]
    assert "operator-choice" not in names
    assert "joint-outcome" in names
    assert summary["not_evaluated"][0]["policy"] == "operator-choice"
    assert "replan-only" in result.stderr


def test_episodes_without_a_branch_of_an_operator_are_left_out_for_all(files):
    rows, pairs = tables()
    place = next(place for place, row in enumerate(pairs) if row["operator"] == "replan-only")
    summary = json.loads(evaluate(files(rows, pairs[:place] + pairs[place + 1 :]), "--format", "json").stdout)
    assert {row["episodes"] for row in summary["policies"]} == {39}
    assert summary["evaluable"]["episodes"] == 39


def test_operators_that_disagree_about_their_trunk_are_refused(files):
    rows, pairs = tables()
    pairs = [
        row | {"y0": not row["y0"], "ym": not row["y0"]}
        if row["operator"] == "replan-only" and row["task"] == "e0/t0" and row["condition"] == "clean" else row
        for row in pairs
    ]  # fmt: skip
    result = evaluate(files(rows, pairs))
    assert isinstance(result.exception, CheckFailed)
    assert "differ in y0" in str(result.exception)


def test_the_summary_has_equal_bytes_twice_and_its_tables_fit(files):
    folder = files(*tables())
    for name in ("first", "second"):
        assert evaluate(folder, "--out", folder / name).exit_code == 0
    assert (folder / "first").read_bytes() == (folder / "second").read_bytes()
    text = evaluate(folder).stdout
    assert max(map(len, text.splitlines())) <= 80
    assert "operator-choice - cir" in text
    assert "…" not in text
