"""Rows on stdout as a table, JSON or CSV (contracts.md, "Commands"); a table fits a terminal of 80 columns."""

import csv
import json
import sys
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from typing import Any

FORMATS = ("table", "json", "csv")
WIDTH = 80
# One column of a printed table: its heading, and the cell's text out of a row.
Column = tuple[str, Callable[[Mapping[str, Any]], str]]


def print_json(value: Any) -> None:
    """Indented JSON. Raises ValueError for NaN or infinity."""
    sys.stdout.write(json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n")


def print_csv(rows: Sequence[Mapping[str, Any]]) -> None:
    """One line a row under a heading; a list becomes its JSON, null an empty cell."""
    if not rows:
        return
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(rows[0])
    for row in rows:
        writer.writerow([json.dumps(cell) if isinstance(cell, list | dict) else cell for cell in row.values()])


def print_table(title: str, columns: Sequence[Column], rows: Sequence[Mapping[str, Any]], note: str = "") -> None:
    """A titled table; the first column is left-aligned, the others right-aligned."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, padding=(0, 0, 0, 1), pad_edge=False, title_justify="left", header_style="bold")
    for place, (heading, _) in enumerate(columns):
        table.add_column(heading, justify="right" if place else "left", no_wrap=True)
    for row in rows:
        table.add_row(*[Text(visible(cell(row))) for _, cell in columns])
    console = Console(file=sys.stdout, width=WIDTH, highlight=False)
    console.print(Text(title, style="bold"))
    console.print(table)
    if note:
        console.print(Text(note, style="dim"))
    console.print()


def visible(text: str) -> str:
    """The text with every character that a terminal would obey written out (`\\x1b`); line breaks and tabs stay.

    Names and transcripts come from files and agents: a text must not be able to move the cursor, set a title, hide
    itself, or turn the reading direction.
    """
    return "".join(
        mark.encode("unicode_escape").decode() if _obeyed(mark) and mark not in "\n\t" else mark for mark in text
    )


def _obeyed(mark: str) -> bool:
    return (mark > "~" and unicodedata.category(mark) in ("Cc", "Cf", "Cs", "Co", "Zl", "Zp")) or mark < " "


def percent_points(value: float) -> str:
    """Signed, two decimals."""
    return f"{value:+.2f}"


def interval(low: float, high: float) -> str:
    """Both ends, two decimals."""
    return f"[{low:.2f}, {high:.2f}]"


def p_value(value: float | None) -> str:
    """Three significant places without the leading zero, as statisticians print them."""
    if value is None:
        return "-"
    if value < 0.0005:
        return "<.001"
    return "1" if value >= 0.9995 else f"{value:.3f}"[1:]
