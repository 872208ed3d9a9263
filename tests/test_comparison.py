"""A study's table beside the published one: rows that are equal, rows that are missing, and no verdicts."""

import csv
import io
import json
from pathlib import Path

import pyarrow as pa
import pytest
from click.testing import CliRunner
from scipy.stats import binomtest

from pipeline.cli import cir
from pipeline.errors import BadInput
from pipeline.outcomes.comparison import compare, read_published
from pipeline.outcomes.effects import contrast, effects
from pipeline.records.tables import read_rows, write_rows, write_table

PUBLISHED = read_published()


def units(cohort, n, condition, delay, operator, rescue, harm):
    for place in range(n):
        y0, ym = (0, 1) if place < rescue else (1, 0) if place < rescue + harm else (1, 1)
        yield {"cohort": cohort, "task": f"{cohort}/{place}", "folder": f"{cohort}{place // 2}", "condition": condition,
               "delay": delay, "operator": operator, "y0": y0, "ym": ym, "factual_success": True}  # fmt: skip


@pytest.fixture
def paper(tmp_path):
    """A pairs table that has the published counts wherever both are published, for the factual-success population."""
    rows = []
    for row in PUBLISHED["effects"]:
        if row["population"] == "factual-success" and row["rescue"] is not None:
            keys = [row[key] for key in ("cohort", "n", "condition", "delay", "operator", "rescue", "harm")]
            rows += units(*keys)
    # Of refresh's 10 rescues the first 8 are content-ablated's too; two tasks more are turned by neither.
    rows += units("mechanism", 67, "stale-2", 4, "content-ablated", 8, 0)
    for row in rows:
        if row["operator"] == "content-ablated" and row["condition"] == "stale-2":
            place = int(row["task"].split("/")[1])
            row |= {"y0": int(place >= 10), "ym": int(place < 8 or place >= 10)}
    write_table(tmp_path / "pairs.parquet", pa.Table.from_pylist(rows))
    return tmp_path / "pairs.parquet"


def run(*arguments):
    return CliRunner().invoke(cir, [str(argument) for argument in arguments])


def test_the_published_counts_differ_in_nothing_from_themselves(paper):
    rows = compare(paper)
    assert len(rows) == len(PUBLISHED["effects"]) + len(PUBLISHED["contrasts"]) + 1
    same = [row for row in rows if row["kind"] == "effect" and row["study_n"] == row["published_n"]
            and row["published_rescue"] is not None]  # fmt: skip
    assert len(same) == 8
    for row in same:
        assert row["missing"] is None
        assert abs(row["difference_pp"]) < 0.005
        assert (row["study_rescue"], row["study_harm"]) == (row["published_rescue"], row["published_harm"])
        for end in ("ci_low_pp", "ci_high_pp"):
            assert row[f"study_{end}"] == pytest.approx(row[f"published_{end}"], abs=0.005)
    overlap = rows[-1]
    assert (overlap["kind"], overlap["study_rescue"], overlap["study_both"]) == ("overlap", 10, 8)
    assert overlap["difference_pp"] == 0


def test_what_counts_determine_is_computed_and_marked(paper):
    row = next(row for row in compare(paper) if row["published_rescue"] == 15)
    assert row["published_derived"] == "effect_pp ci95_pp"
    assert row["published_effect_pp"] == pytest.approx(100 * 11 / 93)
    assert row["published_ci_low_pp"] < row["published_effect_pp"] < row["published_ci_high_pp"]
    unknown = next(row for row in compare(paper) if row["published_effect_pp"] == 10.11)
    assert unknown["published_derived"] is None
    assert unknown["published_ci_low_pp"] is None


def test_contrasts_are_those_of_the_contrast_command(paper):
    row = next(row for row in compare(paper) if row["kind"] == "contrast" and row["delay"] == 1)
    ours = next(
        one for one in contrast(paper, "stale-2", "clean", 1) if (one["cohort"], one["population"]) == ("main", "factual-success")
    )  # fmt: skip
    assert row["study_effect_pp"] == ours["effect_pp"] == pytest.approx(row["published_effect_pp"], abs=0.005)
    assert row["published_ci_low_pp"] is None
    assert row["study_ci_low_pp"] is not None


def test_missing_rows_are_said(paper, tmp_path):
    missing = [row for row in compare(paper) if row["missing"]]
    assert {row["missing"] for row in missing} == {"no such row"}
    assert all(row["study_n"] is row["difference_pp"] is None for row in missing)
    write_rows(tmp_path / "effects.parquet", effects(paper), "effects")
    rows = compare(tmp_path / "effects.parquet")
    assert {row["missing"] for row in rows if row["kind"] != "effect"} == {"needs the pairs table"}
    one = pa.Table.from_pylist(list(units("pilot", 5, "clean", 0, "refresh", 0, 1)))
    write_table(tmp_path / "pilot.parquet", one)
    assert {row["missing"] for row in compare(tmp_path / "pilot.parquet")} == {
        "no cohort main", "no cohort independent", "no cohort mechanism"
    }  # fmt: skip
    named = compare(tmp_path / "pilot.parquet", cohorts={"main": "pilot"})
    assert (named[0]["study_cohort"], named[0]["study_n"], named[0]["study_harm"]) == ("pilot", 5, 1)


def test_a_table_whose_operators_have_other_trunks_is_compared_as_far_as_it_goes(paper, tmp_path):
    rows = read_rows(paper)
    rows[-1]["y0"] = 0
    write_table(tmp_path / "other.parquet", pa.Table.from_pylist(rows))
    made = compare(tmp_path / "other.parquet")
    assert "differs between refresh and content-ablated" in made[-1]["missing"]
    assert made[0]["difference_pp"] is not None


def test_the_command_prints_and_judges_nothing(paper):
    result = run("compare", paper)
    assert result.exit_code == 0
    assert max(len(line) for line in result.stdout.splitlines()) <= 80
    assert "…" not in result.stdout
    assert "arXiv 2610.00372" in result.stderr
    for word in ("success ", "fail", "significant", "replicat", "reproduc", "confirm"):
        assert word not in result.stdout.replace("factual-success ", "")
    rows = json.loads(run("compare", paper, "--format", "json").stdout)
    listed = list(csv.DictReader(io.StringIO(run("compare", paper, "--format", "csv").stdout)))
    assert [row["kind"] for row in listed] == [row["kind"] for row in rows]


def test_an_unusable_effects_table_is_refused(paper, tmp_path):
    rows = effects(paper)
    write_rows(tmp_path / "effects.parquet", [*rows, rows[0]], "effects")
    with pytest.raises(BadInput, match="stands 2 times"):
        compare(tmp_path / "effects.parquet")
    write_table(tmp_path / "effects.parquet", pa.Table.from_pylist([row | {"effect_pp": "none"} for row in rows]))
    with pytest.raises(BadInput, match="column effect_pp is string"):
        compare(tmp_path / "effects.parquet")


@pytest.mark.parametrize(
    "table",
    [
        [],
        {"effects": 1},
        {"effects": [{"cohort": "main"}]},
        {"effects": [PUBLISHED["effects"][0] | {"rescue": 90}]},
        {"effects": [PUBLISHED["effects"][0] | {"n": "93"}]},
        {"effects": [PUBLISHED["effects"][0] | {"ci95_pp": [1]}]},
        {"contrasts": [PUBLISHED["effects"][0]]},
        {"mechanism_overlap": {}},
    ],
)
def test_an_unusable_published_file_is_refused_by_name(paper, tmp_path, table):
    (tmp_path / "published.json").write_text(json.dumps(table))
    with pytest.raises(BadInput, match=r"published\.json: "):
        compare(paper, tmp_path / "published.json")


def test_unusable_calls_have_a_clear_end(paper, tmp_path):
    write_table(tmp_path / "other.parquet", pa.table({"task": ["a"]}))
    for arguments, message in (
        ([tmp_path / "other.parquet"], "neither a pairs table"),
        ([paper, "--cohort", "main"], "expected PUBLISHED=STUDY"),
        ([paper, "--cohort", "mian=main"], "no published cohort mian"),
        ([paper, "--published", tmp_path / "no.json"], "no.json"),
    ):
        result = run("compare", *arguments)
        assert isinstance(result.exception, BadInput)
        assert message in str(result.exception)


def test_the_package_ships_the_shared_figures():
    shared = Path(__file__).resolve().parents[2] / "shared" / "published.json"
    if not shared.is_file():
        pytest.skip("the shared figures are not here (../shared/published.json)")
    assert read_published(shared) == PUBLISHED


def test_a_difference_has_an_interval_of_its_own_where_both_sides_have_one(paper, tmp_path):
    rows = compare(paper)
    for row in rows:
        ends = [row[f"{whose}_ci_{end}_pp"] for whose in ("study", "published") for end in ("low", "high")]
        known = row["difference_ci_low_pp"] is not None
        if row["kind"] != "overlap":
            assert known == (row["difference_pp"] is not None and None not in ends)
        if not known or row["kind"] == "overlap":
            continue
        assert row["difference_ci_low_pp"] <= row["difference_pp"] <= row["difference_ci_high_pp"]
        # Against itself a study differs by nothing, give or take both samples' chance.
        below, above = row["study_effect_pp"] - ends[0], ends[3] - row["published_effect_pp"]
        assert row["difference_pp"] - row["difference_ci_low_pp"] == pytest.approx((below**2 + above**2) ** 0.5)
    assert sum(row["difference_ci_low_pp"] is not None for row in rows) > 8
    # 8 of 10 against 8 of 10, by scipy's score intervals.
    ci = binomtest(8, 10).proportion_ci(method="wilson")
    reach = 100 * ((0.8 - ci.low) ** 2 + (ci.high - 0.8) ** 2) ** 0.5
    assert rows[-1]["difference_ci_high_pp"] == pytest.approx(reach)
    assert rows[-1]["difference_ci_low_pp"] == pytest.approx(-reach)
    # An effects table carries its intervals, so it needs no pairs.
    write_rows(tmp_path / "effects.parquet", effects(paper), "effects")
    assert compare(tmp_path / "effects.parquet")[0]["difference_ci_low_pp"] is not None
