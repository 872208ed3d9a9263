"""Policies on held-out tasks: published counts, look-up of branches, disjointness, and clear ends."""

import json
from itertools import product

import pytest
from click.testing import CliRunner

from pipeline.cli import cir
from pipeline.errors import BadInput, CheckFailed
from pipeline.evaluation.lookup import held_out, play
from pipeline.records.schemas import decisions_schema
from pipeline.records.tables import write_rows
from pipeline.router.model import Router
from pipeline.router.policy import Thresholds

CONDITIONS = ("clean", "stale-1", "stale-2", "missing")
# Published: never succeeds 61, 51, 45, 54 times; CIR rescues 0, 1, 9, 1 and harms 0, 0, 2, 0; acts 0, 17, 31, 1 times.
NEVER = dict(zip(CONDITIONS, (61, 51, 45, 54), strict=True))
RESCUE = dict(zip(CONDITIONS, (0, 1, 9, 1), strict=True))
HARM = dict(zip(CONDITIONS, (0, 0, 2, 0), strict=True))
ACTS = dict(zip(CONDITIONS, (0, 17, 31, 1), strict=True))


def router_value(**changes):
    """p_err is high where x_act is 1; p_0 and p_1 let every such moment pass."""
    return {
        "format": 1, "features": ["x_act"], "scaling": {"mean": [0.0], "scale": [1.0]},
        "models": {
            "p_err": {"intercept": -5.0, "coefficients": [10.0]},
            "p_0": {"intercept": -2.0, "coefficients": [0.0]},
            "p_1": {"intercept": 2.0, "coefficients": [0.0]},
        },
        "never": False, "thresholds": {"alpha": 0.876, "beta": 0.052, "gamma": 0.0},
        "comparators": {"sequential-anomaly": {"alpha": 0.5}, "rate-matched-anomaly": {"alpha": None}},
        "lambda": 2, "epsilon": 0.02, "delays": [1, 2, 4], "operator": "refresh",
        "fit": {"tasks": ["fit/1"], "folders": ["fit"]},
    } | changes  # fmt: skip


def published_tables():
    """75 tasks whose episodes have the published counts; the router's moment is d = 2, where only it acts."""
    decisions, pairs = [], []
    for condition, place in product(CONDITIONS, range(75)):
        # Rescues and harms are laid so that nine tasks gain 1, one gains 2 and two lose 1 (protocol.md section 4).
        rescued = place in {"clean": (), "stale-1": (0,), "stale-2": tuple(range(1, 10)), "missing": (9,)}[condition]
        harmed = condition == "stale-2" and place in (20, 21)
        acted = rescued or harmed
        y0 = harmed or (not rescued and place >= 75 - NEVER[condition] + harmed)
        decisions.append([condition, place, y0, rescued, harmed, acted])
    for condition in CONDITIONS:
        mine = [row for row in decisions if row[0] == condition]
        idle = [row for row in mine if not row[5]]
        for row in idle[: ACTS[condition] - sum(row[5] for row in mine)]:
            row[5] = True
        spare = NEVER[condition] - sum(row[2] for row in mine)
        # Set the remaining trunks so that the published number succeeds without recovery.
        for row in mine:
            if spare > 0 and not row[2] and not row[3]:
                row[2], spare = True, spare - 1
            elif spare < 0 and row[2] and not row[4]:
                row[2], spare = False, spare + 1
    rows = []
    for condition, place, y0, rescued, harmed, acted in decisions:
        name = {"cohort": "evaluation", "task": f"e{place:02}/t", "folder": f"e{place:02}", "condition": condition}
        for delay in (0, 1, 2, 4):
            here = delay == 2
            ym = rescued or (y0 and not harmed) if here else y0
            pairs.append(
                name | {"task_type": "simple", "factual_success": True, "delay": delay, "operator": "refresh", "y0": y0,
                        "ym": ym, "cell": "rescue", "intervened": True, "null_alteration": False, "fork_action": 3,
                        "state_hash": "s", "transcript_hash": "t"}
            )  # fmt: skip
            if delay:
                rows.append(
                    name | {"delay": delay, "live": True, "factual_success": True, "y0": y0, "ym": ym,
                            "x_act": float(here and acted)}
                )  # fmt: skip
    return rows, pairs


@pytest.fixture
def files(tmp_path):
    def write(rows=None, pairs=None, **router):
        mine, theirs = published_tables()
        write_rows(tmp_path / "decisions.parquet", mine if rows is None else rows, decisions_schema(["x_act"]))
        write_rows(tmp_path / "pairs.parquet", theirs if pairs is None else pairs, "pairs")
        (tmp_path / "router.json").write_text(json.dumps(router_value(**router)))
        return tmp_path

    return write


def evaluate(folder, *options):
    return CliRunner().invoke(
        cir, ["evaluate", str(folder / "router.json"), "--decisions", str(folder / "decisions.parquet"),
              "--pairs", str(folder / "pairs.parquet"), *options],
    )  # fmt: skip


def test_published_counts_give_the_published_evaluation(files):
    folder = files()
    result = evaluate(folder, "--format", "json", "--out", str(folder / "summary.json"))
    assert result.exit_code == 0, result.exception
    summary = json.loads(result.stdout)
    assert summary == json.loads((folder / "summary.json").read_text())
    by_name = {row["policy"]: row for row in summary["policies"]}
    assert list(by_name) == [
        "never", "always-0", "always-1", "always-2", "always-4", "random", "sequential-anomaly", "rate-matched-anomaly",
        "cir", "oracle",
    ]  # fmt: skip
    never, router = by_name["never"], by_name["cir"]
    assert (never["success"], never["episodes"], never["tasks"], never["gain_pp"]) == (211, 300, 75, 0)
    assert (router["success"], router["rescue"], router["harm"], router["interventions"]) == (220, 11, 2, 49)
    assert (round(router["success_rate"], 2), round(router["gain_pp"], 2)) == (73.33, 3.0)
    assert [round(end, 2) for end in router["ci95_pp"]] == [0.67, 5.67]
    assert round(router["intervention_rate"], 1) == 16.3
    # Each task has its own folder here, so drawing folders is drawing tasks.
    assert router["ci95_folder_pp"] == router["ci95_pp"]
    assert router["sign_flip_p"] == pytest.approx(0.0332, abs=5e-5)
    assert router["sign_flip_p_mc"] == pytest.approx(0.0332, abs=0.005)
    assert (router["clean_harm_rate"], round(router["clean_harm_upper95"], 1)) == (0, 3.9)
    by_condition = {row["condition"]: row for row in router["by_condition"]}
    assert next(iter(by_condition)) == "clean"
    for condition in CONDITIONS:
        row = by_condition[condition]
        assert (row["tasks"], row["never_success"], row["interventions"]) == (75, NEVER[condition], ACTS[condition])
        assert (row["rescue"], row["harm"]) == (RESCUE[condition], HARM[condition])
    assert by_name["always-2"]["interventions"] == 300
    assert by_name["rate-matched-anomaly"]["interventions"] == 0
    assert summary["planned"] == summary["evaluable"] == {"tasks": 75, "episodes": 300}


def test_printed_tables_fit_a_terminal(files):
    text = evaluate(files()).stdout
    assert max(len(line) for line in text.splitlines()) <= 80
    assert "…" not in text
    assert "rate-matched-anomaly" in text
    assert "at most 3.92%" in text
    assert "cir - sequential-anomaly" in text
    assert "oracle - cir" in text


def small(live=(True, True, True), acts=(0, 1, 1), outcomes=(0, 0, 1, 0), y0=0):
    """One task, one condition: delays 0, 1, 2, 4 with the given outcomes; candidate moments 1, 2, 4."""
    name = {"cohort": "e", "task": "e1/t", "folder": "e1", "condition": "stale-2"}
    alive = dict(zip((0, 1, 2, 4), (True, *live), strict=True))
    pairs = [
        name | {"task_type": "simple", "factual_success": True, "delay": delay, "operator": "refresh", "y0": bool(y0),
                "ym": bool(ym if alive[delay] else y0), "cell": "rescue", "intervened": alive[delay], "null_alteration": False,
                "fork_action": 3, "state_hash": "s", "transcript_hash": "t"}
        for delay, ym in zip((0, 1, 2, 4), outcomes, strict=True)
    ]  # fmt: skip
    rows = [
        name | {"delay": delay, "live": alive[delay], "factual_success": True, "y0": bool(y0),
                "ym": pairs[place + 1]["ym"], "x_act": float(act) if alive[delay] else None}
        for place, (delay, act) in enumerate(zip((1, 2, 4), acts, strict=True))
    ]  # fmt: skip
    return rows, pairs


def test_the_first_passing_moment_is_taken_and_only_once(files):
    folder = files(*small(acts=(0, 1, 1), outcomes=(0, 0, 1, 0)))
    router = Router.load(folder / "router.json")
    found = held_out(router, folder / "decisions.parquet", folder / "pairs.parquet")
    assert [outcome.y for outcome in play(found.episodes, router.thresholds)] == [1]
    assert [outcome.y for outcome in play(found.episodes, 4)] == [0]
    assert play(found.episodes, Thresholds(1.0, 0.0, 0.0))[0].intervened is False


def test_an_episode_that_has_ended_keeps_its_trunks_outcome(files):
    folder = files(*small(live=(True, False, False), acts=(0, 1, 1), y0=1, outcomes=(1, 0, 0, 0)))
    summary = json.loads(evaluate(folder, "--format", "json").stdout)
    by_name = {row["policy"]: row for row in summary["policies"]}
    assert (by_name["cir"]["interventions"], by_name["cir"]["success"]) == (0, 1)
    assert (by_name["always-4"]["interventions"], by_name["always-4"]["success"]) == (0, 1)
    assert (by_name["always-1"]["interventions"], by_name["always-1"]["harm"]) == (1, 1)


@pytest.mark.parametrize("fit", [{"tasks": ["e03/t"], "folders": []}, {"tasks": [], "folders": ["e03"]}])
def test_a_task_or_folder_that_was_fitted_on_is_refused(files, fit):
    result = evaluate(files(fit=fit))
    assert isinstance(result.exception, CheckFailed)
    assert "were fitted on" in str(result.exception)
    assert "e03" in str(result.exception)


def test_cohorts_are_chosen(files):
    rows, pairs = published_tables()
    fitted = [row | {"cohort": "main", "task": "fit/1", "folder": "fit"} for row in rows if row["task"] == "e00/t"]
    folder = files(rows + fitted, pairs)
    assert isinstance(evaluate(folder).exception, CheckFailed)
    assert evaluate(folder, "--cohort", "evaluation").exit_code == 0
    assert isinstance(evaluate(folder, "--cohort", "other").exception, BadInput)


def test_episodes_that_lack_a_branch_are_counted_and_left_out_for_all(files):
    rows, pairs = published_tables()
    folder = files(rows[1:], pairs[:-1])
    result = evaluate(folder, "--format", "json")
    summary = json.loads(result.stdout)
    assert summary["planned"] == {"tasks": 75, "episodes": 300}
    assert summary["evaluable"] == {"tasks": 75, "episodes": 298}
    assert {row["episodes"] for row in summary["policies"]} == {298}
    assert "2 of 300 episodes can't be evaluated" in result.stderr


def test_tables_that_contradict_each_other_are_refused(files):
    rows, pairs = small()
    for change_rows, change_pairs, message in [
        ({"ym": True}, {}, "ym is True"),
        ({"live": False, "x_act": None}, {}, "live is False"),
        ({}, {"y0": True}, "y0 differs"),
    ]:
        folder = files([rows[0] | change_rows, *rows[1:]], [pairs[0], pairs[1] | change_pairs, *pairs[2:]])
        result = evaluate(folder)
        assert isinstance(result.exception, CheckFailed)
        assert message in str(result.exception)
    result = evaluate(files(rows, [row | {"intervened": False} for row in pairs]))
    assert "not intervened on" in str(result.exception)


def test_missing_features_delays_and_operators_are_named(files):
    rows, pairs = small()
    for result, message in [
        (evaluate(files(rows, pairs, features=["x_other"])), "x_other"),
        (evaluate(files(rows, pairs, delays=[1, 3])), "candidate delay(s) 3"),
        (evaluate(files(rows, pairs, operator="reveal")), "operator reveal"),
        (evaluate(files(rows, [*pairs, pairs[0]])), "stands twice"),
    ]:
        assert isinstance(result.exception, BadInput)
        assert message in str(result.exception)
    nothing = evaluate(files(rows[1:], pairs))
    assert isinstance(nothing.exception, BadInput | CheckFailed)


def test_a_router_that_never_acts_is_evaluated(files):
    folder = files(never=True, thresholds={"alpha": None, "beta": None, "gamma": None})
    summary = json.loads(evaluate(folder, "--format", "json").stdout)
    row = next(row for row in summary["policies"] if row["policy"] == "cir")
    assert (row["interventions"], row["gain_pp"], row["sign_flip_p"], row["mcnemar_p"]) == (0, 0, 1, 1)
