"""Contrasts between operators and their overlap, against counts made by hand and by brute force."""

import csv
import io
import json
import random

import pyarrow as pa
import pytest
from click.testing import CliRunner

from pipeline.cli import cir
from pipeline.errors import BadInput
from pipeline.outcomes.effects import Interval, effects
from pipeline.outcomes.operators import OVERLAP, operator_contrast
from pipeline.records.tables import write_table
from pipeline.statistics.paired import sign_flip_exact

# The published mechanism cohort as far as it is known: refresh rescues 10, content-ablated 8 of these (67 tasks).
# The rest (one harm of refresh, one harm of content-ablated) is made up to give the published +13.43 and +10.45.
MECHANISM = [(0, 1, 1)] * 8 + [(0, 1, 0)] * 2 + [(1, 0, 1)] + [(1, 1, 0)] + [(1, 1, 1)] * 40 + [(0, 0, 0)] * 15


def pairs_of(outcomes, **more):
    """Rows of a pairs table of two operators, from (y0, y of refresh, y of content-ablated) of each task."""
    return [
        {"cohort": "mechanism", "task": f"t{n:03}", "folder": f"f{n // 2}", "factual_success": n % 3 > 0,
         "condition": "stale-2", "delay": 4, "operator": operator, "y0": bool(y0), "ym": bool(ym)} | more
        for n, (y0, *branches) in enumerate(outcomes)
        for operator, ym in zip(("refresh", "content-ablated"), branches, strict=True)
    ]  # fmt: skip


@pytest.fixture
def written(tmp_path):
    def write(rows):
        write_table(tmp_path / "pairs.parquet", pa.Table.from_pylist(rows))
        return tmp_path / "pairs.parquet"

    return write


def run(*arguments):
    return CliRunner().invoke(cir, [str(argument) for argument in arguments])


def test_two_operators_are_paired_inside_tasks(written):
    path = written(pairs_of(MECHANISM))
    row = next(row for row in operator_contrast(path, "refresh", "content-ablated") if row["population"] == "complete")
    assert row["n"] == 67
    assert [row[f"rescue_{name}"] for name in OVERLAP] == [8, 2, 0, 15]
    assert [row[f"harm_{name}"] for name in OVERLAP] == [0, 1, 1, 40]
    assert (round(row["effect_operator_pp"], 2), round(row["effect_versus_pp"], 2)) == (13.43, 10.45)
    assert row["effect_pp"] == pytest.approx(100 * 2 / 67)
    # Tasks that differ: two for refresh, one each way.
    assert row["sign_flip_p"] == pytest.approx(sign_flip_exact([1, 1, 1, -1]))
    single = {one["operator"]: one for one in effects(path) if one["population"] == "complete"}
    assert row["effect_operator_pp"] == single["refresh"]["effect_pp"]
    assert row["effect_versus_pp"] == single["content-ablated"]["effect_pp"]


def test_overlaps_equal_a_count_by_hand_and_mirror_each_other(written):
    draw = random.Random(4)
    outcomes = [tuple(draw.randint(0, 1) for _ in range(3)) for _ in range(60)]
    path = written(pairs_of(outcomes) + pairs_of(outcomes[:30], delay=0))
    rows = operator_contrast(path, "refresh", "content-ablated", "stale-2", 4)
    assert [row["population"] for row in rows] == ["complete", "factual-success"]
    for row, kept in zip(rows, (outcomes, [one for n, one in enumerate(outcomes) if n % 3]), strict=True):
        assert row["rescue_both"] == kept.count((0, 1, 1))
        assert row["rescue_only_operator"] == kept.count((0, 1, 0))
        assert row["harm_only_versus"] == kept.count((1, 1, 0))
        assert row["harm_neither"] == kept.count((1, 1, 1))
        assert sum(row[f"{cell}_{name}"] for cell in ("rescue", "harm") for name in OVERLAP) == row["n"] == len(kept)
    assert len(operator_contrast(path, "refresh", "content-ablated")) == 4
    mirrored = operator_contrast(path, "content-ablated", "refresh", "stale-2", 4)[0]
    assert mirrored["effect_pp"] == -rows[0]["effect_pp"]
    assert mirrored["rescue_only_operator"] == rows[0]["rescue_only_versus"]
    exact, drawn = (
        operator_contrast(path, "refresh", "content-ablated", "stale-2", 4, Interval(cluster="folder", exact=exact))[0]
        for exact in (True, False)
    )
    assert (exact["ci_low_pp"], exact["ci_high_pp"]) == pytest.approx((drawn["ci_low_pp"], drawn["ci_high_pp"]), abs=2)


def test_the_command_prints_contrast_and_overlap(written):
    path = written(pairs_of([(1, 0, 1)] * 300) + pairs_of([(0, 0, 1)] * 300, cohort="evaluation", delay=1))
    call = ("contrast", path, "--operator", "refresh", "--versus-operator", "content-ablated")
    text = run(*call).stdout
    assert max(len(line) for line in text.splitlines()) <= 80
    assert "…" not in text
    assert "only first" in text
    assert "rescue" in text
    rows = json.loads(run(*call, "--format", "json").stdout)
    assert [row["harm_only_operator"] for row in rows if row["population"] == "complete"] == [0, 300]
    listed = list(csv.DictReader(io.StringIO(run(*call, "--format", "csv").stdout)))
    assert [row["cohort"] for row in listed] == [row["cohort"] for row in rows]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--operator", "refresh"], "give either --versus"),
        (["--versus", "clean", "--versus-operator", "refresh"], "give either --versus"),
        (["--versus-operator", "refresh"], "needs --operator"),
        (["--versus", "clean"], "needs --condition"),
        (["--operator", "refresh", "--versus-operator", "refresh"], "needs two operators"),
        (
            ["--operator", "refresh", "--versus-operator", "reboot", "--delay", "4"],
            "no task has both refresh and reboot",
        ),
    ],
)
def test_unusable_calls_have_a_clear_end(written, arguments, message):
    result = run("contrast", written(pairs_of(MECHANISM)), *arguments)
    assert isinstance(result.exception, BadInput)
    assert message in str(result.exception)


def test_operators_with_different_trunks_are_refused(written):
    rows = pairs_of(MECHANISM)
    with pytest.raises(BadInput, match=r"y0 of t000 .* differs between refresh and content-ablated"):
        operator_contrast(written([rows[0] | {"y0": True}, *rows[1:]]), "refresh", "content-ablated")
