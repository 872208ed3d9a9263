"""What lies behind the router's thresholds on the fit cohort: its risk–gain frontier, and how well its models are calibrated."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from pipeline.report.inputs import Inputs, Row
from pipeline.router.model import MODELS, Signals, episodes
from pipeline.router.policy import Thresholds, counts
from pipeline.router.thresholds import frontier, gamma_values, grid_values

# The search behind `cir fit` tries every value; a curve needs fewer, and the page must not take as long as the fit.
MOST_VALUES = 800
BINS = 8


def risk_gain(inputs: Inputs) -> list[dict[str, Any]]:
    """Points of clean harms (share of clean episodes, percent) and net gain (percent of altered episodes), out of fold.

    `what` is frontier (the most gain that any thresholds buy with at most so many clean harms) or a policy's name. Both
    are counted on the episodes the thresholds were chosen on. Empty where the oof table holds no clean or altered episode.
    """
    rows, found = _joined(inputs)
    some = episodes(rows, found, inputs.router.delays)
    clean, altered = sum(one.clean for one in some), sum(not one.clean for one in some)
    if not clean or not altered:
        return []
    live = [one for one in found if one is not None]
    chosen = inputs.router.thresholds
    alphas = _thinned(grid_values([one.p_err for one in live]), chosen.alpha if chosen else None)
    betas = _thinned(grid_values([1 - one.p_0 for one in live]), chosen.beta if chosen else None)
    gammas = sorted({*gamma_values([one.u for one in live], 19), *([chosen.gamma] if chosen else [])})
    made = [("frontier", *point) for point in frontier(some, alphas, betas, gammas)]
    policies: dict[str, Thresholds | None] = {"never": None, **inputs.router.policies()}
    for name, thresholds in policies.items():
        done = counts(thresholds, some)
        made.append((name, done.clean_harms, done.net_gain))
    return [
        {"what": what, "clean_harms": harms, "clean_episodes": clean, "net_gain": gain, "altered_episodes": altered}
        | {"clean_harm_pc": 100 * harms / clean, "gain_pc": 100 * gain / altered}
        for what, harms, gain in made
    ]


def reliability(inputs: Inputs) -> list[dict[str, Any]]:
    """By model and bin of equally many moments: mean prediction, share that came true, and how many, out of fold."""
    rows, found = _joined(inputs)
    live = [(row, one) for row, one in zip(rows, found, strict=True) if one is not None]
    labels = {
        "p_err": [row["condition"] != "clean" for row, _ in live],
        "p_0": [bool(row["y0"]) for row, _ in live],
        "p_1": [bool(row["ym"]) for row, _ in live],
    }
    made = []
    for model in MODELS:
        predicted = np.array([getattr(one, model) for _, one in live])
        came = np.array(labels[model], dtype=float)
        order = np.argsort(predicted, kind="stable")
        for number, bin_ in enumerate(np.array_split(order, BINS)):
            if len(bin_):
                made.append(
                    {
                        "model": model,
                        "bin": number + 1,
                        "moments": len(bin_),
                        "predicted": float(predicted[bin_].mean()),
                    }
                    | {"observed": float(came[bin_].mean()), "brier": float(np.mean((predicted - came) ** 2))}
                    | {"brier_of_base_rate": float(came.mean() * (1 - came.mean()))}
                )
    return made


def _joined(inputs: Inputs) -> tuple[list[Row], list[Signals | None]]:
    """Decision rows that were fitted on, and the out-of-fold signals of each; None where the row is not live."""
    predicted = {
        (row["task"], row["condition"], row["delay"]): Signals(*(row[name] for name in Signals.__slots__))
        for row in inputs.oof
    }
    fitted = {(task, condition) for task, condition, _ in predicted}
    # A task's episodes may have ended before the first candidate: they count, and nobody can act on them.
    conditions = {condition for _, condition in fitted}
    rows = [
        row
        for row in inputs.decisions
        if row["task"] in inputs.router.fit_tasks
        and row["condition"] in conditions
        and row["delay"] in inputs.router.delays
    ]
    return rows, [predicted.get((row["task"], row["condition"], row["delay"])) for row in rows]


def _thinned(values: Sequence[float], kept: float | None) -> list[float]:
    """At most MOST_VALUES of the values, evenly spaced in rank, with the ends and `kept`."""
    if len(values) <= MOST_VALUES:
        return list(values)
    places = np.unique(np.linspace(0, len(values) - 1, MOST_VALUES).round().astype(int))
    return sorted({*(values[place] for place in places), *([kept] if kept is not None else [])})
