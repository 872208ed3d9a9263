"""What the page refuses: inputs that are missing, unusable, or of two runs."""

import json
import re
import shutil
from pathlib import Path

import pytest
from report_study import inputs_of, make_study

from pipeline.errors import BadInput, CheckFailed
from pipeline.records.canonical import file_sha256
from pipeline.records.files import write_json
from pipeline.records.tables import read_rows, write_rows


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    return make_study(tmp_path_factory.mktemp("small"), size=6, held_out=3)


@pytest.fixture
def study(small, tmp_path):
    """A copy of a small study for a test that changes it."""
    return {name: shutil.copy(path, tmp_path) for name, path in small.items()}


@pytest.mark.parametrize(
    "name", ["study", "games", "cohorts", "pairs", "exclusions", "effects", "router", "evaluation"]
)
def test_a_missing_input_is_named(study, name):
    Path(study[name]).unlink()
    with pytest.raises(BadInput, match=re.escape(study[name])):
        inputs_of(study)


@pytest.mark.parametrize("name", ["games", "cohorts", "pairs", "effects"])
def test_an_empty_table_is_named(study, name):
    write_rows(study[name], [], name)
    with pytest.raises(BadInput, match=re.escape(study[name]) + ".*no row"):
        inputs_of(study)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda summary: {}, "policies"),
        (lambda summary: {"policies": []}, "policies"),
        (lambda summary: {"policies": summary["policies"][:-1]}, "lacks the policy cir"),
        (lambda summary: {"policies": [{"policy": "cir"}]}, r"policies\[0\]: lacks tasks"),
        (lambda summary: {"policies": with_first(summary, gain_pp=None)}, r"policies\[0\]: holds None"),
        (lambda summary: {"policies": with_first(summary, sign_flip_p="x")}, r"policies\[0\]: holds 'x'"),
        (lambda summary: {"policies": with_first(summary, ci95_pp=[1])}, "ci95_pp must be two numbers"),
        (lambda summary: {"policies": with_first(summary, by_condition=7)}, "by_condition a list"),
    ],
)
def test_an_unusable_evaluation_is_named(study, change, words):
    write_json(study["evaluation"], change(json.loads(Path(study["evaluation"]).read_text())))
    with pytest.raises(BadInput, match=words):
        inputs_of(study)


def with_first(summary, **changed):
    return [summary["policies"][0] | changed, *summary["policies"][1:]]


@pytest.mark.parametrize(
    ("table", "change", "words"),
    [
        ("games", lambda rows: rows[1:], r"cohorts\.parquet: .* not in .*games\.parquet"),
        ("cohorts", lambda rows: [row | {"feasible": False} for row in rows], r"pairs\.parquet: .* not in .*cohorts"),
        ("exclusions", lambda rows: [rows[0] | {"task": "z/t"}], r"exclusions\.parquet: .*z/t.* not in .*cohorts"),
    ],
)
def test_tables_of_another_run_are_refused(study, table, change, words):
    write_rows(study[table], change(read_rows(study[table], table)), table)
    with pytest.raises(CheckFailed, match=words):
        inputs_of(study)


def test_an_evaluation_of_another_router_is_refused(study):
    summary = json.loads(Path(study["evaluation"]).read_text())
    write_json(study["evaluation"], summary | {"inputs": {"router": file_sha256(study["router"]), "decisions": "0"}})
    inputs_of(study)
    write_json(study["evaluation"], summary | {"inputs": {"router": "0" * 64}})
    with pytest.raises(CheckFailed, match="was made from another router file"):
        inputs_of(study)


def test_effects_of_other_pairs_are_refused(study):
    rows = read_rows(study["effects"], "effects")
    write_rows(study["effects"], [rows[0] | {"rescue": rows[0]["rescue"] + 1}, *rows[1:]], "effects")
    with pytest.raises(CheckFailed, match="run `cir effects` on these pairs again"):
        inputs_of(study)


def test_effects_without_the_headline_are_refused(study):
    rows = [row for row in read_rows(study["effects"], "effects") if row["cohort"] != "main"]
    write_rows(study["effects"], rows, "effects")
    with pytest.raises(BadInput, match="lacks 8 row"):
        inputs_of(study)


def test_effects_of_another_study_are_refused(study):
    rows = read_rows(study["effects"], "effects")
    write_rows(study["effects"], [rows[0] | {"delay": 9}, *rows[1:]], "effects")
    with pytest.raises(BadInput, match="delay 9 is not in the study's config"):
        inputs_of(study)
