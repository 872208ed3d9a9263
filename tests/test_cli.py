"""Every command teaches: help, an example, and errors without tracebacks."""

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
