"""Every command teaches: help, an example, and errors without tracebacks."""

import os
import subprocess
import sys

import click
import pytest
from click.testing import CliRunner

from pipeline.cli import COMMANDS, cir


def _commands(group, path=()):
    for name in group.list_commands(None):
        command = group.get_command(None, name)
        yield (*path, name), command
        if isinstance(command, click.Group):
            yield from _commands(command, (*path, name))


ALL = list(_commands(cir))


def test_the_contracts_commands_are_there():
    names = {" ".join(path) for path, _ in ALL}
    for name in (
        "games generate,games index,cohorts,factual,trunk,fork,pairs,effects,contrast,features,fit,evaluate,decide,report"
    ).split(","):
        assert name in names


@pytest.mark.parametrize(("path", "command"), ALL, ids=[" ".join(path) for path, _ in ALL])
def test_every_command_has_help_with_an_example(path, command):
    result = CliRunner().invoke(cir, [*path, "--help"])
    assert result.exit_code == 0
    assert "Example" in result.output
    assert f"cir {' '.join(path)}" in result.output
    for option in command.params:
        if isinstance(option, click.Option) and not option.hidden:
            assert option.help, f"{path}: {option.name} has no help"


def test_help_lists_every_command_with_its_line():
    output = CliRunner().invoke(cir, ["--help"]).output
    for _, name, _, line in COMMANDS:
        assert name in output
        assert line.split()[0] in output


def test_help_imports_no_stage():
    code = (
        "import sys; from pipeline.cli import cir\n"
        "try: cir(['--help'])\n"
        "except SystemExit: pass\n"
        "heavy = {'pyarrow', 'duckdb', 'sklearn', 'scipy', 'numpy', 'textworld', 'pydantic', 'altair', 'snakemake'} & set(sys.modules)\n"
        "sys.exit(', '.join(sorted(heavy)) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_users_mistake_is_one_message_and_exit_2(tmp_path):
    for arguments in (["effects", str(tmp_path / "no.parquet")], ["config", "check", str(tmp_path / "no.yaml")]):
        done = subprocess.run(
            [sys.executable, "-m", "pipeline.cli", *arguments], capture_output=True, text=True, check=False
        )
        assert done.returncode == 2
        assert "Traceback" not in done.stderr
        assert "no." in done.stderr
        assert done.stdout == ""


def test_an_unknown_command_and_option_exit_2():
    for arguments in (["nonsense"], ["effects", "--nonsense"]):
        done = subprocess.run(
            [sys.executable, "-m", "pipeline.cli", *arguments], capture_output=True, text=True, check=False
        )
        assert done.returncode == 2
        assert "Traceback" not in done.stderr


@pytest.mark.parametrize("arguments", [["--help"], ["config", "settings", "config/demo.yaml", "fork"]])
def test_a_reader_that_leaves_ends_the_command_as_a_closed_pipe_does(arguments):
    """`cir … | head -1`: 141, not 1, which would say that a check failed; and not a word on stderr."""
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        [sys.executable, "-m", "pipeline.cli", *arguments],
        stdout=writing,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    os.close(writing)
    assert (done.returncode, done.stderr) == (141, "")


def test_a_table_whose_reader_leaves_ends_alike():
    """rich turns a closed pipe into exit 1 by itself."""
    reading, writing = os.pipe()
    os.close(reading)
    command = [
        sys.executable,
        "-m",
        "pipeline.cli",
        "power",
        "--rescue",
        "17/106",
        "--harm",
        "10/106",
        "--tasks",
        "106",
    ]
    done = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE, text=True, check=False)
    os.close(writing)
    assert (done.returncode, done.stderr) == (141, "")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_is_written_for_the_shell(shell):
    """The documented line: `eval "$(_CIR_COMPLETE=bash_source cir)"`."""
    done = _complete({"_CIR_COMPLETE": f"{shell}_source"})
    assert "_CIR_COMPLETE" in done.stdout, done.stderr


def test_bash_completes_commands_and_options():
    words = {"COMP_WORDS": "cir e", "COMP_CWORD": "1", "_CIR_COMPLETE": "bash_complete"}
    assert {"plain,effects", "plain,evaluate"} <= set(_complete(words).stdout.split())
    words = {"COMP_WORDS": "cir fork --o", "COMP_CWORD": "2", "_CIR_COMPLETE": "bash_complete"}
    assert {"plain,--operator", "plain,--out"} <= set(_complete(words).stdout.split())


def _complete(variables):
    # click takes the variable's name from the program's: the installed `cir`, which the tests must not need.
    code = "import sys; from pipeline.cli import main; sys.argv = ['cir']; main()"
    return subprocess.run(
        [sys.executable, "-c", code], env=os.environ | variables, capture_output=True, text=True, check=False
    )
