"""Fitting the router: out-of-fold predictions, thresholds chosen on them, refit on all (protocol.md section 3)."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from pipeline.errors import BadInput
from pipeline.router.model import COMPARATORS, FORMAT, MODELS, Signals, episodes, signals
from pipeline.router.policy import DecisionEpisode, counts, harm_limit
from pipeline.router.thresholds import gamma_values, grid_values, rate_matched, search
from pipeline.router.training import Training


@dataclass(frozen=True)
class FitSettings:
    """The choices behind a fit; all stand in router.json."""

    C: float = 0.1
    lambda_: float = 2.0
    epsilon: float = 0.02
    folds: int = 5
    seed: int = 0
    gamma_quantiles: int = 19
    operator: str = "refresh"


@dataclass(frozen=True)
class LogisticModel:
    """One fitted regression on scaled features; `constant` where the labels were of one class."""

    intercept: float
    coefficients: tuple[float, ...]
    constant: bool = False

    def predict(self, scaled: np.ndarray) -> np.ndarray:
        """Probabilities for rows of scaled features."""
        from scipy.special import expit

        return expit(scaled @ np.array(self.coefficients) + self.intercept)


@dataclass
class Fit:
    """What a fit gives: router.json, the rows of the oof table, and what the user must be told."""

    router: dict[str, Any]
    oof: list[dict[str, Any]]
    notes: list[str] = field(default_factory=list)


def fit_model(scaled: np.ndarray, labels: np.ndarray, C: float) -> LogisticModel:
    """l2 logistic regression without class weights, solved to 1e-10 so that equal data gives equal bytes.

    Labels of one class carry nothing to learn from: the model is then constant, at the rate shrunk by half an event,
    (s + 1/2) / (n + 1), which keeps it off 0 and 1.
    """
    if len(set(labels.tolist())) == 1:
        rate = (labels.sum() + 0.5) / (len(labels) + 1)
        return LogisticModel(float(np.log(rate / (1 - rate))), (0.0,) * scaled.shape[1], constant=True)
    from sklearn.linear_model import LogisticRegression

    model = LogisticRegression(C=C, solver="lbfgs", tol=1e-10, max_iter=10_000).fit(scaled, labels)
    return LogisticModel(float(model.intercept_[0]), tuple(float(weight) for weight in model.coef_[0]))


def folds_of(folders: Sequence[str], folds: int, seed: int) -> np.ndarray:
    """Fold of each row: whole folders, shuffled with the seed. Raises BadInput for fewer folders than folds."""
    from sklearn.model_selection import GroupKFold

    if (distinct := len(set(folders))) < folds:
        raise BadInput(
            f"--folds {folds}: the live rows come from {distinct} task folder(s); lower --folds or fit on more tasks"
        )
    place = np.empty(len(folders), dtype=int)
    splitter = GroupKFold(n_splits=folds, shuffle=True, random_state=seed)
    for number, (_, held_out) in enumerate(splitter.split(np.zeros(len(folders)), groups=np.asarray(folders))):
        place[held_out] = number
    return place


def out_of_fold(training: Training, settings: FitSettings, notes: list[str]) -> tuple[np.ndarray, np.ndarray]:
    """Fold and out-of-fold predictions (rows, 3) of every live row; scaling and models see the other folds only."""
    fold = folds_of(training.folders, settings.folds, settings.seed)
    predicted = np.empty((len(fold), len(MODELS)))
    for number in range(settings.folds):
        held_out = fold == number
        mean, scale = scaling(training.features[~held_out])
        for column, name in enumerate(MODELS):
            model = fit_model(
                (training.features[~held_out] - mean) / scale, training.labels[~held_out, column], settings.C
            )
            predicted[held_out, column] = model.predict((training.features[held_out] - mean) / scale)
            if model.constant:
                only = training.labels[~held_out, column][0]
                notes.append(f"{name}: without fold {number} every label is {only}; its predictions there are constant")
    return fold, predicted


def scaling(features: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and scale of each feature; a constant feature keeps scale 1 and so becomes 0."""
    from sklearn.preprocessing import StandardScaler

    scaler = StandardScaler().fit(features)
    return scaler.mean_, scaler.scale_


def fit(training: Training, settings: FitSettings, inputs: dict[str, str], notes: Sequence[str] = ()) -> Fit:
    """Fit, choose thresholds on out-of-fold predictions, refit on all.

    `inputs` are digests to record, by name; `notes` what the reader of the rows has to tell.

    Raises BadInput where the data can't be folded.
    """
    from threadpoolctl import threadpool_limits

    notes = list(notes)
    # One BLAS thread: sums are then added in one order, whatever the machine's load.
    with threadpool_limits(1):
        fold, predicted = out_of_fold(training, settings, notes)
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
    chosen = choose(episodes(training.rows, by_row, training.delays), found, clean_successes, settings, notes)
    router = {
        "format": FORMAT,
        "features": list(training.names),
        "scaling": {"mean": mean.tolist(), "scale": scale.tolist()},
        "models": {name: asdict(model) | {"coefficients": list(model.coefficients)} for name, model in models.items()},
        **chosen,
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
        for place, number, value in zip(training.live, fold, found, strict=True)
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
