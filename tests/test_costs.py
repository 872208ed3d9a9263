"""What policies cost: pairs count turns, actions and tokens of both sides; evaluation adds them up for each policy."""

import json
from itertools import product

import numpy as np
import pyarrow as pa
import pytest
from test_outcomes import branch, episode, paired, step, study  # noqa: F401
from test_policies import CONDITIONS, DELAYS, by_hand, evaluate, files, router_value, sigmoid, tables, walked  # noqa: F401

from pipeline.errors import BadInput
from pipeline.evaluation.costs import PRICES, UNITS, prices
from pipeline.records.tables import read_rows, write_rows, write_table

KINDS = ("turns", "actions", "prompt_tokens", "completion_tokens")


def told(tasks=20, seed=0):
    """The tables of the policies' tests with what each branch and trunk spent; one trunk an episode, as it must be."""
    rows, pairs = tables(tasks, seed)
    rng = np.random.default_rng(seed + 100)
    trunk = {}
    for pair in pairs:
        for kind in KINDS:
            # Tokens are those after the fork, so they differ from delay to delay.
            moment = pair["delay"] if kind.endswith("tokens") else None
            key = (pair["task"], pair["condition"], moment, kind)
            mine = trunk.setdefault(key, int(rng.integers(20, 50)))
            pair[f"{kind}_0"] = mine
            pair[f"{kind}_m"] = int(rng.integers(5, 60)) if pair["intervened"] else mine
    return rows, pairs


def by_policy(summary):
    return {(row["policy"], row["unit"]): row for row in summary["costs"]}


def summary_of(files, rows, pairs, **router):  # noqa: F811
    result = evaluate(files(rows, pairs, **router), "--format", "json", "--resamples", "4000")
    assert result.exit_code == 0, result.exception
    return json.loads(result.stdout)


def spent(pairs, kind):
    return {
        (p["task"], p["condition"], p["delay"], p["operator"]): p[f"{kind}_m"] - p[f"{kind}_0"] for p in pairs
    }  # fmt: skip


@pytest.mark.parametrize("seed", [0, 3])
def test_costs_are_those_of_the_branches_that_a_walk_takes(files, seed):  # noqa: F811
    rows, pairs = told(seed=seed)
    summary = summary_of(files, rows, pairs)
    costs = by_policy(summary)
    rules = {
        "joint-outcome": lambda a, b: by_hand(a, b, ["refresh"]),
        "operator-choice": lambda a, b: by_hand(a, b, ["refresh", "replan-only"]),
        "sequential-anomaly": lambda a, b: "refresh" if sigmoid(3 * a) >= 0.5 else None,
    }
    for (policy, rule), kind in product(rules.items(), KINDS):
        extra = spent(pairs, kind)
        found = walked(rows, pairs, rule)
        each = {key: extra[*key, delay, m] if m else 0 for key, (_, delay, m) in found.items()}
        y0 = {(r["task"], r["condition"]): r["y0"] for r in rows}
        net = sum(y - y0[key] for key, (y, _, _) in found.items())
        row = costs[policy, kind.removesuffix("s")]
        assert row["total"] == sum(each.values())
        assert row["per_episode"] == pytest.approx(sum(each.values()) / 40)
        assert row["per_net_rescue"] == (pytest.approx(sum(each.values()) / net) if net > 0 else None)
        # The interval, by drawing tasks one by one.
        tasks = sorted({task for task, _ in each})
        sums = np.array([sum(each[task, condition] for condition in CONDITIONS) for task in tasks])
        drawn = sums[np.random.default_rng(1).integers(0, len(tasks), size=(20_000, len(tasks)))].sum(axis=1) / 40
        spread = np.ptp(sums) / 40
        assert row["ci95"] == pytest.approx(np.quantile(drawn, [0.025, 0.975]), abs=0.25 * spread)
    assert {costs["never", unit]["total"] for unit in UNITS} == {0}
    assert any(costs["operator-choice", u]["total"] != costs["joint-outcome", u]["total"] for u in UNITS)


def test_always_and_the_oracle_by_hand(files):  # noqa: F811
    rows, pairs = told()
    costs = by_policy(summary_of(files, rows, pairs))
    for delay, kind in product(DELAYS, KINDS):
        mine = [p for p in pairs if p["operator"] == "refresh" and p["delay"] == delay]
        assert costs[f"always-{delay}", kind[:-1]]["total"] == sum(p[f"{kind}_m"] - p[f"{kind}_0"] for p in mine)
    best = {}
    for p in sorted(pairs, key=lambda p: (p["delay"], p["operator"] != "refresh")):
        if p["ym"] and not p["y0"]:
            best.setdefault((p["task"], p["condition"]), p)
    assert costs["oracle", "turn"]["total"] == sum(p["turns_m"] - p["turns_0"] for p in best.values())
    assert costs["oracle", "look"]["total"] == sum(p["operator"] == "refresh" for p in best.values())


@pytest.mark.parametrize("seed", [0, 1])
def test_random_costs_what_its_draws_cost_on_average(files, seed):  # noqa: F811
    """Simulated: one uniform number an episode picks the delay, at the rate of the router's own interventions."""
    rows, pairs = told(seed=seed)
    costs = by_policy(summary_of(files, rows, pairs))
    live = {(r["task"], r["condition"], r["delay"]): r["live"] for r in rows}

    def passes(a, b):
        need, p_1 = 1 - sigmoid(-b), sigmoid(1 + b)
        return (
            "refresh"
            if sigmoid(3 * a) >= 0.5 and need >= 0.2 and need * p_1 - 2 * (1 - need) * (1 - p_1) >= 0
            else None
        )

    acted = [delay for _, delay, operator in walked(rows, pairs, passes).values() if operator]
    share = np.array([acted.count(d) / sum(live[k] for k in live if k[2] == d) for d in DELAYS])
    share /= max(1.0, share.sum())
    rng = np.random.default_rng(seed)
    keys = sorted({key[:2] for key in live})
    for kind in ("turns", "prompt_tokens"):
        extra = spent(pairs, kind)
        table = np.array([[extra[*key, d, "refresh"] * live[*key, d] for d in DELAYS] + [0] for key in keys])
        edges = np.cumsum(share)
        drawn = (rng.random((4000, len(keys), 1)) >= edges).sum(axis=2)
        totals = table[np.arange(len(keys)), drawn].sum(axis=1)
        error = 4 * totals.std() / 4000**0.5
        assert costs["random", kind[:-1]]["total"] == pytest.approx(totals.mean(), abs=error)


def test_values_fall_with_the_price_as_the_costs_say(files):  # noqa: F811
    summary = summary_of(files, *told())
    costs, gains = by_policy(summary), {row["policy"]: row["gain_pp"] for row in summary["policies"]}
    assert len(summary["cost_curve"]) == len(gains) * len(UNITS) * len(PRICES)
    for row in summary["cost_curve"]:
        expected = gains[row["policy"]] - 100 * row["c"] * costs[row["policy"], row["unit"]]["per_episode"]
        assert row["value_pp"] == pytest.approx(expected, abs=1e-6)
        assert row["ci95_pp"][0] - 1e-6 <= row["value_pp"] <= row["ci95_pp"][1] + 1e-6
    assert {row["c"] for row in summary["cost_curve"] if row["unit"] == "prompt_token"} == {p / 1000 for p in PRICES}
    assert prices("turn") == PRICES


def test_a_table_without_costs_says_so_and_is_never_free(files):  # noqa: F811
    rows, pairs = tables()
    folder = files(rows, pairs)
    bare = [{name: value for name, value in row.items() if not name.endswith(("_0", "_m"))} for row in read_rows(folder / "pairs.parquet")]  # fmt: skip
    write_table(folder / "pairs.parquet", pa.Table.from_pylist(bare))
    result = evaluate(folder, "--costs")
    assert result.exit_code == 0, result.exception
    assert max(map(len, result.stdout.splitlines())) <= 80
    section = result.stdout.split("Used more than never, an episode\n")[1].splitlines()
    assert section[1].split() == ["never", "0.000", "0.000", "n/a", "n/a", "n/a", "n/a"]
    costs = by_policy(json.loads(evaluate(folder, "--format", "json").stdout))
    for policy, unit in product(("never", "cir", "random", "oracle"), UNITS[2:]):
        assert all(costs[policy, unit][name] is None for name in ("total", "per_episode", "ci95", "per_net_rescue"))


def test_one_branch_without_a_count_leaves_its_policies_unknown_and_the_others_not(files):  # noqa: F811
    rows, pairs = told()
    for pair in pairs:
        if pair["operator"] == "refresh" and pair["delay"] == 4:
            pair["completion_tokens_m"] = None
    costs = by_policy(summary_of(files, rows, pairs))
    assert costs["always-4", "completion_token"]["total"] is None
    assert costs["always-4", "prompt_token"]["total"] is not None
    assert costs["always-1", "completion_token"]["total"] is not None
    assert costs["never", "completion_token"]["total"] == 0


def test_costs_that_are_no_numbers_are_refused_by_name(files):  # noqa: F811
    folder = files(*told())
    rows = [row | {"turns_m": "many"} for row in read_rows(folder / "pairs.parquet")]
    write_table(folder / "pairs.parquet", pa.Table.from_pylist(rows))
    result = evaluate(folder)
    assert isinstance(result.exception, BadInput)
    assert "turns_m" in str(result.exception)


def test_a_trunk_has_one_number_of_turns(files):  # noqa: F811
    rows, pairs = told()
    pairs[0]["turns_0"] += 1
    result = evaluate(files(rows, pairs))
    assert "turns_0 differs" in str(result.exception)


def counted(tokens):
    """Steps of a trunk: a replayed prefix up to the second action, then calls with these (prompt, completion) tokens."""
    steps = [step(0, "reset", "room"), step(1), step(2, shown="stale")]
    kinds = ["act", "think", "act", "unparseable", "act"]
    return steps + [
        step(3 + place, kind) | {"prompt_tokens": prompt, "completion_tokens": completion}
        for place, (kind, (prompt, completion)) in enumerate(zip(kinds, tokens, strict=False))
    ]


TOKENS = [(100, 1), (110, 2), (120, 4), (130, 8), (140, 16)]


def counting(kind, rows):
    """Trunks that count tokens; branches with three own calls, or none after the recovery, or carried forward."""
    if kind == "trunk":
        return [
            row | {"steps": counted(TOKENS), "prompt_tokens": 600, "completion_tokens": 31, "turns": 7} for row in rows
        ]
    if kind != "branch":
        return rows
    played = [step(4, "recover"), *counted(TOKENS)[3:6]]
    made = []
    for place, row in enumerate(rows):
        spent = {"steps": played, "prompt_tokens": 345, "completion_tokens": 7, "turns": 9, "actions": 8}
        if place == 1:  # The recovery's look was the last action that the budget had.
            spent = {"steps": played[:1], "prompt_tokens": None, "completion_tokens": None}
        made.append(row | spent)
    return made


def test_pairs_hold_what_both_sides_spent(study):  # noqa: F811
    pairs, _ = paired(study(counting))
    # k = 2 and actions stand at steps 1, 2, 3, 5, 7: what follows action k + d.
    after = {0: (600, 31), 1: (500, 30)}
    for row in pairs:
        assert (row["turns_0"], row["actions_0"]) == (7, 4)
        assert (row["prompt_tokens_0"], row["completion_tokens_0"]) == after[row["delay"]]
        if row["task"] == "folder1/trial1":
            assert (row["prompt_tokens_m"], row["completion_tokens_m"], row["turns_m"]) == (0, 0, 4)
        else:
            assert (row["prompt_tokens_m"], row["completion_tokens_m"]) == (345, 7)
            assert (row["turns_m"], row["actions_m"]) == (9, 8)


def test_agents_that_count_nothing_have_nulls_and_no_zeros(study):  # noqa: F811
    pairs, _ = paired(study())
    assert {row[f"{kind}_{side}"] for row in pairs for kind in KINDS[2:] for side in "0m"} == {None}
    assert {row["turns_0"] for row in pairs} == {4}


def test_a_step_without_its_count_leaves_the_trunks_share_unknown(study):  # noqa: F811
    def gap(kind, rows):
        rows = counting(kind, rows)
        return [row | {"steps": counted([(100, 1), (None, 2), (120, None), *TOKENS[3:]])} for row in rows] if kind == "trunk" else rows  # fmt: skip

    pairs, _ = paired(study(gap))
    assert {(row["prompt_tokens_0"], row["completion_tokens_0"]) for row in pairs} == {(None, None)}
    assert {row["prompt_tokens_m"] for row in pairs} == {345, 0}


def test_a_task_that_had_ended_spends_nothing_more(study):  # noqa: F811
    def ended(kind, rows):
        rows = counting(kind, rows)
        if kind == "branch":
            return [row | {"steps": [], "prompt_tokens": None, "completion_tokens": None, "carried_forward": True,
                           "intervened": False, "turns": 7, "success": row["condition"] == "clean",
                           "fork_action": 9} for row in rows]  # fmt: skip
        return rows

    pairs, _ = paired(study(ended))
    for row in pairs:
        assert [row[f"{kind}_{side}"] for kind in KINDS[2:] for side in "0m"] == [0] * 4
        assert (row["turns_0"], row["turns_m"]) == (7, 7)


def test_trunks_of_earlier_versions_have_steps_without_tokens(study):  # noqa: F811
    folder = study()
    for path in folder.rglob("trunk.parquet"):
        rows = read_rows(path)
        for row in rows:
            row["steps"] = [{k: v for k, v in s.items() if not k.endswith("tokens")} for s in row["steps"]]
        write_table(path, pa.Table.from_pylist(rows))
    pairs, _ = paired(folder)
    assert len(pairs) == 24
    assert {row["prompt_tokens_0"] for row in pairs} == {None}


def test_a_pairs_row_may_leave_its_costs_out(tmp_path):
    _, pairs = tables(2)
    write_rows(tmp_path / "pairs.parquet", pairs, "pairs")
    assert {row["turns_m"] for row in read_rows(tmp_path / "pairs.parquet", "pairs")} == {None}
