"""Parquet tables: written atomically with an explicit schema, the same rows give the same bytes."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from pipeline.errors import BadInput
from pipeline.records.files import replacing
from pipeline.records.schemas import SCHEMAS


def write_table(path: str | Path, table: pa.Table) -> None:
    """Write a table atomically: zstd, no timestamps, one writer version, so that equal tables give equal bytes."""
    with replacing(path) as beside:
        pq.write_table(table, beside, compression="zstd", version="2.6", use_dictionary=True, write_statistics=True)


def write_rows(path: str | Path, rows: Sequence[Mapping[str, Any]], schema: str | pa.Schema) -> None:
    """Write rows under a schema of `SCHEMAS` (by name) or a given one, in the order they come.

    Raises ValueError where a row lacks a column or a value doesn't fit: that is a fault of the caller, not of a user.
    """
    arrow = SCHEMAS[schema] if isinstance(schema, str) else schema
    for row in rows:
        if missing := [name for name in arrow.names if name not in row]:
            raise ValueError(f"row lacks the columns {missing}")
    table = pa.Table.from_pylist([{name: row[name] for name in arrow.names} for row in rows], schema=arrow)
    for field in arrow:
        if not field.nullable and table.column(field.name).null_count:
            raise ValueError(f"column {field.name} must not be null")
    write_table(path, table)


def read_table(path: str | Path, columns: Iterable[str] | None = None, required: Iterable[str] = ()) -> pa.Table:
    """Read a table. Raises BadInput naming the file and the columns where it is missing, damaged, or lacks some."""
    path = Path(path)
    if not path.is_file():
        raise BadInput(
            f"{path}: no such file; expected a Parquet table (see contracts in docs/tables.md for which command writes it)"
        )
    try:
        # One open handle: a path would make pyarrow guess hive partitions from folder names such as `condition=clean`.
        with open(path, "rb") as file:
            parquet = pq.ParquetFile(file)
            have = parquet.schema_arrow.names
            wanted = list(columns) if columns is not None else None
            missing = sorted((set(required) | set(wanted or ())) - set(have))
            if missing:
                raise BadInput(f"{path}: lacks the column(s) {', '.join(missing)}; it has {', '.join(have)}")
            return parquet.read(columns=wanted)
    except (pa.ArrowInvalid, OSError) as error:
        raise BadInput(f"{path}: is no readable Parquet file ({error}); delete it and run its stage again") from error


def read_rows(
    path: str | Path, schema: str | None = None, columns: Iterable[str] | None = None
) -> list[dict[str, Any]]:
    """Rows of a table as dicts; with a schema's name its columns must be there."""
    required = SCHEMAS[schema].names if schema and columns is None else ()
    return read_table(path, columns=columns, required=required).to_pylist()
