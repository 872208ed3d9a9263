"""Pairs and exclusions out of the recorded trunks and branches, by DuckDB (protocol.md section 1).

The SQL stands in the files beside this module; what varies (files, conditions, delays, operators) reaches it as views.
"""

from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from pipeline.errors import BadInput, CheckFailed
from pipeline.records.schemas import SCHEMAS
from pipeline.records.tables import read_checked, read_table, required_columns

if TYPE_CHECKING:
    import duckdb

SHOWN_PROBLEMS = 20


def sql(name: str) -> str:
    """Text of one of the package's SQL files."""
    return files("pipeline.outcomes").joinpath(f"{name}.sql").read_text()


def trunk_paths(trajectories: Path, cohorts: Sequence[str], conditions: Sequence[str]) -> list[Path]:
    """The trunks' files of contracts.md, in a fixed order."""
    return [trajectories / f"cohort={c}" / f"condition={e}" / "trunk.parquet" for c in cohorts for e in conditions]


def branch_paths(
    forks: Path, cohorts: Sequence[str], conditions: Sequence[str], delays: Sequence[int], operators: Sequence[str]
) -> list[Path]:
    """The branches' files of contracts.md, in a fixed order."""
    return [
        forks / f"cohort={c}" / f"condition={e}" / f"delay={d}" / f"operator={m}" / "part.parquet"
        for c in cohorts for e in conditions for d in delays for m in operators
    ]  # fmt: skip


def pair_up(
    cohorts: str | Path,
    trajectories: str | Path,
    forks: str | Path,
    conditions: Sequence[str],
    delays: Sequence[int],
    operators: Sequence[str],
    exclude_null_alterations: bool = False,
) -> tuple[pa.Table, pa.Table]:
    """The pairs and exclusions tables (schemas `pairs`, `exclusions`) of every planned unit.

    Planned are feasible tasks x conditions x delays x operators. Only the files of planned units are read, so leftovers
    of another config in the same folders play no part. Raises CheckFailed with the names of the first missing, double
    and unplanned records unless each unit has exactly one trunk and one branch; BadInput for an unreadable table.
    """
    tasks = read_checked(cohorts, "cohorts")
    names = sorted({row["cohort"] for row in tasks.select(["cohort", "feasible"]).to_pylist() if row["feasible"]})
    if not names:
        raise BadInput(f"{cohorts}: holds no feasible task; nothing can be paired")
    trunks = trunk_paths(Path(trajectories), names, conditions)
    branches = branch_paths(Path(forks), names, conditions, delays, operators)
    _all_there(trunks + branches)
    _readable(trunks, "trajectories")
    _readable(branches, "forks")

    import duckdb

    with duckdb.connect() as connection:
        connection.execute("SET threads = 1")
        connection.register("cohort_tasks", tasks)
        connection.register("wanted_conditions", pa.table({"condition": pa.array(conditions, pa.string())}))
        connection.register("wanted_delays", pa.table({"delay": pa.array(delays, pa.int64())}))
        connection.register("wanted_operators", pa.table({"operator": pa.array(operators, pa.string())}))
        connection.register("unit_settings", pa.table({"exclude_null_alterations": [exclude_null_alterations]}))
        for view, paths in (("trunk_files", trunks), ("branch_files", branches)):
            files_of = [str(path) for path in paths]
            found = connection.read_parquet(files_of, filename=True, hive_partitioning=False, union_by_name=True)
            if "episode_key" not in found.columns:
                found = found.project("*, CAST(NULL AS VARCHAR) AS episode_key")
            found.create_view(view)
        connection.execute(sql("units"))
        _complete(connection)
        connection.execute(sql("settled"))
        pairs, exclusions = (_query(connection, name) for name in ("pairs", "exclusions"))
        planned = connection.execute("SELECT count(*) FROM planned").fetchall()[0][0]
    excluded_units = len(exclusions) - exclusions.column("condition").null_count
    if len(pairs) + excluded_units != planned:
        raise CheckFailed(f"{len(pairs)} pairs and {excluded_units} exclusions don't add up to {planned} planned units")
    return pairs, exclusions


def _query(connection: "duckdb.DuckDBPyConnection", name: str) -> pa.Table:
    schema = SCHEMAS[name]
    return connection.sql(sql(name)).to_arrow_table().select(schema.names).cast(schema)


def _all_there(paths: Sequence[Path]) -> None:
    missing = [path for path in paths if not path.is_file()]
    if missing:
        shown = "\n".join(f"  {path}" for path in missing[:SHOWN_PROBLEMS])
        raise CheckFailed(
            f"{len(missing)} of {len(paths)} planned file(s) are missing, the first:\n{shown}\n"
            "run the trunk and fork stages for them, or plan fewer conditions, delays, operators"
        )


def _readable(paths: Sequence[Path], schema: str) -> None:
    """Columns are checked file by file, so that a message can name the file (DuckDB's would not)."""
    for path in paths:
        read_table(path, columns=[], required=required_columns(schema))


def _complete(connection: "duckdb.DuckDBPyConnection") -> None:
    problems: list[tuple[Any, ...]] = connection.execute(sql("coverage")).fetchall()
    if problems:
        shown = "\n".join(f"  {what}: {_unit(rest)}" for what, *rest in problems[:SHOWN_PROBLEMS])
        raise CheckFailed(
            f"{len(problems)} record(s) are missing, double, unplanned or contradictory, the first:\n{shown}\n"
            "each planned unit needs exactly one trunk and one branch; run their stages again"
        )


def _unit(names: Sequence[Any]) -> str:
    return " ".join(str(name) if key is None else f"{key}={name}" for key, name in zip(
        ("cohort", None, None, "d", None), names, strict=True) if name is not None)  # fmt: skip
