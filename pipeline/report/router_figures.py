"""Charts of the router: risk against gain, calibration, coefficients, differences between policies, costs."""

from collections.abc import Sequence

import altair as alt

from pipeline.report.figures import CELLS, GRID, HUES, INK, MUTED, SHAPES, Row, styled

# Policies that can be drawn in one panel and still be told apart; the tables have all.
DRAWN = ("always-0", "always-1", "sequential-anomaly", "rate-matched-anomaly", "cir", "operator-choice", "oracle")


def risk_gain(rows: Sequence[Row], epsilon: float, title: str) -> alt.TopLevelMixin:
    """Most gain that thresholds buy for a clean harm, as steps; policies as points, the limit as a dashed line."""
    steps = [row for row in rows if row["what"] == "frontier"]
    points: dict[tuple[float, float], list[str]] = {}
    for row in rows:
        if row["what"] != "frontier":
            points.setdefault((row["clean_harm_pc"], row["gain_pc"]), []).append(row["what"])
    values = [{"kind": "step", "x": row["clean_harm_pc"], "y": row["gain_pc"]} for row in steps]
    right = max([100 * epsilon, *(value["x"] for value in values), *(x for x, _ in points)])
    if steps:
        # The last step goes on: more harm buys nothing.
        values.append({"kind": "step", "x": 1.05 * right, "y": steps[-1]["gain_pc"]})
    values += [
        {"kind": "point", "x": x, "y": y, "name": ", ".join(names), "cir": "cir" in names}
        for (x, y), names in points.items()
    ]
    x = alt.X(
        "x:Q",
        title="clean harm, % of clean episodes",
        scale=alt.Scale(domain=[-0.04 * right, 1.25 * right], nice=False),
        axis=alt.Axis(values=_ticks(right)),
    )
    y = alt.Y("y:Q", title="net gain, % of altered episodes")
    point = alt.Chart().transform_filter("datum.kind === 'point'")
    layers = [
        alt.Chart().mark_rule(color=INK, strokeDash=[4, 3]).encode(x=alt.datum(100 * epsilon)),
        alt.Chart()
        .transform_filter("datum.kind === 'step'")
        .mark_line(interpolate="step-after", color=HUES[0], strokeWidth=2)
        .encode(x=x, y=y),
        point.transform_filter("!datum.cir")
        .mark_point(filled=True, shape="square", size=45, color=MUTED, opacity=1)
        .encode(x=x, y=y),
        point.transform_filter("datum.cir")
        .mark_point(filled=True, size=90, color=CELLS["harm"], opacity=1)
        .encode(x=x, y=y),
        point.mark_text(align="left", dx=8, dy=8, fontSize=10, color=INK, limit=220).encode(x=x, y=y, text="name:N"),
    ]
    return styled(alt.layer(*layers, data=alt.Data(values=values)).properties(width=320, height=230), title)


def _ticks(right: float) -> list[float]:
    step = next((step for step in (0.5, 1, 2, 5, 10, 20) if right / step <= 6), 50)
    return [step * number for number in range(int(right / step) + 2)]


def reliability(rows: Sequence[Row], models: Sequence[str], title: str) -> alt.TopLevelMixin:
    """Share that came true against the mean prediction, bins of equally many moments, one panel a model."""
    values = [{"model": row["model"], "predicted": row["predicted"], "observed": row["observed"]} for row in rows]
    scale = alt.Scale(domain=[0, 1])
    x, y = alt.X("predicted:Q", title="predicted", scale=scale), alt.Y("observed:Q", title="came true", scale=scale)
    diagonal = alt.Chart(alt.Data(values=[{"predicted": 0, "observed": 0}, {"predicted": 1, "observed": 1}]))
    panels, brier = [], {row["model"]: model_words(row) for row in rows}
    for place, model in enumerate(models):
        mine = alt.Chart(alt.Data(values=[value for value in values if value["model"] == model]))
        shape = SHAPES[place % len(SHAPES)]
        panel = alt.layer(
            diagonal.mark_line(color=MUTED, strokeDash=[3, 3], strokeWidth=1).encode(x=x, y=y),
            mine.mark_line(color=HUES[0], strokeWidth=1.5).encode(x=x, y=y),
            mine.mark_point(filled=True, size=45, color=HUES[0], opacity=1, shape=shape).encode(x=x, y=y),
        )
        panels.append(panel.properties(width=165, height=165, title=brier.get(model, model)))
    return styled(alt.hconcat(*panels, spacing=14), title)


def model_words(row: Row) -> str:
    """A model with its Brier score, and that of saying the base rate each time."""
    return f"{row['model']}: Brier {row['brier']:.3f} ({row['brier_of_base_rate']:.3f})"


def coefficients(rows: Sequence[Row], models: Sequence[str], title: str) -> alt.TopLevelMixin:
    """Coefficients on scaled features by name, one panel a model; the order is that of the rows."""
    names = list(dict.fromkeys(row["feature"] for row in rows))
    panels = []
    for place, model in enumerate(models):
        axis = (
            alt.Axis(labelLimit=190, ticks=False, grid=True, gridColor=GRID)
            if place == 0
            else alt.Axis(labels=False, ticks=False, grid=True, gridColor=GRID)
        )
        y = alt.Y("feature:N", sort=names, title=None, axis=axis)
        x = alt.X("coefficient:Q", title="coefficient")
        mine = alt.Chart(alt.Data(values=[dict(row) for row in rows if row["model"] == model]))
        panel = alt.layer(
            mine.mark_rule(color=HUES[0], strokeWidth=2).encode(x=x, x2=alt.datum(0), y=y),
            mine.mark_point(filled=True, size=30, color=HUES[0], opacity=1).encode(x=x, y=y),
            alt.Chart(alt.Data(values=[{}])).mark_rule(color=INK, strokeWidth=1).encode(x=alt.datum(0)),
        )
        panels.append(panel.properties(width=130, height=alt.Step(13), title=model))
    return styled(alt.hconcat(*panels, spacing=10), title)


def differences(rows: Sequence[Row], title: str) -> alt.TopLevelMixin:
    """A policy less each other one, percentage points, with 95% intervals."""
    values = [
        {"versus": row["versus"], "value": row["difference_pp"], "low": row["ci_low_pp"], "high": row["ci_high_pp"]}
        for row in rows
    ]
    y = alt.Y("versus:N", sort=[row["versus"] for row in rows], title=None, axis=alt.Axis(labelLimit=150, ticks=False))
    layers = [
        alt.Chart().mark_rule(color=INK, strokeWidth=1).encode(x=alt.datum(0)),
        alt.Chart()
        .mark_rule(strokeWidth=2, color=HUES[0])
        .encode(y=y, x=alt.X("low:Q", title="cir less this policy, points"), x2="high:Q"),
        alt.Chart().mark_point(filled=True, size=60, color=HUES[0], opacity=1).encode(y=y, x="value:Q"),
    ]
    return styled(alt.layer(*layers, data=alt.Data(values=values)).properties(width=230, height=alt.Step(22)), title)


def cost_curve(rows: Sequence[Row], unit: str, title: str) -> alt.TopLevelMixin:
    """Value of policies (gain less the price of what they use) along the price of a unit."""
    names = [name for name in DRAWN if any(row["policy"] == name for row in rows)]
    values = [
        {"policy": row["policy"], "c": row["c"], "value": row["value_pp"]} for row in rows if row["policy"] in names
    ]
    # A policy that costs far more than it gains would flatten the others: it leaves the panel, and stands in the CSV.
    top = max(1.0, *(value["value"] for value in values))
    hues = [HUES[place % len(HUES)] for place in range(len(names))]
    shapes = [SHAPES[place % len(SHAPES)] for place in range(len(names))]
    legend = alt.Legend(orient="bottom", columns=3)
    color = alt.Color("policy:N", title=None, scale=alt.Scale(domain=names, range=hues), legend=legend)
    shape = alt.Shape("policy:N", title=None, scale=alt.Scale(domain=names, range=shapes), legend=legend)
    x = alt.X(
        "c:Q",
        title=f"price of a {unit.replace('_', ' ')}, successes",
        scale=alt.Scale(type="symlog", constant=0.01),
        axis=alt.Axis(values=sorted({value["c"] for value in values}), labelOverlap="greedy", format=".3~g"),
    )
    y = alt.Y("value:Q", title="value, points", scale=alt.Scale(domain=[-0.6 * top, 1.05 * top], nice=False))
    base = alt.Chart().encode(x=x, y=y, color=color)
    layers = [
        alt.Chart().mark_rule(color=INK, strokeWidth=1).encode(y=alt.datum(0)),
        base.mark_line(strokeWidth=1.5, clip=True),
        base.mark_point(filled=True, size=35, opacity=1, clip=True).encode(shape=shape),
    ]
    return styled(alt.layer(*layers, data=alt.Data(values=values)).properties(width=320, height=220), title)
