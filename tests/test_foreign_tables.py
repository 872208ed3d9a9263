"""Tables that no run of this project made: the documented columns alone, in another order, with other types of Parquet."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from test_policies import router_value, tables
from test_router import router_file

from pipeline.cli import cir
from pipeline.records.schemas import OPTIONAL, SCHEMAS, decisions_schema
from pipeline.records.tables import write_rows

DOCS = Path(__file__).resolve().parents[1] / "docs"


def call(*arguments):
    result = CliRunner().invoke(cir, [str(argument) for argument in arguments])
    assert result.exit_code == 0, result.exception
    return result.stdout


def foreign(path):
    """The same rows as another tool would write them: columns and rows reversed, texts as dictionaries, flags as bytes."""
    table = pq.ParquetFile(path).read()
    table = table.take(list(range(len(table)))[::-1]).select(table.column_names[::-1])
    columns = {}
    for name in table.column_names:
        column = table.column(name)
        if pa.types.is_string(column.type):
            column = column.dictionary_encode() if name != "task" else column.cast(pa.large_string())
        elif pa.types.is_boolean(column.type):
            column = column.cast(pa.int8())
        elif pa.types.is_integer(column.type):
            column = column.cast(pa.int32())
        columns[name] = column
    where = path.with_name(f"foreign-{path.name}")
    pq.write_table(pa.table(columns), where, compression="snappy", row_group_size=7)
    return where


@pytest.fixture
def made(tmp_path):
    """Our tables without the optional columns, and the same as foreign ones."""
    rows, pairs = tables(40)
    ours = {"pairs": tmp_path / "pairs.parquet", "decisions": tmp_path / "decisions.parquet"}
    bare = pa.schema([field for field in SCHEMAS["pairs"] if field.name not in OPTIONAL["pairs"]])
    write_rows(ours["pairs"], pairs, bare)
    write_rows(ours["decisions"], rows, decisions_schema(["x_a", "x_b"]))
    (tmp_path / "router.json").write_text(json.dumps(router_value()))
    return tmp_path, ours, {name: foreign(path) for name, path in ours.items()}


def test_effects_and_contrasts_of_foreign_tables_are_ours(made):
    _, ours, theirs = made
    for arguments in (
        ["effects"],
        ["effects", "--by", "condition,delay", "--exact"],
        ["contrast", "--condition", "stale-2", "--versus", "clean"],
        ["contrast", "--operator", "refresh", "--versus-operator", "replan-only"],
        ["gate"],
        ["compare"],
    ):
        command, *options = arguments
        found = [call(command, paths["pairs"], *options, "--format", "json") for paths in (ours, theirs)]
        assert found[0] == found[1], command


def test_a_router_fitted_and_evaluated_on_foreign_tables_is_ours(made):
    folder, ours, theirs = made
    evaluated, fitted = [], []
    for paths in (ours, theirs):
        call("fit", paths["decisions"], "--out", folder / "fitted.json", "--delays", "1,2,4")
        router = json.loads((folder / "fitted.json").read_text())
        # Features keep the order of their columns, so coefficients are compared by name.
        weights = {
            (name, feature): weight
            for name, model in router["models"].items()
            for feature, weight in zip(router["features"], model["coefficients"], strict=True)
        }
        fitted.append(weights | router["thresholds"])
        options = ["--decisions", paths["decisions"], "--pairs", paths["pairs"], "--format", "json"]
        summary = json.loads(call("evaluate", folder / "router.json", *options))
        evaluated.append({name: summary[name] for name in ("policies", "differences", "costs", "cost_curve")})
    assert evaluated[0] == evaluated[1]
    assert fitted[0] == pytest.approx(fitted[1], abs=1e-9)


def test_the_documented_loop_runs_as_it_stands(tmp_path):
    """docs/router.md's example: another harness's loop, with nothing heavy imported, in a process of its own."""
    text = (DOCS / "router.md").read_text()
    code = re.search(r"```python\n(.*?)```", text, re.DOTALL).group(1)
    router_file(tmp_path)
    (tmp_path / "results/demo/router").mkdir(parents=True)
    (tmp_path / "router.json").rename(tmp_path / "results/demo/router/router.json")
    code += "\nimport sys\nprint({'numpy', 'pandas', 'sklearn', 'pyarrow'} & set(sys.modules))\nprint(asked, looked)\n"
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    heavy, counts = done.stdout.splitlines()[-2:]
    assert heavy == "set()"
    asked, looked = map(int, counts.split())
    assert 1 <= asked <= 3
    assert looked <= 1


def test_the_documented_prefix_is_one(tmp_path):
    text = (DOCS / "router.md").read_text()
    router_file(tmp_path)
    (tmp_path / "prefix.json").write_text(re.search(r"```json\n(.*?)```", text, re.DOTALL).group(1))
    answer = json.loads(call("decide", tmp_path / "router.json", tmp_path / "prefix.json", "--format", "json"))
    assert {"intervene", "passed"} <= set(answer)
