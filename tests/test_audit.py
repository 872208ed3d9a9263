"""The audit finds and names every fault put into a real finished study, and a clean one is clean wherever it lies."""

import json
import re
import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import small_study
from small_study import ROOT

from pipeline.audit.checks import audited
from pipeline.audit.plan import planned
from pipeline.audit.study import config_of, read_study
from pipeline.config.load import parse_study
from pipeline.provenance.record import parsed, rendered, sealed
from pipeline.records.canonical import file_sha256

pytestmark = pytest.mark.slow

FORK = "forks/cohort=main/condition=stale-2/delay=1/operator=refresh/part.parquet"
KINDS = {
    "study": "study.json",
    "games": "games/games.parquet",
    "candidates": "games/candidates.parquet",
    "translations": "games/translations.parquet",
    "cohorts": "games/cohorts.parquet",
    "factual": "trajectories/cohort=main/factual.parquet",
    "trunk": "trajectories/cohort=evaluation/condition=stale-2/trunk.parquet",
    "fork": FORK,
    "pairs": "outcomes/pairs.parquet",
    "exclusions": "outcomes/exclusions.parquet",
    "effects": "outcomes/effects.parquet",
    "decisions": "router/decisions.parquet",
    "oof": "router/oof.parquet",
    "router": "router/router.json",
    "summary": "evaluation/summary.json",
    "live": "evaluation/live.parquet",
    "page": "report/index.html",
    "printed": "report/summary.txt",
    "figure": "report/figures/policies-gain.svg",
    "figure's data": "report/figures/policies-gain.csv",
}


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    return small_study.run(tmp_path_factory.mktemp("small"))


@pytest.fixture
def study(finished, tmp_path):
    """A copy to damage, with its games beside it: the study has moved, too."""
    shutil.copytree(finished.parent, tmp_path / "elsewhere")
    return tmp_path / "elsewhere/small"


def look(folder, **options):
    return audited(read_study(folder), code=False, workers=2, **options)


def named(folder, check=None):
    """Where the findings are."""
    return {finding.where for finding in look(folder).findings if check in (None, finding.check)}


def reseal(folder, job, change):
    """Change a record as a forger would, digests and all."""
    path = folder / "provenance" / f"{job}.json"
    values = parsed(path.read_bytes(), path).model_dump()
    change(values)
    path.write_bytes(rendered(sealed(values)))


def game_of(folder):
    record = read_study(folder).records["games"]
    return next(file.path for file in record.outputs if file.path.endswith("game.tw-pddl"))


def test_a_clean_study_is_clean_and_says_what_it_covered(study):
    found = look(study)
    assert found.findings == []
    config = config_of(read_study(study))
    units = 10 * 2 * 2 * 2
    assert config.protocol.delays == [1, 2]
    assert found.covered["records"] == 6 + 2 + 4 + 16 + 6
    assert found.covered["branches"] == found.covered["paired or excluded units"] == units
    assert found.covered["trunks"] == 20
    assert found.covered["game files"] == 2 * 24
    on_disk = [
        p
        for p in study.rglob("*")
        if p.is_file() and p.parts[len(study.parts)] not in ("logs", "benchmarks", "provenance")
    ]
    assert found.covered["files"] == len(on_disk)
    assert found.covered["bytes"] == sum(p.stat().st_size for p in on_disk)


def test_the_command_is_clean_in_another_place_and_under_the_code_that_ran(study, tmp_path):
    done = small_study.cir("audit", "small", cwd=study.parent)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.startswith("clean")
    done = small_study.cir("audit", str(study), "--format", "json")
    assert json.loads(done.stdout)["clean"] is True
    assert str(tmp_path) not in done.stdout


def test_records_hold_no_place_of_the_machine_but_in_run(finished):
    for path in (finished / "provenance").rglob("*.json"):
        values = json.loads(path.read_text())
        values.pop("run")
        assert str(finished.parents[1]) not in json.dumps(values), path
        assert not any(file["path"].startswith("/") for file in values["inputs"] + values["outputs"])


@pytest.mark.parametrize("path", KINDS.values(), ids=KINDS)
@pytest.mark.parametrize("fault", ["flipped", "truncated", "missing", "grown"])
def test_a_fault_in_each_kind_of_artifact_is_named(study, path, fault):
    place = study / path
    content = bytearray(place.read_bytes())
    if fault == "flipped":
        content[len(content) // 2] ^= 1
    elif fault == "truncated":
        del content[-1]
    elif fault == "grown":
        content += b"\n"
    place.unlink() if fault == "missing" else place.write_bytes(content)
    assert named(study, "missing" if fault == "missing" else "changed") == {path}
    done = small_study.cir("audit", str(study), "--no-code") if fault == "flipped" else None
    assert done is None or (done.returncode == 1 and path in done.stdout and "Traceback" not in done.stderr)


@pytest.mark.parametrize("fault", ["flipped", "missing", "extra"])
def test_a_fault_in_a_game_is_named(study, fault):
    name = game_of(study)
    place = study / name
    if fault == "flipped":
        content = bytearray(place.read_bytes())
        content[100] ^= 1
        place.write_bytes(content)
        assert named(study) == {name}
    elif fault == "missing":
        place.unlink()
        assert named(study) == {name}
    else:
        (place.parent / "another.json").write_text("{}")
        assert named(study, "unclaimed") == {str(Path(name).parent / "another.json")}


def test_games_that_are_not_here_are_said_and_are_found_when_named(study, tmp_path):
    folder = next((study.parent / "games").iterdir())
    moved = shutil.move(folder, tmp_path / "moved")
    found = look(study)
    assert found.findings == []
    assert any("48 game files" in text for text in found.not_covered)
    found = audited(read_study(study, moved), code=False)
    assert found.findings == []
    assert found.covered["game files"] == 48


@pytest.mark.parametrize(
    "place", ["extra.parquet", "outcomes/pairs (copy).parquet", "forks/cohort=main/part.parquet", "provenance/note.txt"]
)
def test_an_extra_file_is_named(study, place):
    (study / place).write_bytes(b"more")
    assert named(study) == {place}


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (FORK, FORK.replace("refresh", "none")),
        (KINDS["trunk"], KINDS["trunk"].replace("stale-2", "clean")),
        (KINDS["pairs"], KINDS["exclusions"]),
        (KINDS["figure"], "report/figures/policies-interventions.svg"),
    ],
)
def test_two_swapped_files_are_both_named_and_recognised(study, one, other):
    first, second = (study / one).read_bytes(), (study / other).read_bytes()
    (study / one).write_bytes(second)
    (study / other).write_bytes(first)
    found = {finding.where: finding.what for finding in look(study).findings if finding.check == "changed"}
    assert set(found) == {one, other}
    assert f"belongs in {other}" in found[one]


@pytest.mark.parametrize("job", ["study", "games", "draw", "translations", "factual/main", "settle", "trunk/main/clean",
    "fork/main/stale-2/1/refresh", "pairs", "effects", "features", "fit", "evaluate", "live", "report"])  # fmt: skip
def test_a_record_that_is_damaged_or_gone_is_named(study, job):
    place = study / "provenance" / f"{job}.json"
    content = place.read_bytes()
    for at in (2, len(content) // 3, len(content) // 2, len(content) - 3):
        place.write_bytes(content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :])
        assert f"provenance/{job}.json" in named(study, "record")
    place.unlink()
    assert f"provenance/{job}.json" in named(study, "record-missing")
    assert named(study, "unclaimed")


def test_a_record_in_anothers_place_is_named(study):
    folder = study / "provenance/fork/main/stale-2/1"
    (folder / "none.json").write_bytes((folder / "refresh.json").read_bytes())
    assert "provenance/fork/main/stale-2/1/none.json" in named(study, "record")


def test_a_record_of_no_planned_job_is_named(study):
    folder = study / "provenance/fork/main/stale-2"
    shutil.copytree(folder / "1", folder / "7")
    for name in ("none", "refresh"):
        (folder / f"7/{name}.json").unlink()
        values = parsed((folder / f"1/{name}.json").read_bytes(), name).model_dump()
        values["job"]["name"] = f"fork/main/stale-2/7/{name}"
        values["outputs"] = []
        (folder / f"7/{name}.json").write_bytes(rendered(sealed(values)))
    assert named(study, "record-extra") == {
        f"provenance/fork/main/stale-2/7/{name}.json" for name in ("none", "refresh")
    }


def test_a_table_made_anew_with_its_record_leaves_what_was_made_from_it_stale(study):
    """The forger changes the pairs and reseals their record; those who read the old ones give it away."""
    place = study / KINDS["pairs"]
    place.write_bytes(place.read_bytes() + b" ")

    def change(values):
        file = next(file for file in values["outputs"] if file["path"] == KINDS["pairs"])
        file |= {"sha256": file_sha256(place), "bytes": place.stat().st_size}

    reseal(study, "pairs", change)
    stale = named(study, "stale")
    assert {f"provenance/{job}.json" for job in ("effects", "features", "evaluate", "report", "live")} == stale


def test_a_unit_that_is_gone_from_a_table_is_named_though_all_hashes_fit(study):
    place = study / FORK
    table = pq.ParquetFile(place).read()
    lost = table.column("task")[0].as_py()
    pq.write_table(table.slice(1), place)
    new = {"sha256": file_sha256(place), "bytes": place.stat().st_size}

    def change(values):
        for file in values["inputs"] + values["outputs"]:
            if file["path"] == FORK:
                file |= new

    for job in ("fork/main/stale-2/1/refresh", "pairs"):
        reseal(study, job, change)
    findings = [finding for finding in look(study).findings if finding.check == "units"]
    assert [finding.where for finding in findings] == [FORK]
    assert lost in findings[0].what


def test_a_unit_that_stands_twice_is_named(study):
    place = study / KINDS["exclusions"]
    table, pairs = pq.ParquetFile(place).read(), pq.ParquetFile(study / KINDS["pairs"]).read()
    row = {name: pairs.column(name)[0].as_py() for name in ("cohort", "task", "condition", "delay", "operator")}
    pq.write_table(
        pa.concat_tables([table, pa.Table.from_pylist([row | {"reason": "twice"}], schema=table.schema)]), place
    )
    new = {"sha256": file_sha256(place), "bytes": place.stat().st_size}

    def change(values):
        for file in values["inputs"] + values["outputs"]:
            if file["path"] == KINDS["exclusions"]:
                file |= new

    for job in ("pairs", "report"):
        reseal(study, job, change)
    findings = [finding for finding in look(study).findings if finding.check == "units"]
    assert len(findings) == 1
    assert "more than once" in findings[0].what
    assert row["task"] in findings[0].what


def test_a_job_that_ran_with_another_setting_is_named_with_the_key(study):
    def change(values):
        values["job"]["params"]["settings"]["router"]["lambda"] = 3.5

    reseal(study, "fit", change)
    findings = look(study).findings
    assert [finding.where for finding in findings] == ["provenance/fit.json"]
    assert "router.lambda was 3.5, planned 2.0" in findings[0].what


def test_another_config_names_the_jobs_that_are_stale_under_it(study, tmp_path):
    changed = tmp_path / "changed.yaml"
    changed.write_text(small_study.CONFIG.replace("resamples: 200", "resamples: 300"))
    done = small_study.cir("audit", str(study), "--no-code", "--study", str(changed), "--format", "json")
    assert done.returncode == 1
    stale = {finding["where"] for finding in json.loads(done.stdout)["findings"]}
    assert stale == {f"provenance/{job}.json" for job in ("study", "effects", "evaluate")}


def test_a_job_that_another_code_ran_is_named_by_its_command(study):
    reseal(study, "pairs", lambda values: values["code"].update(digest="0" * 64))
    found = audited(read_study(study), workers=1)
    assert [(finding.check, finding.where) for finding in found.findings] == [
        ("code", "pipeline.outcomes.command:pairs")
    ]
    assert look(study).findings == []


def test_two_runs_leave_the_same_records_but_for_run(finished, tmp_path):
    again = small_study.run(tmp_path, "--cores", "1", PYTHONHASHSEED="321")
    names = sorted(path.relative_to(finished) for path in (finished / "provenance").rglob("*.json"))
    assert len(names) == 34
    for name in names:
        first, second = (json.loads((root / name).read_text()) for root in (finished, again))
        for values in (first, second):
            values.pop("run")
            values.pop("run_digest")
        assert first == second, name


def test_a_folder_that_is_no_study_is_a_users_mistake(tmp_path):
    done = small_study.cir("audit", str(tmp_path))
    assert done.returncode == 2
    assert "holds no study" in done.stderr


def test_the_plan_knows_every_rule_and_every_rule_leaves_a_record():
    text = "\n".join(path.read_text() for path in sorted((ROOT / "rules").glob("*.smk")))
    rules = re.findall(r"^\s*rule (\w+):$", text, re.MULTILINE)
    plan = planned(parse_study({"study": "x", "cohorts": {
        "a": {"role": "fit", "split": "train", "size": 1}, "b": {"role": "evaluate", "split": "train", "size": 1}}}, "x"))  # fmt: skip
    assert {name.split("/")[0] for name in plan} == set(rules)
    assert len(re.findall(r"^\s*record=f\"\{RESULTS\}/provenance/", text, re.MULTILINE)) == len(rules)
    assert len(re.findall(r"shell:\n\s*\"cir --record \{output.record:q\}\"", text)) == len(rules)
