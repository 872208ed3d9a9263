"""The router's section: frontier and calibration against brute force, contrasts and published rows beside the study's."""

import itertools
import json
import random
from pathlib import Path

import pytest
from report_study import inputs_of, make_episodes, make_study

from pipeline.outcomes.effects import Interval, contrast
from pipeline.records.files import write_json
from pipeline.records.tables import read_rows
from pipeline.report import contrasts, curves
from pipeline.report.router_tables import cost_table, difference_rows, treated_table
from pipeline.report.sections import contrast_section, router_section
from pipeline.report.treated import treated
from pipeline.router.policy import Candidate, DecisionEpisode, Thresholds, counts
from pipeline.router.thresholds import frontier


@pytest.fixture(scope="module")
def inputs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("router")
    paths = make_episodes(folder, make_study(folder, size=12, held_out=5))
    summary = json.loads(Path(paths["evaluation"]).read_text())
    one = {"ci95_pp": [-1.0, 3.0], "difference_pp": 2.0, "better": 4, "worse": 1, "sign_flip_p": 0.5}
    summary["differences"] = [
        one | {"policy": "cir", "versus": "always-1"},
        one | {"policy": "oracle", "versus": "cir"},
        one | {"policy": "oracle", "versus": "always-1"},
    ]
    summary["cost_curve"] = [
        {"policy": "cir", "unit": "look", "c": c, "value_pp": 2 - c, "ci95_pp": [0.0, 3.0]} for c in (0.0, 0.5)
    ]
    summary["policies"] = [row | {"turns_per_net_rescue": 1234.5} for row in summary["policies"]]
    write_json(paths["evaluation"], summary)
    return inputs_of(paths)


def random_episodes(seed):
    draw = random.Random(seed)
    values = [0.1, 0.3, 0.5, 0.7, 0.9]
    return [
        DecisionEpisode(
            f"t{n}", "clean" if n % 2 else "stale-2", bool(n % 2),
            tuple(
                Candidate(d, draw.choice(values), draw.choice(values), draw.choice(values) - 0.5, draw.choice([-1, 0, 0, 1]))
                for d in (1, 2, 4)[: draw.randint(0, 3)]
            ),
        )
        for n in range(30)
    ]  # fmt: skip


@pytest.mark.parametrize("seed", range(4))
def test_frontier_equals_trying_every_triple(seed):
    some = random_episodes(seed)
    grid, gammas = [0.0, 0.1, 0.3, 0.5, 0.7, 0.9, 1.0], [-0.4, 0.0, 0.2]
    tried = [counts(Thresholds(*triple), some) for triple in itertools.product(grid, grid, gammas)]
    wanted = []
    for harms in sorted({one.clean_harms for one in tried}):
        best = max(one.net_gain for one in tried if one.clean_harms <= harms)
        if not wanted or best > wanted[-1][1]:
            wanted.append((harms, best))
    assert frontier(some, grid, grid, gammas) == wanted


def test_the_curve_has_the_policies_where_the_fit_cohort_puts_them_and_none_above_it(inputs):
    rows = curves.risk_gain(inputs)
    steps = [(row["clean_harms"], row["net_gain"]) for row in rows if row["what"] == "frontier"]
    assert steps == sorted(steps)
    for row in rows:
        reachable = [gain for harms, gain in steps if harms <= row["clean_harms"]]
        assert row["net_gain"] <= max(reachable)
        assert row["clean_episodes"] == row["altered_episodes"] == 12
    limits = inputs.router.thresholds
    gain = harms = 0
    pairs = {(p["task"], p["condition"], p["delay"]): p for p in inputs.pairs if p["operator"] == "refresh"}
    for task, condition in sorted({(row["task"], row["condition"]) for row in inputs.oof}):
        for row in sorted(
            (r for r in inputs.oof if (r["task"], r["condition"]) == (task, condition)), key=lambda r: r["delay"]
        ):
            if row["p_err"] >= limits.alpha and 1 - row["p_0"] >= limits.beta and row["u"] >= limits.gamma:
                pair = pairs[task, condition, row["delay"]]
                change = int(pair["ym"]) - int(pair["y0"])
                gain, harms = gain + change * (condition != "clean"), harms + (condition == "clean" and change < 0)
                break
    cir = next(row for row in rows if row["what"] == "cir")
    assert (cir["net_gain"], cir["clean_harms"]) == (gain, harms)


def test_reliability_counts_every_moment_once(inputs):
    rows = curves.reliability(inputs)
    pairs = {(p["task"], p["condition"], p["delay"]): p for p in inputs.pairs if p["operator"] == "refresh"}
    truth = {"p_err": lambda p: p["condition"] != "clean", "p_0": lambda p: p["y0"], "p_1": lambda p: p["ym"]}
    for model, label in truth.items():
        mine = [row for row in rows if row["model"] == model]
        came = [(one[model], label(pairs[one["task"], one["condition"], one["delay"]])) for one in inputs.oof]
        assert sum(row["moments"] for row in mine) == len(came)
        assert sum(row["moments"] * row["observed"] for row in mine) == pytest.approx(sum(y for _, y in came))
        assert sum(row["moments"] * row["predicted"] for row in mine) == pytest.approx(sum(p for p, _ in came))
        assert mine[0]["brier"] == pytest.approx(sum((p - y) ** 2 for p, y in came) / len(came))


def test_fit_tasks_are_answered_out_of_fold_and_held_out_ones_by_the_frozen_router(inputs):
    answers = treated(inputs.router, inputs.decisions, inputs.oof)
    roles = {key[0] for key in answers}
    assert roles == {"main", "evaluation"}
    assert {key[2] for key in answers if key[0] == "main"} == {"clean", "stale-2"}
    assert {key[2] for key in answers if key[0] == "evaluation"} == {"clean", "stale-2", "stale-1", "missing"}
    for row in inputs.oof:
        moments = dict(answers["main", row["task"], row["condition"]].moments)
        assert moments[row["delay"]].p_err == row["p_err"]
    for row in inputs.decisions:
        if row["cohort"] == "evaluation" and row["live"]:
            assert dict(answers["evaluation", row["task"], row["condition"]].moments)[
                row["delay"]
            ] == inputs.router.signals(row)
    shown = treated_table(inputs, answers)
    assert sum(int(row[3]) for row in shown.rows) == len(answers)
    for row in shown.rows:
        if row[2] != "never":
            assert int(row[3]) == sum(map(int, row[4:]))


def test_differences_are_turned_so_that_the_router_comes_first(inputs):
    rows = {row["versus"]: row for row in difference_rows(inputs)}
    assert rows.keys() == {"always-1", "oracle"}
    assert (rows["oracle"]["difference_pp"], rows["oracle"]["ci_low_pp"], rows["oracle"]["ci_high_pp"]) == (
        -2.0,
        -3.0,
        1.0,
    )
    assert (rows["oracle"]["better"], rows["oracle"]["worse"]) == (1, 4)
    assert (rows["always-1"]["better"], rows["always-1"]["worse"]) == (4, 1)


def test_every_unit_that_the_evaluation_counts_is_a_column_of_costs(inputs):
    table = cost_table(inputs)
    assert table.headings == ["policy", "net rescues", "turns"]
    assert {row[2] for row in table.rows} == {"1,234.50"}


def test_sections_draw_what_they_have(inputs):
    answers = treated(inputs.router, inputs.decisions, inputs.oof)
    drawn = {one.figure.name for one in router_section(inputs, answers).drawings}
    assert drawn == {
        "policies-differences",
        "router-risk-gain",
        "router-reliability",
        "router-coefficients",
        "policies-cost-look",
    }
    ghosts = contrasts.published_effects(inputs)
    captions = [table.caption for table in contrast_section(inputs, ghosts).tables]
    assert captions[0] == "Effect under alteration less effect under clean"
    assert captions[-1].startswith("Published effects")


def test_contrasts_are_those_of_the_contrast_command(inputs):
    rows = [row for row in contrasts.condition_contrasts(inputs) if row["condition"] == "stale-2"]
    settings = inputs.study.statistics
    assert rows == contrast(
        inputs.paths.pairs, "stale-2", "clean", None, "refresh", Interval(settings.resamples, settings.seed)
    )


def test_overlap_counts_the_tasks_that_both_rescue(inputs):
    pairs = read_rows(inputs.paths.pairs)
    rescued = {m: {(p["task"], p["condition"], p["delay"]) for p in pairs
                   if p["operator"] == m and p["cell"] == "rescue" and p["cohort"] == "main"}
               for m in ("refresh", "content-ablated")}  # fmt: skip
    rows = [
        row for row in contrasts.operator_overlaps(inputs)
        if (row["cohort"], row["population"], row["versus_operator"]) == ("main", "complete", "content-ablated")
    ]  # fmt: skip
    assert sum(row["rescue_both"] for row in rows) == len(rescued["refresh"] & rescued["content-ablated"])
    assert sum(row["rescue_only_operator"] for row in rows) == len(rescued["refresh"] - rescued["content-ablated"])


def test_published_rows_stand_only_beside_rows_of_the_same_keys(inputs):
    ghosts = contrasts.published_effects(inputs)
    assert {row["cohort"] for row in ghosts} == {"main"}
    found = {(row["population"], row["condition"], row["delay"]): row for row in ghosts}
    assert found["complete", "clean", 0]["effect_pp"] == -3.77
    # Published as counts alone: 15 rescues and 4 harms of 93.
    assert found["factual-success", "stale-2", 1]["effect_pp"] == pytest.approx(100 * 11 / 93)
    assert found["factual-success", "stale-2", 1]["ci_low_pp"] is None
