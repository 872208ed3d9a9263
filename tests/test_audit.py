"""The audit finds and names every fault put into a real finished study, and a clean one is clean wherever it lies."""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import small_study
from small_study import ROOT

from pipeline.audit.cells import behind_effects, behind_policy
from pipeline.audit.checks import audited
from pipeline.audit.plan import planned
from pipeline.audit.study import config_of, read_study
from pipeline.config.load import parse_study
from pipeline.errors import BadInput
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
        if p.is_file()
        and p.name != ".snakemake_timestamp"
        and p.parts[len(study.parts)] not in ("logs", "benchmarks", "provenance")
    ]
    assert found.covered["files"] == len(on_disk)
    assert found.covered["bytes"] == sum(p.stat().st_size for p in on_disk)


def test_the_command_is_clean_in_another_place_and_under_the_code_that_ran(study, tmp_path):
    done = small_study.cir("audit", "small", cwd=study.parent)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.startswith("clean")
    done = small_study.cir("audit", str(study), "--format", "json")
    assert json.loads(done.stdout)["clean"] is True
    (tmp_path / "results").symlink_to(study.parent)
    assert small_study.cir("audit", "--no-code", cwd=tmp_path).returncode == 0
    whole = small_study.cir("trace", str(study / "outcomes/effects.parquet"), cwd=tmp_path.parent)
    assert whole.stdout == small_study.cir("trace", "effects", cwd=tmp_path).stdout != ""
    shutil.copytree(study, study.parent / "second")
    several = small_study.cir("audit", cwd=tmp_path)
    assert several.returncode == 2
    assert "results/second, results/small" in several.stderr
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


@pytest.mark.parametrize("fault", ["flipped", "missing"])
def test_a_fault_in_a_game_is_named(study, fault):
    name = game_of(study)
    place = study / name
    if fault == "flipped":
        content = bytearray(place.read_bytes())
        content[100] ^= 1
        place.write_bytes(content)
        assert named(study) == {name}
    else:
        place.unlink()
        assert named(study) == {name}


def test_another_studys_games_in_the_shared_folder_are_no_fault(study):
    (study / game_of(study)).parents[1].joinpath("trial_of_another_study").mkdir()
    (study / game_of(study)).parents[1].joinpath("trial_of_another_study/game.tw-pddl").write_text("{}")
    assert look(study).findings == []


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
            for part in ("run", "run_digest", "digest"):
                values.pop(part)
            # Someone may commit or edit between the two runs; that is no fault of the records.
            for part in ("commit", "dirty"):
                values["environment"].pop(part)
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


# --- trace


def test_a_lineage_reaches_the_games_and_lists_each_file_once(finished):
    found = small_study.cir("trace", "outcomes/effects.parquet", "--results", str(finished), "--format", "json")
    rows = {row["artifact"]: row for row in json.loads(found.stdout)["lineage"]}
    assert len(rows) == len(json.loads(found.stdout)["lineage"])
    # effects, pairs, 16 forks, 4 trunks, cohorts, 2 factual, translations, candidates, games table, 20 candidates' games
    assert len(rows) == 1 + 1 + 16 + 4 + 1 + 2 + 1 + 1 + 1 + 20
    for name, row in rows.items():
        if not name.startswith("../games/"):
            assert row["sha256"] == file_sha256(finished / name)
        assert set(row["inputs"]) <= set(rows)


def test_a_tree_groups_many_inputs_and_shows_all_when_asked(finished):
    few = small_study.cir("trace", "effects", "--results", str(finished)).stdout.splitlines()
    whole = small_study.cir("trace", "effects", "--results", str(finished), "--all").stdout.splitlines()
    assert few[0].startswith("outcomes/effects.parquet  " + file_sha256(finished / "outcomes/effects.parquet")[:8])
    assert any("… 14 more (fork)" in line for line in few)
    assert sum("part.parquet" in line for line in few) == 2
    assert sum("part.parquet" in line for line in whole) == 16
    assert (
        sum(line.strip(" │├└─").startswith("games/cohorts.parquet") and "as above" not in line for line in whole) == 1
    )
    assert few[-1].startswith("config: study.json")


def test_a_graph_has_a_node_for_each_file_and_job(finished):
    text = small_study.cir("trace", "fork/part", "--results", str(finished)).stderr
    assert "no record" in text
    text = small_study.cir("trace", "pairs", "--results", str(finished), "--format", "dot").stdout
    assert text.startswith("digraph")
    assert text.count("shape=ellipse") == 1 + 16 + 4 + 1 + 2 + 1 + 1 + 1


def outcome(folder, name, task):
    """Success of a task in a table of episodes, read without the project's code."""
    rows = pq.ParquetFile(folder / name).read(columns=["task", "success"]).to_pylist()
    return next(row["success"] for row in rows if row["task"] == task)


def test_the_episodes_behind_every_row_of_the_effects_are_its_counts(finished):
    study = read_study(finished)
    rows = pq.ParquetFile(finished / "outcomes/effects.parquet").read().to_pylist()
    assert len(rows) >= 2 * 2 * 2 * 2
    for row in rows:
        where = (row["condition"], row["delay"], row["operator"], row["cohort"], row["population"])
        for cell in ("rescue", "harm", "kept-success", "unchanged-failure"):
            episodes = behind_effects(study, *where, cell)["episodes"]
            assert len(episodes) == row[cell.replace("-", "_")]
            for one in episodes:
                ends = outcome(finished, one["trunk"], one["task"]), outcome(finished, one["branch"], one["task"])
                assert ends == (one["y0"], one["ym"])
                assert cell == CELL[ends]


CELL = {
    (False, True): "rescue",
    (True, False): "harm",
    (True, True): "kept-success",
    (False, False): "unchanged-failure",
}


def test_the_episodes_behind_every_policy_are_its_counts(finished):
    study = read_study(finished)
    policies = json.loads((finished / "evaluation/summary.json").read_text())["policies"]
    for row in policies:
        if row["policy"] == "random":
            with pytest.raises(BadInput, match="draws"):
                behind_policy(study, "random", None)
            continue
        found = behind_policy(study, row["policy"], None)
        assert len(found["episodes"]) == row["episodes"]
        assert found["counts"]["rescue"] == row["rescue"]
        assert sum(one["branch"] is not None for one in found["episodes"]) == row["interventions"]
        for one in found["episodes"]:
            assert outcome(finished, one["branch"] or one["trunk"], one["task"]) == one["ym"]


def test_both_transcripts_of_a_cell_are_shown_from_the_fork_on(finished):
    done = small_study.cir(
        "trace", "effects", "--results", str(finished), "--condition", "stale-2", "--delay", "1",
        "--cell", "kept-success", "--transcripts", "--format", "json",
    )  # fmt: skip
    episodes = [one for one in json.loads(done.stdout)["episodes"] if one["transcripts"]["recovered"]]
    assert episodes
    for one in episodes:
        assert one["transcripts"]["recovered"][0] == "> look"
        assert one["transcripts"]["alone"][0].startswith("> ")
        trunk = pq.ParquetFile(finished / one["trunk"]).read().to_pylist()
        steps = next(row["steps"] for row in trunk if row["task"] == one["task"])
        said = [f"> {step['output']}" for step in steps if step["output"] is not None]
        alone = [line for line in one["transcripts"]["alone"] if line.startswith("> ")]
        assert said[-len(alone) :] == alone


def test_counts_that_do_not_fit_the_table_end_in_exit_1(study):
    place = study / "outcomes/effects.parquet"
    table = pq.ParquetFile(place).read()
    at = table.column_names.index("harm")
    pq.write_table(
        table.set_column(at, table.schema.field(at), pa.array([n + 1 for n in table.column("harm").to_pylist()])), place
    )
    new = {"sha256": file_sha256(place), "bytes": place.stat().st_size}
    reseal(study, "effects", lambda values: values["outputs"][0].update(new))
    done = small_study.cir("trace", "effects", "--results", str(study), "--condition", "clean", "--delay", "1")
    assert done.returncode == 1
    assert "harm, but outcomes/pairs.parquet holds" in done.stderr


# --- crate

SEED = """
import io, json, sys
import requests
from requests_cache import CachedSession
from urllib3 import HTTPResponse
cache, source, url = sys.argv[1:]
value = json.load(open(source))
# The four terms in which version 1.1 of the context differs from the later one that the library brings along.
value["@context"] |= {name: f"https://bioschemas.org/{name}" for name in ("ComputationalWorkflow", "FormalParameter")}
value["@context"] |= {name: f"https://bioschemas.org/ComputationalWorkflow#{name}" for name in ("input", "output")}
body = json.dumps(value).encode()
session = CachedSession(cache_name=cache, backend="sqlite", expire_after=-1)
request = requests.Request("GET", url, headers={"Accept": "application/ld+json"}).prepare()
response = requests.Response()
response.status_code, response._content, response.url, response.request = 200, body, url, request
response.headers["Content-Type"] = "application/ld+json"
response.raw = HTTPResponse(body=io.BytesIO(body), status=200, headers=dict(response.headers), preload_content=False, request_method="GET")
session.cache.save_response(response, session.cache.create_key(request))
"""


@pytest.fixture(scope="module", params=[(), ("--with-data",)], ids=["by content", "with data"])
def crate(request, finished, tmp_path_factory):
    pytest.importorskip("rocrate", reason="the extra `crate` is not installed")
    out = tmp_path_factory.mktemp("crate") / "crate"
    done = small_study.cir("export-crate", str(finished), "--out", str(out), *request.param)
    assert done.returncode == 0, done.stderr
    return out


def test_a_crate_names_every_job_and_every_artifact_by_its_hash(crate, finished):
    graph = json.loads((crate / "ro-crate-metadata.json").read_text())["@graph"]
    entities = {entity["@id"]: entity for entity in graph}
    assert len(entities) == len(graph)
    records = [json.loads(path.read_text()) for path in sorted((finished / "provenance").rglob("*.json"))]
    actions = [entity for entity in graph if entity["@type"] == "CreateAction"]
    assert len(actions) == 1 + len(records)
    hashes = {entity["sha256"] for entity in graph if "sha256" in entity}
    assert {file["sha256"] for record in records for file in record["outputs"]} <= hashes
    for action in actions:
        for part in ("object", "result"):
            linked = action.get(part, [])
            for link in linked if isinstance(linked, list) else [linked]:
                assert link["@id"] in entities
    assert entities["./"]["mainEntity"] == {"@id": "Snakefile"}
    assert "ComputationalWorkflow" in entities["Snakefile"]["@type"]
    for name, entity in entities.items():
        if "sha256" in entity and not name.startswith("ni:"):
            assert file_sha256(crate / unquote(name)) == entity["sha256"]


@pytest.mark.parametrize("profile", ["workflow-run-crate-0.5", "provenance-run-crate-0.5"])
def test_the_profiles_own_validator_finds_the_crate_valid(crate, profile, tmp_path):
    """ROC_VALIDATOR names the executable; its environment is its own, since its pins need not go with the project's."""
    tool = os.environ.get("ROC_VALIDATOR") or shutil.which("rocrate-validator")
    if not tool:
        pytest.skip(
            "no rocrate-validator on the PATH or in ROC_VALIDATOR (pip install roc-validator, in an environment of its own)"
        )
    import rocrate

    source = Path(rocrate.__file__).parent / "data/ro-crate.jsonld"
    python = Path(tool).parent / "python"
    url = "https://w3id.org/ro/crate/1.1/context"
    # No network: the context is put into the validator's cache, from the copy that the library brings along.
    subprocess.run([python, "-c", SEED, tmp_path / "cache", source, url], check=True)
    command = [
        tool,
        "-y",
        "validate",
        crate,
        "-p",
        profile,
        "--offline",
        "--cache-path",
        tmp_path / "cache",
    ]
    done = subprocess.run(
        [*command, "-f", "json", "-o", tmp_path / "report.json"], capture_output=True, text=True, check=False
    )
    report = (tmp_path / "report.json").read_text() if (tmp_path / "report.json").exists() else ""
    assert done.returncode == 0, done.stdout + done.stderr + report
    assert json.loads(report)["passed"] is True


def test_a_crate_is_not_written_over_something(finished, tmp_path):
    pytest.importorskip("rocrate", reason="the extra `crate` is not installed")
    (tmp_path / "there.zip").write_text("mine")
    done = small_study.cir("export-crate", str(finished), "--out", str(tmp_path / "there.zip"))
    assert done.returncode == 2
    assert (tmp_path / "there.zip").read_text() == "mine"
