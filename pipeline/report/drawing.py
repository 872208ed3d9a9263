"""Charts as SVG text and their data as CSV text, the same bytes on every run."""

import csv
import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import altair as alt

from pipeline.report.figures import Figure


@dataclass(frozen=True)
class Drawn:
    """A figure and its SVG text."""

    figure: Figure
    svg: str


def drawn(figure: Figure) -> Drawn:
    """The figure with its drawing."""
    return Drawn(figure, svg(figure.chart, figure.name))


def svg(chart: alt.TopLevelMixin, name: str) -> str:
    """The chart as SVG. `name` makes its ids unique, so that many drawings can stand in one page.

    The converter numbers clip paths over the life of its process; numbered anew here, they depend on the drawing alone.
    """
    import vl_convert

    text = vl_convert.vegalite_to_svg(chart.to_dict())
    known: dict[str, str] = {}
    for old in re.findall(r'\bid="([^"]+)"', text):
        known.setdefault(old, f"{name}-{len(known)}")
    text = re.sub(r'\bid="([^"]+)"', lambda match: f'id="{known[match[1]]}"', text)
    return re.sub(r"url\(#([^)]+)\)", lambda match: f"url(#{known[match[1]]})", text)


def csv_text(rows: Sequence[Mapping[str, Any]]) -> str:
    """Rows under a heading; numbers as Python writes them, so that reading them back gives the same values."""
    file = io.StringIO()
    writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return file.getvalue()
