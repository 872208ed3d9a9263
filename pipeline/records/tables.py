"""Parquet tables: written atomically with an explicit schema, the same rows give the same bytes."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from pipeline.errors import BadInput
from pipeline.records.files import replacing
from pipeline.records.schemas import KEYS, OPTIONAL, SCHEMAS

_TEXTUAL = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
_NUMERIC = (pa.types.is_boolean, pa.types.is_integer, pa.types.is_floating)


def write_table(path: str | Path, table: pa.Table) -> None:
    """Write a table atomically: zstd, no timestamps, one writer version, so that equal tables give equal bytes."""
    with replacing(path) as beside:
        pq.write_table(table, beside, compression="zstd", version="2.6", use_dictionary=True, write_statistics=True)


def write_rows(path: str | Path, rows: Sequence[Mapping[str, Any]], schema: str | pa.Schema) -> None:
    """Write rows under a schema of `SCHEMAS` (by name) or a given one, in the order they come.

    An optional column that a row lacks is null there. Raises ValueError where a row lacks another one or a value
    doesn't fit: that is a fault of the caller, not of a user.
    """
    arrow = SCHEMAS[schema] if isinstance(schema, str) else schema
    optional = OPTIONAL.get(schema, ()) if isinstance(schema, str) else ()
    for row in rows:
        if missing := [name for name in arrow.names if name not in row and name not in optional]:
            raise ValueError(f"row lacks the columns {missing}")
    table = pa.Table.from_pylist([{name: row.get(name) for name in arrow.names} for row in rows], schema=arrow)
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
        # Arrow's own, not Python's: an Arrow thread that lets go of a Python buffer at the process's end aborts it (134).
        with pa.OSFile(str(path)) as file:
            parquet = pq.ParquetFile(file)
            have = parquet.schema_arrow.names
            wanted = list(columns) if columns is not None else None
            missing = sorted((set(required) | set(wanted or ())) - set(have))
            if missing:
                raise BadInput(f"{path}: lacks the column(s) {', '.join(missing)}; it has {', '.join(have)}")
            return parquet.read(columns=wanted)
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        reason = " ".join(str(error).split())
        raise BadInput(f"{path}: is no readable Parquet file ({reason}); delete it and run its stage again") from error


def read_rows(
    path: str | Path, schema: str | None = None, columns: Iterable[str] | None = None
) -> list[dict[str, Any]]:
    """Rows of a table as dicts; with a schema's name they are checked as `read_checked` does. Raises BadInput."""
    table = read_table(path, columns) if schema is None else read_checked(path, schema, columns)
    return table.to_pylist()


def read_checked(path: str | Path, schema: str, columns: Iterable[str] | None = None) -> pa.Table:
    """A table of our own: the schema's columns, or the given ones of them, with their types, nulls and keys.

    Raises BadInput as `read_table` does, and where a column has another type, a null that the schema forbids, or a row
    stands twice.
    """
    table = read_table(path, columns, required=() if columns else _needed(schema))
    _check_fields(path, table, SCHEMAS[schema])
    if (key := KEYS.get(schema, ())) and set(key) <= set(table.column_names):
        _check_once(path, table.select(key).to_pylist())
    return table


def check_kinds(path: str | Path, table: pa.Table, schema: pa.Schema, filled: Iterable[str] = ()) -> None:
    """Check a table that others may have made: what should be text is text, a number or flag is a number or a flag.

    Only columns that both have are looked at; those in `filled` must hold no null. Raises BadInput naming file and column.
    """
    for field in (field for field in schema if field.name in table.column_names):
        have = table.schema.field(field.name).type
        have = have.value_type if pa.types.is_dictionary(have) else have
        fits = _TEXTUAL if field.type == pa.string() else _NUMERIC
        if not (pa.types.is_null(have) or any(test(have) for test in fits)):
            raise BadInput(f"{path}: column {field.name} is {have}, expected {field.type}; convert the column")
    for name in filled:
        if count := table.column(name).null_count:
            raise BadInput(f"{path}: column {name} is empty in {count} of {len(table)} rows; fill or drop these rows")


def _needed(schema: str) -> list[str]:
    return [name for name in SCHEMAS[schema].names if name not in OPTIONAL.get(schema, ())]


def _check_fields(path: str | Path, table: pa.Table, schema: pa.Schema) -> None:
    again = "run the stage that writes this table again"
    for name in table.column_names:
        if name not in schema.names:
            continue
        field, have = schema.field(name), table.schema.field(name).type
        if have != field.type:
            raise BadInput(f"{path}: column {name} is {have}, expected {field.type}; {again}")
        if not field.nullable and (count := table.column(name).null_count):
            raise BadInput(f"{path}: column {name} is null in {count} of {len(table)} rows, expected none; {again}")


def _check_once(path: str | Path, keys: Sequence[Mapping[str, Any]]) -> None:
    counted = Counter(tuple(row.values()) for row in keys)
    if twice := next((names for names, count in counted.items() if count > 1), None):
        raise BadInput(f"{path}: {' '.join(map(str, twice))} stands {counted[twice]} times; expected one row each")
