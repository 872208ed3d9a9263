"""Fitting the router: out-of-fold predictions, thresholds chosen on them, refit on all (protocol.md section 3)."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from pipeline.router.joint_fit import fit_joint, model_record
from pipeline.router.model import COMPARATORS, FORMAT, MODELS, Signals, episodes, signals
from pipeline.router.policy import DecisionEpisode, counts, harm_limit
from pipeline.router.regression import FitSettings, fit_model, folds_of, held_out_predictions, scaling
from pipeline.router.thresholds import gamma_values, grid_values, rate_matched, search
from pipeline.router.training import Training


@dataclass
class Fit:
    """What a fit gives: router.json, the rows of the oof table, and what the user must be told."""

    router: dict[str, Any]
    oof: list[dict[str, Any]]
    notes: list[str] = field(default_factory=list)


def fit(training: Training, settings: FitSettings, inputs: dict[str, str], notes: Sequence[str] = ()) -> Fit:
    """Fit, choose thresholds on out-of-fold predictions, refit on all.

    `inputs` are digests to record, by name; `notes` what the reader of the rows has to tell.

    Raises BadInput where the data can't be folded.
    """
    from threadpoolctl import threadpool_limits

    notes = list(notes)
    # One BLAS thread: sums are then added in one order, whatever the machine's load.
    with threadpool_limits(1):
        fold = folds_of(training.folders, settings.folds, settings.seed)
        predicted = held_out_predictions(training.features, training.labels, MODELS, fold, settings.C, notes)
        mean, scale = scaling(training.features)
        models = {
            name: fit_model((training.features - mean) / scale, training.labels[:, column], settings.C)
            for column, name in enumerate(MODELS)
        }
    notes += [
        f"{name}: every label is the same; the model is constant" for name, model in models.items() if model.constant
    ]
    found = [signals(*map(float, row), settings.lambda_) for row in predicted]
    by_row: list[Signals | None] = [None] * len(training.rows)
    for place, value in zip(training.live, found, strict=True):
        by_row[place] = value
    clean_successes = sum(row["condition"] == "clean" and bool(row["y0"]) for row in training.rows)
    all_episodes = episodes(training.rows, by_row, training.delays)
    chosen = choose(all_episodes, found, clean_successes, settings, notes)
    joint = fit_joint(training, fold, predicted[:, 0], all_episodes, clean_successes > 0, settings, notes)
    chosen["oof"]["policies"] |= {name: asdict(what) for name, what in joint.counts.items()}
    router = {
        "format": FORMAT,
        "features": list(training.names),
        "scaling": {"mean": mean.tolist(), "scale": scale.tolist()},
        "models": {name: model_record(model) for name, model in models.items()},
        **chosen,
        "joint": joint.models,
        "extensions": joint.policies,
        "lambda": settings.lambda_,
        "epsilon": settings.epsilon,
        "C": settings.C,
        "folds": settings.folds,
        "seed": settings.seed,
        "gamma_quantiles": settings.gamma_quantiles,
        "delays": list(training.delays),
        "operator": settings.operator,
        "conditions": list(training.conditions),
        "population": training.population,
        "inputs": inputs,
        "fit": {
            "tasks": sorted({row["task"] for row in training.rows}),
            "folders": sorted({row["folder"] for row in training.rows}),
            "live_rows": len(training.live),
        },
        "notes": notes,
    }
    oof = [
        {name: training.rows[place][name] for name in ("task", "condition", "delay")}
        | {"fold": int(number)}
        | asdict(value)
        | {"p_rescue": rescue, "p_harm": harm, "u_joint": rescue - settings.lambda_ * harm}
        for place, number, value, (rescue, harm) in zip(
            training.live, fold, found, joint.predicted.tolist(), strict=True
        )
    ]
    return Fit(router, oof, notes)


def choose(
    all_episodes: Sequence[DecisionEpisode],
    found: Sequence[Signals],
    clean_successes: int,
    settings: FitSettings,
    notes: list[str],
) -> dict[str, Any]:
    """Thresholds of CIR and alphas of its comparators, on the same predictions, objective and limit; and what they do.

    Without a clean episode that succeeds by itself no harm could show, so the limit means nothing and nobody intervenes.
    """
    alphas = grid_values([value.p_err for value in found])
    betas = grid_values([1 - value.p_0 for value in found])
    gammas = gamma_values([value.u for value in found], settings.gamma_quantiles)
    clean = sum(episode.clean for episode in all_episodes)
    cir = search(all_episodes, alphas, betas, gammas, settings.epsilon)
    if clean_successes == 0:
        notes.append(
            "no clean episode succeeds without recovery: the limit on clean harm can't be checked, never refresh"
        )
        cir = None
    elif cir is None:
        notes.append("no thresholds keep clean harm within the limit: never refresh")
    elif cir.counts.interventions == 0:
        notes.append("the best thresholds within the limit never intervene on the fit episodes")
    sequential = search(all_episodes, alphas, [0.0], [-np.inf], settings.epsilon) if cir else None
    matched = rate_matched(all_episodes, alphas, cir.counts.interventions, settings.epsilon) if cir else None
    never = counts(None, all_episodes)
    return {
        "never": cir is None,
        "thresholds": asdict(cir.thresholds) if cir else dict.fromkeys(("alpha", "beta", "gamma")),
        "comparators": {
            name: {"alpha": what.thresholds.alpha if what else None}
            for name, what in zip(COMPARATORS, (sequential, matched), strict=True)
        },
        "oof": {
            "episodes": len(all_episodes),
            "clean_episodes": clean,
            "clean_harm_limit": harm_limit(all_episodes, settings.epsilon),
            "triples_tried": len(alphas) * len(betas) * len(gammas),
            "policies": {
                name: asdict(what.counts if what else never)
                for name, what in zip(("cir", *COMPARATORS), (cir, sequential, matched), strict=True)
            },
        },
    }
