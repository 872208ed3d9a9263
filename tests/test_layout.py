"""The house's shape: data flows one way, every module and command says what it is."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
STAGES = ["games", "trajectories", "forks", "outcomes", "router", "evaluation", "report"]
# Rooms that read what a study left; they may import every stage, and no stage imports them.
AFTER = ["audit", "terminal"]
# Ground rooms may import only what stands before them here.
GROUND = [
    "errors",
    "records",
    "statistics",
    "runtime",
    "provenance",
    "config",
    "store",
    "environment",
    "agents",
    "harness",
]
# The config's loader asks the registries whether a name exists; it imports them inside the function.
ALLOWED = {("config", "agents"), ("config", "harness")}


def _edges():
    for path in sorted((ROOT / "pipeline").rglob("*.py")):
        room = path.relative_to(ROOT / "pipeline").parts[0].removesuffix(".py")
        for node in ast.walk(ast.parse(path.read_text())):
            names = [node.module] if isinstance(node, ast.ImportFrom) and node.module else []
            names += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            for name in names:
                parts = name.split(".")
                if parts[0] == "pipeline" and len(parts) > 1 and parts[1] != room:
                    yield room, parts[1], path.relative_to(ROOT)


def test_stages_import_only_earlier_stages_and_ground():
    order = GROUND + STAGES + AFTER
    wrong = [
        f"{path}: {room} imports {other}"
        for room, other, path in _edges()
        if room not in ("cli", "__init__") and (room, other) not in ALLOWED and order.index(other) > order.index(room)
    ]
    assert not wrong


def test_nothing_imports_the_command_line():
    assert not [path for room, other, path in _edges() if other == "cli"]


@pytest.mark.parametrize("stage", STAGES)
def test_a_stage_is_a_package_a_rule_file_and_a_test_file(stage):
    assert (ROOT / "pipeline" / stage / "command.py").is_file()
    assert (ROOT / "rules" / f"{stage}.smk").is_file()
    assert (ROOT / "tests" / f"test_{stage}.py").is_file()


def test_files_stay_small_enough_to_read_in_one_sitting():
    files = [*(ROOT / "pipeline").rglob("*.py"), *(ROOT / "rules").glob("*.smk"), ROOT / "Snakefile"]
    long = {str(path.relative_to(ROOT)): lines for path in files if (lines := len(path.read_text().splitlines())) > 400}
    assert not long


def test_the_episode_loop_is_under_200_lines():
    assert len((ROOT / "pipeline/harness/session.py").read_text().splitlines()) < 200


def test_modules_say_what_they_are_and_leave_no_marks():
    for path in (ROOT / "pipeline").rglob("*.py"):
        text = path.read_text()
        assert ast.get_docstring(ast.parse(text)), path
        for mark in ("TODO", "FIXME", "XXX", "NotImplemented"):
            assert mark not in text, f"{path}: {mark}"
