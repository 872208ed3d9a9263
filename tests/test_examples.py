"""Every documented command runs: the examples of all commands' help, and the shell blocks of README and docs.

They run word for word on a tiny finished study (tests/study.py) in a folder that looks like a checkout after
`make demo`. What can't be run here stands in NOT_RUN, with the reason.
"""

import json
import re
import shutil
import subprocess
from pathlib import Path

import click
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import study

from pipeline.cli import cir

ROOT = Path(__file__).resolve().parents[1]
DOCUMENTS = [
    ROOT / "README.md",
    *sorted((ROOT / "docs").glob("*.md")),
    ROOT / "config/README.md",
    ROOT / "results/README.md",
]
# Beginning of a documented command -> why no test runs it as it stands.
NOT_RUN = {
    "make test": "runs this very suite",
    ".venv/bin/alfworld-download": "a download",
    "source .venv/bin/activate": "there is no .venv here; the tests' interpreter comes first on PATH",
    "eval ": "loads completion into a shell; tests/test_cli.py asks for it",
    "cir doctor --study config/paper.yaml": "needs the model server; tests/test_terminal.py has one that answers",
    "cir status results/paper": "the paper-size study isn't here; the same command runs on the tiny one",
    "cir live $R/router/router.json": "the study of the official games; the help's example runs, tests/test_live.py plays",
}
# Whole studies are planned instead of played: the same Snakefile, configs and profile, without the hours (or the server).
PLANNED = re.compile(
    r"(?:make demo(?: STUDY=(?P<study>\S+|\".*\"))?|snakemake --profile profiles/local --configfile (?P<config>.+))$"
)
COMMAND = re.compile(r"^(cir|snakemake|make|alfworld-download|\.venv/\S+|source|eval)( |$)")


def commands(group, path=()):
    for name in group.list_commands(None):
        command = group.get_command(None, name)
        yield (*path, name), command
        if isinstance(command, click.Group):
            yield from commands(command, (*path, name))


def examples():
    """(command's name, shell text) of every example in a help text; one may go over several lines."""
    for path, command in [(("cir",), cir), *commands(cir)]:
        text = command.help.split("Example:", 1)[1]
        joined = re.sub(r"\s*\\\s*\n\s*", " ", text)
        lines = [line.strip() for line in joined.splitlines()]
        found = [line for line in lines if re.match(r"(cir|cd) ", line)]
        assert found, path
        yield from ((" ".join(path), line) for line in found)


def blocks():
    """(document, shell command) of every fenced sh, bash or console block; `$ ` before a command is dropped."""
    for document in DOCUMENTS:
        for block in re.findall(r"^```(?:sh|bash|console)\n(.*?)^```", document.read_text(), re.M | re.S):
            joined = re.sub(r"\s*\\\n\s*", " ", block)
            setting = [line for line in joined.splitlines() if re.match(r"[A-Z]+=\S+$|export ", line)]
            for line in joined.splitlines():
                line = line.removeprefix("$ ").split("  #")[0].strip()
                if COMMAND.match(line):
                    yield document.name, line, "; ".join(setting)


EXAMPLES = list(dict.fromkeys(examples()))
BLOCKS = list(dict.fromkeys(blocks()))


def reason(command):
    """Why a documented command isn't run, or None."""
    return next((why for start, why in NOT_RUN.items() if command.startswith(start)), None)


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    """A checkout after `make demo`, with the files that examples name without saying where they come from."""
    base = study.shared(tmp_path_factory)
    place = tmp_path_factory.mktemp("examples") / "demo"
    shutil.copytree(base, place)
    make_inputs(place)
    return place


def make_inputs(place):
    """prefix.json and log.parquet, made of the study's own runs; official games: generated ones stand in."""
    results = place / "results/demo"
    decisions = pq.read_table(results / "router/decisions.parquet").to_pylist()
    # A router is valued on tasks that it was not fitted on.
    decisions = [row for row in decisions if row["cohort"] == "evaluation"]
    pairs = {
        (row["task"], row["condition"], row["delay"]): row
        for row in pq.ParquetFile(results / "outcomes/pairs.parquet").read().to_pylist()
        if row["operator"] == "refresh"
    }
    rows, treated = [], set()
    for place_in_table, row in enumerate(sorted(decisions, key=lambda r: (r["task"], r["condition"], r["delay"]))):
        key = (row["task"], row["condition"])
        if key in treated or (*key, row["delay"]) not in pairs:
            continue
        act = int(bool(row["live"]) and place_in_table % 5 == 0)
        treated |= {key} if act else set()
        features = {name: value for name, value in row.items() if name.startswith("x_")}
        rows.append(
            {"task": key[0], "condition": key[1], "delay": row["delay"], "live": row["live"], "action": act, **features}
        )
    for row in rows:
        key = (row["task"], row["condition"])
        acted = [other for other in rows if (other["task"], other["condition"]) == key and other["action"]]
        row["y"] = float(pairs[(*key, acted[0]["delay"])]["ym"] if acted else pairs[(*key, row["delay"])]["y0"])
        row["propensity"] = 0.3
        row["would_recover"] = int(bool(row["live"]) and row["x_last_no_op"] > 0)
    pq.write_table(pa.Table.from_pylist(rows), place / "log.parquet")
    (place / "prefix.json").write_text(
        json.dumps(
            {
                "opening": "You are in the middle of a room.\n\nYour task is to: put a mug in desk.",
                "entries": [
                    {"kind": "act", "output": "go to desk 1", "action": "go to desk 1", "shown": "Nothing happens."}
                ],
                "turn_budget": 49,
                "action_budget": 64,
            }
        )
    )
    root = next((place / "results/games").iterdir())
    shutil.copytree(root, place / "games")
    shutil.copy(results / "games/games.parquet", place / "games.parquet")
    (place / "home/.cache").mkdir(parents=True)
    (place / "home/.cache/alfworld").symlink_to(root)


def run(command, folder, **env):
    home = {"HOME": str(folder / "home"), "ALFWORLD_DATA": str(folder / "home/.cache/alfworld")}
    return subprocess.run(
        ["bash", "-o", "pipefail", "-c", command],
        cwd=folder,
        env=study.environment(**home, **env),
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "command"), EXAMPLES, ids=[f"{name}-{place}" for place, (name, _) in enumerate(EXAMPLES)]
)
def test_an_example_of_the_help_runs(folder, name, command):
    # The key in the help is another study's; keys depend on the very games and code.
    entry = next((folder / "results/store/episodes").rglob("*.episode"))
    done = run(command.replace("1f6f6a", entry.name[:12]), folder)
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    assert "Traceback" not in done.stderr
    # A lineage is paths, which are whole or of no use; a stored transcript is printed as it is.
    free = "--format" in command or "settings" in name or name in ("trace", "store show")
    assert free or not [line for line in done.stdout.splitlines() if len(line) > 80]


TABLES = (
    "effects results/demo/outcomes/pairs.parquet",
    "effects results/demo/outcomes/pairs.parquet --by cohort,condition,operator",
    "contrast results/demo/outcomes/pairs.parquet --condition stale-2 --versus clean",
    "contrast results/demo/outcomes/pairs.parquet --operator refresh --versus-operator replan-only",
    "compare results/demo/outcomes/pairs.parquet",
    "power --rescue 17/106 --harm 10/106 --tasks 106",
    "gate results/demo/outcomes/pairs.parquet",
    "decide results/demo/router/router.json prefix.json",
    "evaluate results/demo/router/router.json --decisions results/demo/router/decisions.parquet --pairs results/demo/outcomes/pairs.parquet --cohort evaluation",
    "value log.parquet --router results/demo/router/router.json",
    "games index home/.cache/alfworld --out official.parquet",
    "status results/demo",
    "show SprayBottle-None-Cabinet --condition stale-2 --delay 1 --operator refresh",
    "doctor",
)


@pytest.mark.slow
@pytest.mark.parametrize("command", TABLES, ids=lambda command: command.split()[0])
def test_tables_fit_80_columns_and_cut_nothing_off(folder, command):
    """Outside a terminal every table is 80 columns wide, whatever COLUMNS says, and rich has shortened no cell."""
    narrow, wide = (run(f"COLUMNS={columns} cir {command}", folder) for columns in (40, 200))
    assert narrow.returncode == 0, narrow.stderr
    lines = narrow.stdout.splitlines()
    assert len(lines) > 3
    assert max(map(len, lines)) <= 80
    assert "…" not in narrow.stdout
    assert re.sub(r"[\d.]+ GB", "", wide.stdout) == re.sub(r"[\d.]+ GB", "", narrow.stdout)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("document", "command", "setting"), BLOCKS, ids=[f"{d}-{p}" for p, (d, *_) in enumerate(BLOCKS)]
)
def test_a_documented_command_runs_or_says_why_not(folder, document, command, setting):
    if why := reason(command):
        pytest.skip(f"{command}: {why}")
    if whole := PLANNED.match(command):
        configs = (whole["study"] or whole["config"] or "config/demo.yaml").strip('"')
        command = f"snakemake --profile profiles/local --dry-run --quiet all --configfile {configs}"
    done = run(f"{setting}; {command}" if setting else command, folder)
    # `head` closes the pipe that it reads: 141 is what a program does then.
    assert done.returncode in ((0, 141) if "| head" in command else (0,)), f"{command}\n{done.stdout}\n{done.stderr}"


def test_no_reason_is_kept_for_a_command_that_is_not_documented():
    documented = [command for _, command, _ in BLOCKS]
    assert [start for start in NOT_RUN if not any(one.startswith(start) for one in documented)] == []


def test_every_command_and_document_is_looked_at():
    """A change of layout must not make these tests empty."""
    assert {name for name, _ in EXAMPLES} >= {"cir", "fork", "games index", "status", "show", "doctor", "config docs"}
    assert {"README.md", "live.md"} <= {document for document, *_ in BLOCKS}
