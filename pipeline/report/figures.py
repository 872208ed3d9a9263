"""Charts out of rows, nothing else: each is drawn small, so that a page can set them side by side or one above another.

Colours (Okabe-Ito hues) and shapes never carry a meaning alone: sign, position or a label says the same.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import altair as alt

from pipeline.report.wording import number

Row = Mapping[str, Any]

# The page's style sheet swaps these for the reader's colour scheme; they must stay distinct and written in this form.
INK, MUTED, GRID = "#1f2328", "#59636e", "#dfe3e8"
CELLS = {
    "rescue": "#0072b2",
    "kept success": "#a9cfe5",
    "harm": "#d55e00",
    "unchanged failure": "#efcbb0",
}
HUES = ("#0072b3", "#c4569b", "#008a66", "#b07d00", "#5b6cc9", "#8a5a44", "#3e8f9c")
SHAPES = ("circle", "square", "triangle-up", "diamond", "cross", "triangle-down", "triangle-right")
A_A = "#6e7781"
_BESIDE = " (published)"
FONT = "Liberation Sans, Arial, Helvetica, sans-serif"


@dataclass(frozen=True)
class Figure:
    """One drawing: its file name without suffix, a title, what it shows in words, the chart, and its data as rows."""

    name: str
    title: str
    alt: str
    chart: alt.TopLevelMixin
    rows: Sequence[Row]


def four_cells(
    rows: Sequence[Row], conditions: Sequence[str], delays: Sequence[int], domain: tuple[int, int], title: str
) -> alt.TopLevelMixin:
    """Stacked bars around zero by condition and delay, for effects rows of one operator.

    Above zero stand the tasks that succeed with the recovery (rescues next to zero, then kept successes), below those
    that fail with it (harms, then unchanged failures): a bar's whole length is n. `domain` is the most that fail, negative,
    and the most that succeed, the same for all panels that are compared.
    """
    bars, labels = [], []
    for row in rows:
        place = {"condition": row["condition"], "delay": str(row["delay"])}
        top, bottom = row["rescue"] + row["kept_success"], -row["harm"] - row["unchanged_failure"]
        for cell, low, high in (
            ("rescue", 0, row["rescue"]),
            ("kept success", row["rescue"], top),
            ("harm", -row["harm"], 0),
            ("unchanged failure", bottom, -row["harm"]),
        ):
            bars.append(place | {"cell": cell, "low": low, "high": high})
        labels.append(place | {"at": top, "text": f"+{row['rescue']}", "up": True})
        labels.append(place | {"at": bottom, "text": f"−{row['harm']}", "up": False})
    x = alt.X("delay:O", sort=[str(delay) for delay in delays], title="delay", axis=alt.Axis(labelAngle=0, ticks=False))
    # Room for the labels at both ends.
    room = 0.08 * (domain[1] - domain[0])
    scale = alt.Scale(domain=[domain[0] - room, domain[1] + room], nice=False)
    axis = alt.Axis(labelExpr="abs(datum.value)", tickCount=6, tickMinStep=1)
    layers = [
        alt.Chart()
        .transform_filter("isValid(datum.cell)")
        .mark_bar(size=16)
        .encode(
            x=x,
            y=alt.Y("low:Q", title="tasks: fail ↓ | ↑ succeed", scale=scale, axis=axis),
            y2="high:Q",
            color=alt.Color(
                "cell:N",
                title=None,
                scale=alt.Scale(domain=list(CELLS), range=list(CELLS.values())),
                legend=alt.Legend(orient="bottom", columns=2),
            ),
        ),
        alt.Chart().mark_rule(color=INK, strokeWidth=1).encode(y=alt.datum(0)),
    ]
    for up, color, offset in ((True, CELLS["rescue"], -7), (False, CELLS["harm"], 7)):
        layers.append(
            alt.Chart()
            .transform_filter(f"datum.up === {str(up).lower()}")
            .mark_text(color=color, fontSize=9, fontWeight="bold", dy=offset)
            .encode(x=x, y=alt.Y("at:Q", scale=scale), text="text:N")
        )
    chart = alt.layer(*layers, data=alt.Data(values=bars + labels)).properties(width=alt.Step(18), height=230)
    return styled(chart.facet(column=_column(conditions), spacing=7), title)


def effect_intervals(
    rows: Sequence[Row],
    series: Sequence[str],
    delays: Sequence[int],
    domain: tuple[float, float],
    title: str,
    by: str = "operator",
    ghosts: Sequence[Row] = (),
    heading: str = "net effect, points",
) -> alt.TopLevelMixin:
    """Effects or contrasts with their 95% intervals (percentage points) by delay and `by`, whose values are `series`.

    `ghosts` are published rows with the same columns (null for an interval that was not published): hollow grey diamonds
    with a dashed interval, beside the study's mark of the same keys.
    """
    names = {"effect": "effect_pp", "low": "ci_low_pp", "high": "ci_high_pp"}
    marked = {row[by] for row in ghosts}
    values = [
        {"delay": str(row["delay"]), by: row[by], "ghost": ghost, "slot": row[by] + (_BESIDE if ghost else "")}
        | {short: row[name] for short, name in names.items()}
        for some, ghost in ((rows, False), (ghosts, True))
        for row in some
    ]
    hues = _hues(series)
    x = alt.X("delay:O", sort=[str(delay) for delay in delays], title="delay", axis=alt.Axis(labelAngle=0, ticks=False))
    # A published mark stands beside the study's, so that neither hides the other.
    slots = [slot for name in series for slot in ([name, name + _BESIDE] if name in marked else [name])]
    offset = alt.XOffset("slot:N", scale=alt.Scale(domain=slots, paddingOuter=0.4))
    scale = alt.Scale(domain=list(domain), nice=True)
    legend = alt.Legend(orient="bottom", columns=2)
    color = alt.Color(
        f"{by}:N", title=None, scale=alt.Scale(domain=list(series), range=list(hues.values())), legend=legend
    )
    shapes = [SHAPES[place % len(SHAPES)] for place in range(len(series))]
    shape = alt.Shape(f"{by}:N", title=None, scale=alt.Scale(domain=list(series), range=shapes), legend=legend)
    own = alt.Chart().transform_filter("!datum.ghost").encode(x=x, xOffset=offset, color=color)
    y, y_end = alt.Y("low:Q", scale=scale, title=heading), "high:Q"
    layers = [
        alt.Chart().mark_rule(color=INK, strokeWidth=1).encode(y=alt.datum(0)),
        own.mark_rule(strokeWidth=2).encode(y=y, y2=y_end),
        own.mark_point(filled=True, size=55, opacity=1).encode(y=alt.Y("effect:Q", scale=scale), shape=shape),
    ]
    if ghosts:
        theirs = alt.Chart().transform_filter("datum.ghost").encode(x=x, xOffset=offset)
        known = theirs.transform_filter("isValid(datum.low) && isValid(datum.high)")
        layers += [
            known.mark_rule(strokeWidth=1, strokeDash=[3, 2], color=MUTED).encode(y=y, y2=y_end),
            theirs.mark_point(filled=False, shape="diamond", size=60, color=MUTED, opacity=1).encode(
                y=alt.Y("effect:Q", scale=scale)
            ),
        ]
    return styled(alt.layer(*layers, data=alt.Data(values=values)).properties(width=235, height=200), title)


def policy_gains(rows: Sequence[Row], title: str) -> alt.TopLevelMixin:
    """Gain over never intervening of each policy, percentage points, with its 95% interval."""
    values = [
        {"policy": row["policy"], "gain": row["gain_pp"], "low": row["ci_low_pp"], "high": row["ci_high_pp"]}
        for row in rows
    ]
    y = _policies(rows)
    layers = [
        alt.Chart().mark_rule(color=INK, strokeWidth=1).encode(x=alt.datum(0)),
        alt.Chart()
        .mark_rule(strokeWidth=2, color=HUES[0])
        .encode(y=y, x=alt.X("low:Q", title="gain, points"), x2="high:Q"),
        alt.Chart().mark_point(filled=True, size=60, color=HUES[0], opacity=1).encode(y=y, x="gain:Q"),
    ]
    return styled(alt.layer(*layers, data=alt.Data(values=values)).properties(width=200, height=alt.Step(24)), title)


def policy_shares(
    rows: Sequence[Row], count: str, of: str, limit: float | None, title: str, heading: str
) -> alt.TopLevelMixin:
    """A share in percent as bars, its counts written beside them; `limit` (a share) as a dashed line."""
    values = [
        {
            "policy": row["policy"],
            "share": 100 * row[count] / row[of] if row[of] else 0.0,
            "text": f"{number(row[count])}/{row[of]}",
        }
        for row in rows
    ]
    top = max([value["share"] for value in values] + [100 * (limit or 0), 1.0])
    # The scale leaves room for the counts; a tick beyond the whole would read as a share.
    axis = alt.Axis(tickCount=5, labelExpr="datum.value > 100 ? '' : datum.label")
    x = alt.X("share:Q", title=heading, scale=alt.Scale(domain=[0, 1.35 * top], nice=False), axis=axis)
    y = _policies(rows)
    bars = alt.Chart().mark_bar(size=12, color=CELLS["harm"] if limit is not None else HUES[0]).encode(y=y, x=x)
    labels = alt.Chart().mark_text(align="left", dx=4, color=INK, fontSize=10).encode(y=y, x=x, text="text:N")
    layers: list[alt.Chart] = [bars, labels]
    if limit is not None:
        layers.append(alt.Chart().mark_rule(color=INK, strokeDash=[4, 3]).encode(x=alt.datum(100 * limit)))
    return styled(alt.layer(*layers, data=alt.Data(values=values)).properties(width=200, height=alt.Step(24)), title)


def _policies(rows: Sequence[Row]) -> alt.Y:
    axis = alt.Axis(labelLimit=140, ticks=False)
    return alt.Y("policy:N", sort=[row["policy"] for row in rows], title=None, axis=axis)


def _column(conditions: Sequence[str]) -> alt.Column:
    header = alt.Header(title=None, labelFontSize=11, labelFontWeight="bold", labelColor=INK, labelPadding=4)
    return alt.Column("condition:N", sort=list(conditions), title=None, header=header)


def _hues(operators: Sequence[str]) -> dict[str, str]:
    """A hue for each operator; the A/A arm is grey, since it is the yardstick and no recovery."""
    others = [name for name in operators if name != "none"]
    hues = {name: HUES[place % len(HUES)] for place, name in enumerate(others)}
    return {name: hues.get(name, A_A) for name in operators}


def styled(chart: Any, title: str) -> alt.TopLevelMixin:
    """The chart with the page's fonts, colours and a title."""
    axis = {"labelColor": MUTED, "titleColor": MUTED, "domainColor": GRID, "tickColor": GRID, "gridColor": GRID}
    config = {
        "font": FONT,
        "background": "white",
        "aria": False,
        "view": {"stroke": None},
        "axis": {"labelFontSize": 10, "titleFontSize": 10, "titleFontWeight": "normal"} | axis,
        "axisX": {"grid": False},
        "title": {"color": INK, "fontSize": 12, "anchor": "start", "offset": 6},
        "legend": {"labelColor": INK, "labelFontSize": 10, "symbolSize": 60, "rowPadding": 1, "columnPadding": 10}
        | {"padding": 0, "offset": 6},
    }
    # All in one call: each would copy the chart with its data.
    return chart.properties(title=title, config=config)
