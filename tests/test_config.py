import copy
import json
from pathlib import Path

import pytest
import yaml

from pipeline.config.document import keys, reruns, schema_text, with_key_table
from pipeline.config.load import load_study, merge, parse_study
from pipeline.config.models import Study
from pipeline.config.scopes import SCOPES, TARGETS, section, settings
from pipeline.errors import BadInput

ROOT = Path(__file__).resolve().parents[1]
STUDIES = sorted(path for path in (ROOT / "config").glob("*.yaml"))
OVERLAYS = sorted((ROOT / "config" / "sensitivity").glob("*.yaml"))
TEST = yaml.safe_load((ROOT / "config" / "test.yaml").read_text())


def changed(**paths):
    values = copy.deepcopy(TEST)
    for path, value in paths.items():
        *parents, last = path.split("__")
        target = values
        for part in parents:
            target = target.setdefault(part, {})
        target[last] = value
    return values


def test_generated_files_are_up_to_date():
    assert (ROOT / "config" / "schema.json").read_text() == schema_text(), "run `cir config docs`"
    readme = (ROOT / "config" / "README.md").read_text()
    assert readme == with_key_table(readme), "run `cir config docs`"


@pytest.mark.parametrize("path", STUDIES, ids=lambda path: path.stem)
def test_every_study_is_right(path):
    assert load_study(path).study == path.stem


@pytest.mark.parametrize("path", OVERLAYS, ids=lambda path: path.stem)
def test_every_overlay_changes_the_demo_and_its_name(path):
    demo, laid = load_study(ROOT / "config/demo.yaml"), load_study(ROOT / "config/demo.yaml", path)
    assert laid.study == f"demo-{path.stem}"
    assert laid.games == demo.games
    assert laid.model_copy(update={"study": "demo"}) != demo


def test_the_test_study_has_every_stage_condition_delay_and_operator():
    test, demo = load_study(ROOT / "config/test.yaml"), load_study(ROOT / "config/demo.yaml")
    assert test.protocol == demo.protocol
    assert {cohort.role for cohort in test.cohorts.values()} >= {"fit", "evaluate"}


def test_the_papers_sizes_stand_in_its_config():
    paper = load_study(ROOT / "config/paper.yaml")
    assert [(paper.cohorts[name].split, paper.cohorts[name].size) for name in ("main", "independent", "mechanism", "evaluation")] == [
        ("valid_unseen", 106), ("train", 100), ("train", 74), ("valid_seen", 75)
    ]  # fmt: skip
    published = json.loads((ROOT / "tests" / "published_setup.json").read_text())
    assert published == {
        "C": paper.router.C,
        "lambda": paper.router.lambda_,
        "epsilon": paper.router.epsilon,
        "folds": paper.router.folds,
        "candidate_delays": list(paper.router.delays),
        "turns": paper.harness.turns,
        "actions": paper.harness.actions,
        "fraction": paper.protocol.alteration.fraction,
        "delays": list(paper.protocol.delays),
    }


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (changed(protocol__delais=[1]), r"protocol\.delais: no such key; did you mean delays\?"),
        (changed(cohorts__main__sise=3), r"cohorts\.main\.sise: no such key; did you mean size\?"),
        (changed(router__lamda=1.0), r"router\.lamda: no such key; did you mean lambda\?"),
        (changed(nonsense=1), r"nonsense: no such key"),
        (
            changed(protocol__conditions=["clean", "stale-2", "stale-0"]),
            r"protocol\.conditions: no such condition: 'stale-0'",
        ),
        (changed(protocol__conditions=["clean", "stale-2", "Clean"]), r"no such condition: 'Clean'"),
        (
            changed(protocol__operators=["refresh", "refrsh"]),
            r"protocol\.operators: no such operator: 'refrsh'; did you mean refresh",
        ),
        (changed(protocol__delays=[1, -1]), r"protocol\.delays\.1"),
        (changed(protocol__delays=[1, 1]), r"lists a value twice"),
        (changed(protocol__delays=[0, 1, 2, 4, 64]), r"protocol\.delays: .*64.* budget"),
        (changed(harness__turns=0), r"harness\.turns"),
        (changed(harness__turns="49"), r"harness\.turns"),
        (changed(protocol__alteration__fraction=1.5), r"protocol\.alteration\.fraction"),
        (changed(router__delays=[1, 3]), r"router\.delays: \[3\] is not measured"),
        (changed(router__operator="reveal"), r"router\.operator"),
        (changed(router__operator="none"), r"router: operator: none is the A/A arm"),
        (changed(router__delays=[4, 1]), r"router: delays: .*must rise.*\[4, 1\]"),
        (changed(router__delays=[1, 1]), r"router: delays: .*once each"),
        (changed(router__conditions=["stale-2"]), r"router\.conditions: clean is needed"),
        (changed(cohorts__main__role="measure"), r"exactly one cohort must have role fit, found 0"),
        (changed(cohorts__main__split="valid_unseen"), r"cohorts\.main\.split: valid_unseen is not generated"),
        (changed(cohorts__main__size=0), r"cohorts\.main\.size"),
        (changed(agent__kind="scriptd"), r"agent: .*scriptd"),
        (changed(agent__parameters={"revisitt": True}), r"agent: .*revisitt"),
        (changed(study="No Spaces"), r"study: "),
        ({}, "no study found"),
        (None, "no study found"),
        (["a"], "no study found"),
    ],
)
def test_what_is_wrong_is_named(values, message):
    with pytest.raises(BadInput, match=message):
        parse_study(values, "a.yaml")


def test_files_that_are_no_yaml_are_named(tmp_path):
    (tmp_path / "a.yaml").write_text("a: [")
    with pytest.raises(BadInput, match=r"a\.yaml: is no valid YAML"):
        load_study(tmp_path / "a.yaml")
    with pytest.raises(BadInput, match=r"b\.yaml: cannot be read"):
        load_study(tmp_path / "b.yaml")


def test_merge_lays_maps_over_maps_and_replaces_the_rest():
    assert merge({"a": {"b": 1, "c": [1]}, "d": 1}, {"a": {"c": [2]}, "e": 3}) == {
        "a": {"b": 1, "c": [2]},
        "d": 1,
        "e": 3,
    }


def test_every_key_concerns_a_stage_or_only_chooses_or_records():
    for path, field in keys():
        recorded = bool((field.json_schema_extra or {}).get("fixed"))
        read = bool(reruns(path.replace("cohorts.<name>", "cohorts")))
        assert recorded + read + (path in TARGETS) == 1, path
        assert field.description


def test_a_stage_gets_its_keys_and_no_others():
    base = parse_study(TEST, "a")
    for path, value in {
        "harness__turns": 30, "protocol__delays": [0, 1, 2, 4, 5], "router__lambda": 3.0, "statistics__seed": 5,
        "games__generate__seed": 3, "cohorts__main__seed": 9, "agent__parameters": {"revisit": False}, "study": "other",
        "protocol__alteration__fraction": 0.4, "protocol__texts__replan_text": "Again.",
    }.items():  # fmt: skip
        other = parse_study(changed(**{path: value}), "a")
        dotted = path.replace("__", ".")
        touched = {stage for stage in SCOPES if settings(base, stage) != settings(other, stage)}
        assert touched == {
            stage
            for stage, scopes in SCOPES.items()
            if any(dotted == scope or dotted.startswith(f"{scope}.") for scope in scopes)
        }, path


def test_settings_read_back_as_the_sections_they_came_from():
    study = load_study(ROOT / "config/paper.yaml")
    text = settings(study, "fork")
    assert section(text, "harness", type(study.harness)) == study.harness
    assert section(text, "protocol.alteration", type(study.protocol.alteration)) == study.protocol.alteration
    with pytest.raises(BadInput, match="lacks the key router"):
        section(text, "router", type(study.router))
    with pytest.raises(BadInput, match="no valid JSON"):
        section("{", "router", type(study.router))


def test_study_json_reads_back():
    study = load_study(ROOT / "config/demo.yaml")
    assert Study.model_validate(json.loads(study.model_dump_json(by_alias=True))) == study


@pytest.mark.parametrize(
    ("text", "key", "lines"),
    [
        ("study: a\nstudy: b\n", "study", (2, 1)),
        ("study: a\nharness:\n  turns: 3\n  actions: 4\n  turns: 5\n", "turns", (5, 3)),
        ("study: a\ncohorts:\n  main: {role: fit, role: measure}\n", "role", (3, 3)),
        ('study: a\nharness: {}\n"harness": {turns: 2}\n', "harness", (3, 2)),
    ],
)
def test_a_key_that_stands_twice_is_named_with_its_lines(tmp_path, text, key, lines):
    """YAML readers keep the last and say nothing: half of a config would have no effect."""
    from pipeline.config.load import each_key_once

    path = tmp_path / "twice.yaml"
    path.write_text(text)
    for read in (load_study, each_key_once):
        with pytest.raises(BadInput) as caught:
            read(path)
        message = str(caught.value)
        assert message.startswith(
            f"{path}: line {lines[0]}: the key {key} stands there twice (first in line {lines[1]})"
        )


def test_a_key_may_stand_once_in_each_map_and_merges_may_repeat():
    from pipeline.config.load import read_yaml

    text = "base: &a {x: 1}\nmore: &b {y: 2}\none: {<<: [*a, *b], z: 3}\ntwo: {x: 1, y: {x: 2}}\n"
    assert read_yaml(text, "f") == yaml.safe_load(text)
