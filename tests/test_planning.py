"""Power, certification and the pilot gate, against brute force, simulation, scipy and the published counts."""

import csv
import io
import json
import re
from math import comb
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from pipeline.cli import cir
from pipeline.errors import BadInput
from pipeline.records.tables import write_table
from pipeline.statistics.gate import clopper_pearson, gate
from pipeline.statistics.paired import mcnemar_exact
from pipeline.statistics.power import clean_tasks_needed, mcnemar_power, tasks_needed


def run(*arguments):
    return CliRunner().invoke(cir, [str(argument) for argument in arguments])


def printed(*arguments):
    result = run(*arguments)
    assert result.exit_code == 0, result.output
    return result.stdout


def enumerated_power(n, r, h, alpha):
    return sum(
        comb(n, b) * comb(n - b, c) * r**b * h**c * (1 - r - h) ** (n - b - c)
        for b in range(n + 1) for c in range(n - b + 1) if mcnemar_exact(b, c) <= alpha
    )  # fmt: skip


@pytest.mark.parametrize(
    ("n", "r", "h", "alpha"),
    # The second and the last stand where twice the tail is alpha exactly.
    [(12, 0.3, 0.1, 0.05), (30, 0.2, 0.05, 0.0625), (25, 0.5, 0.5, 0.05), (9, 0.2, 0.2, 0.01), (5, 1.0, 0.0, 0.0625)],
)
def test_power_is_the_enumerated_trinomial_sum(n, r, h, alpha):
    assert mcnemar_power(n, r, h, alpha) == pytest.approx(enumerated_power(n, r, h, alpha), abs=1e-11)


@pytest.mark.parametrize(("n", "r", "h"), [(106, 17 / 106, 10 / 106), (481, 17 / 106, 10 / 106), (67, 10 / 67, 1 / 67)])
def test_power_is_what_simulation_finds(n, r, h):
    draws = np.random.default_rng(2).multinomial(n, [r, h, 1 - r - h], size=20_000)
    rejected = {}
    for b, c, _ in draws.tolist():
        rejected.setdefault((b, c), mcnemar_exact(b, c) <= 0.05)
    share = np.mean([rejected[b, c] for b, c, _ in draws.tolist()])
    assert mcnemar_power(n, r, h) == pytest.approx(share, abs=0.012)


def test_a_published_effect_would_need_about_500_tasks():
    needed = tasks_needed(17 / 106, 10 / 106)
    assert 450 < needed < 550
    assert mcnemar_power(106, 17 / 106, 10 / 106) < 0.25


@pytest.mark.parametrize(
    ("r", "h", "power"), [(0.2, 0.02, 0.8), (0.3, 0.1, 0.9), (0.05, 0.3, 0.5), (1.0, 0.0, 0.9), (0.6, 0.4, 0.5)]
)
def test_tasks_needed_is_the_first_from_which_power_stays(r, h, power):
    reached = [mcnemar_power(n, r, h) >= power for n in range(1, 600)]
    assert tasks_needed(r, h, power) == 2 + max((n for n, enough in enumerate(reached) if not enough), default=-1)


def test_needs_that_no_study_meets_are_none():
    assert tasks_needed(0.1, 0.1) is None
    assert tasks_needed(0.0, 0.0) is None
    assert tasks_needed(0.100001, 0.1) is None
    assert mcnemar_power(50, 0.0, 0.0) == 0
    assert clean_tasks_needed(1e-9) is None


@given(st.floats(0.01, 0.5), st.floats(0.5, 0.99), st.integers(0, 5))
@settings(max_examples=40, deadline=None)
def test_certifying_tasks_are_the_fewest(epsilon, confidence, harms):
    needed = clean_tasks_needed(epsilon, confidence, harms)
    assert stats.binom.cdf(harms, needed, epsilon) <= (1 - confidence) * (1 + 1e-9)
    assert needed == harms + 1 or stats.binom.cdf(harms, needed - 1, epsilon) > (1 - confidence) * (1 - 1e-9)


def test_certification_of_the_published_limit():
    assert clean_tasks_needed(0.02) == 149
    assert clean_tasks_needed(0.02, harms=1) > 200


@given(st.integers(0, 40), st.integers(0, 40), st.floats(0.5, 0.99))
@settings(max_examples=60, deadline=None)
def test_the_interval_of_a_rate_is_scipys(events, more, confidence):
    if events + more == 0:
        assert clopper_pearson(0, 0) == (0, 1)
        return
    theirs = stats.binomtest(events, events + more).proportion_ci(confidence, "exact")
    assert clopper_pearson(events, events + more, confidence) == pytest.approx((theirs.low, theirs.high), abs=1e-9)


@pytest.mark.parametrize(("r", "d"), [(0.3, 0.05), (0.1, 0.1), (0.9, 0.01), (0.02, 0.5)])
def test_both_rates_and_their_threshold_are_covered_together(r, d):
    failed, succeeded = 14, 22
    both = covered = 0.0
    for rescues in range(failed + 1):
        for harms in range(succeeded + 1):
            chance = stats.binom.pmf(rescues, failed, r) * stats.binom.pmf(harms, succeeded, d)
            made = gate(rescues, failed, harms, succeeded)
            if (
                made.rescue_interval[0] <= r <= made.rescue_interval[1]
                and made.harm_interval[0] <= d <= made.harm_interval[1]
            ):
                both += chance
            covered += chance * (made.threshold_interval[0] <= d / (r + d) <= made.threshold_interval[1])
    assert both >= 0.95
    assert covered >= both - 1e-12


@pytest.mark.parametrize(("f", "r", "d"), [(0.3, 0.3, 0.1), (0.1, 0.5, 0.06), (0.7, 0.1, 0.2)])
def test_a_verdict_at_home_is_rarely_wrong(f, r, d):
    rng = np.random.default_rng(11)
    gains = f * r > (1 - f) * d
    failed = rng.binomial(40, f, size=1_000)
    rescues, harms = rng.binomial(failed, r), rng.binomial(40 - failed, d)
    verdicts = [
        gate(b, n, c, 40 - n).at_home()[0]
        for b, n, c in zip(rescues.tolist(), failed.tolist(), harms.tolist(), strict=True)
    ]
    assert verdicts.count("loses" if gains else "gains") <= 50


@given(st.floats(0, 1), st.floats(0.001, 1), st.floats(0.001, 1))
def test_above_the_threshold_a_recovery_gains(f, r, d):
    gain = f * r - (1 - f) * d
    threshold = d / (r + d)
    if abs(f - threshold) > 1e-9:
        assert (gain > 0) == (f > threshold)


def test_the_gate_of_published_counts():
    # The published router on stale-2: 45 of 75 succeed without it, 9 rescues, 2 harms.
    made = gate(9, 30, 2, 45)
    assert made.threshold == pytest.approx((2 / 45) / (9 / 30 + 2 / 45))
    assert made.threshold_interval[0] < made.threshold < made.threshold_interval[1]
    assert [made.at(f, f) for f in (0.9, 0.4, 0.001)] == ["gains", "open", "loses"]
    verdict, (low, high) = made.at_home()
    assert verdict == "open"
    assert low < 30 / 75 < high
    # Not one failure and one harm: at a failure rate of 0 a recovery can only lose, but the pilot's own may be above 0.
    assert gate(0, 0, 1, 100).at(0, 0) == "loses"
    assert gate(0, 0, 1, 100).at_home()[0] == "open"
    assert gate(0, 5, 60, 100).at_home()[0] == "loses"
    assert gate(90, 95, 0, 5).at_home()[0] == "gains"
    assert gate(0, 5, 0, 5).threshold is None
    assert gate(0, 0, 0, 9).rescue_interval == (0, 1)
    assert gate(0, 0, 3, 9).threshold_interval[1] == 1


def table(path, outcomes, **more):
    rows = [
        {"cohort": "pilot", "task": f"t{n}", "factual_success": True, "condition": "stale-2", "delay": 0,
         "operator": operator, "y0": y0, "ym": ym} | more
        for n, (y0, ym) in enumerate(outcomes) for operator in ("none", "refresh")
    ]  # fmt: skip
    write_table(path, pa.Table.from_pylist(rows))
    return path


OUTCOMES = [(0, 1)] * 9 + [(0, 0)] * 21 + [(1, 0)] * 2 + [(1, 1)] * 43


def test_a_gate_from_a_table_is_the_gate_of_its_counts(tmp_path):
    path = table(tmp_path / "pairs.parquet", OUTCOMES)
    rows = json.loads(printed("gate", path, "--format", "json"))
    assert [row["population"] for row in rows] == ["complete", "factual-success"]
    counted = json.loads(printed("gate", "--rescue", "9/30", "--harm", "2/45", "--format", "json"))[0]
    assert {name: rows[0][name] for name in counted} == counted
    assert rows[0]["failure_rate"] == 30 / 75
    assert json.loads(printed("gate", path, "--failure-rate", "0.9", "--format", "json"))[0]["recovering"] == "gains"
    text = printed("gate", path)
    assert max(len(line) for line in text.splitlines()) <= 80
    assert "9/30" in text
    assert "…" not in text
    listed = list(csv.DictReader(io.StringIO(printed("gate", path, "--format", "csv"))))
    assert float(listed[0]["threshold"]) == counted["threshold"]


def test_the_power_command(tmp_path):
    row = json.loads(
        printed(
            "power", "--rescue", "17/106", "--harm", "10/106", "--tasks", "106", "--epsilon", "0.02", "--format", "json"
        )
    )
    assert (row["tasks_needed"], row["clean_tasks_needed"]) == (tasks_needed(17 / 106, 10 / 106), 149)
    assert row["power_at_tasks"] == mcnemar_power(106, 17 / 106, 10 / 106)
    assert row["power_at_tasks_needed"] >= 0.8
    text = printed("power", "--rescue", "0.1", "--harm", "0.1", "--epsilon", "0.02", "--tasks", "9")
    assert "more than 1,000,000" in text
    assert "149" in text
    assert max(len(line) for line in text.splitlines()) <= 80
    assert list(csv.DictReader(io.StringIO(printed("power", "--epsilon", "0.02", "--format", "csv"))))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["power"], "give --rescue and --harm together"),
        (["power", "--rescue", "0.1"], "give --rescue and --harm together"),
        (["power", "--rescue", "nan", "--harm", "0.1"], "--rescue: expected a share"),
        (["power", "--rescue", "1/0", "--harm", "0.1"], "--rescue: expected a count"),
        (["power", "--rescue", "0/0", "--harm", "0.1"], "--rescue: expected a share"),
        (["power", "--rescue", "0.9", "--harm", "0.9"], "together at most 1"),
        (["gate"], "give a pairs table, or --rescue"),
        (["gate", "--rescue", "3/2", "--harm", "0/1"], "--rescue: expected a count"),
        (["gate", "--rescue", "0/0", "--harm", "0/0"], "no episode at all"),
        (["gate", "PAIRS", "--rescue", "1/2", "--harm", "0/1"], "not both"),
        (["gate", "PAIRS", "--by", "task"], "no such key"),
        (["gate", "PAIRS", "--failure-rate", "2"], "--failure-rate: expected a share"),
    ],
)
def test_unusable_calls_have_a_clear_end(tmp_path, arguments, message):
    path = table(tmp_path / "pairs.parquet", OUTCOMES)
    result = run(*[path if argument == "PAIRS" else argument for argument in arguments])
    assert isinstance(result.exception, BadInput)
    assert message in str(result.exception)


def test_no_number_is_no_share():
    for option in ("--power", "--alpha", "--epsilon", "--confidence"):
        result = run("power", "--rescue", "0.2", "--harm", "0.1", option, "nan")
        assert result.exit_code == 2
        assert "finite" in result.stderr


def test_a_gate_needs_one_unit_a_task_and_a_recovery(tmp_path):
    rows = pa.Table.from_pylist([{"task": "a", "operator": "refresh", "delay": d, "y0": 0, "ym": 1} for d in (0, 1)])
    write_table(tmp_path / "pairs.parquet", rows)
    result = run("gate", tmp_path / "pairs.parquet", "--by", "operator")
    assert "needs one unit a task" in str(result.exception)
    alone = pa.Table.from_pylist([{"task": "a", "operator": "none", "y0": 0, "ym": 0}])
    write_table(tmp_path / "pairs.parquet", alone)
    assert "only the A/A arm" in str(run("gate", tmp_path / "pairs.parquet", "--by", "operator").exception)


def test_the_documentation_shows_what_the_commands_print():
    text = (Path(__file__).resolve().parents[1] / "docs" / "statistics.md").read_text()
    blocks = re.findall(r"```text\n\$ cir ((?:power|gate) --[^\n]*)\n(.*?)```", text, re.DOTALL)
    assert len(blocks) == 3
    for command, shown in blocks:
        lines = [line.rstrip() for line in printed(*command.split()).strip().splitlines()]
        assert shown.strip().splitlines() == lines, command
