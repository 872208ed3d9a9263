"""Fitting the joint-outcome models and the policies on them, and the certified thresholds (docs/router.md).

Rescue and harm of each operator are labels, learnt on the features, folds, scaling and penalty of the published models;
thresholds are chosen on out-of-fold predictions by the same search, objective, limit and ties.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from pipeline.router.certify import Certificate, certify
from pipeline.router.joint import CELLS, CERTIFIED, CHOICE, JOINT, Moment, best_operator, joint_moment
from pipeline.router.model import grouped
from pipeline.router.policy import Candidate, DecisionEpisode, PolicyCounts, counts
from pipeline.router.regression import FitSettings, LogisticModel, fit_model, held_out_predictions, scaling
from pipeline.router.thresholds import gamma_values, grid_values, search
from pipeline.router.training import Training


@dataclass(frozen=True)
class JointFit:
    """Models of rescue and harm by operator and the policies, both as router.json holds them.

    `counts`: what each policy does out of fold; `predicted` (live rows, 2): out-of-fold P(rescue) and P(harm) of the
    router's operator.
    """

    models: dict[str, dict[str, Any]]
    policies: dict[str, dict[str, Any]]
    counts: dict[str, PolicyCounts]
    predicted: np.ndarray


def cell_labels(y0: np.ndarray, ym: np.ndarray) -> np.ndarray:
    """Labels (rows, 2) of 0 and 1: rescued (0 -> 1), harmed (1 -> 0)."""
    return np.column_stack([(y0 == 0) & (ym == 1), (y0 == 1) & (ym == 0)]).astype(int)


def model_record(model: LogisticModel) -> dict[str, Any]:
    """A regression as router.json holds it."""
    return asdict(model) | {"coefficients": list(model.coefficients)}


def fit_joint(
    training: Training,
    fold: np.ndarray,
    p_err: np.ndarray,
    published: Sequence[DecisionEpisode],
    checkable: bool,
    settings: FitSettings,
    notes: list[str],
) -> JointFit:
    """Joint-outcome, operator-choice (where other operators were measured) and certified policies.

    `fold` and `p_err` are of the live rows, `published` the episodes with the published signals. `checkable` False: no
    clean episode succeeds by itself, so that no harm could show and nobody intervenes.
    """
    from threadpoolctl import threadpool_limits

    outcomes = _outcomes(training, fold, settings, notes)
    mean, scale = scaling(training.features)
    models: dict[str, dict[str, Any]] = {}
    predicted: dict[str, np.ndarray] = {}
    with threadpool_limits(1):
        for operator, ym in outcomes.items():
            known = ym >= 0
            labels = cell_labels(training.labels[:, 1], ym)
            names = [f"{cell} by {operator}" for cell in CELLS]
            predicted[operator] = held_out_predictions(training.features, labels, names, fold, settings.C, notes, known)
            fitted = [
                fit_model((training.features[known] - mean) / scale, labels[known, column], settings.C)
                for column in range(len(CELLS))
            ]
            models[operator] = {cell: model_record(model) for cell, model in zip(CELLS, fitted, strict=True)}
            notes += [
                f"{name}: every label is the same; the model is constant"
                for name, model in zip(names, fitted, strict=True)
                if model.constant
            ]
    moments = [
        {
            operator: joint_moment(operator, float(p_err[row]), *map(float, values[row]), settings.lambda_)
            for operator, values in predicted.items()
        }
        for row in range(len(p_err))
    ]
    views = {JOINT: [here[settings.operator] for here in moments]}
    if len(outcomes) > 1:
        views[CHOICE] = [best_operator(here) for here in moments]
    policies: dict[str, dict[str, Any]] = {}
    did: dict[str, PolicyCounts] = {}
    for name, view in views.items():
        among = outcomes if name == CHOICE else {settings.operator: outcomes[settings.operator]}
        episodes = _episodes(training, view, among)
        alphas = grid_values([moment.p_err for moment in view])
        policies[name], did[name] = _searched(name, episodes, alphas, checkable, settings, notes)
    certificate = certify(published if checkable else [], settings.epsilon, settings.confidence)
    certain = checkable and _certain(certificate, notes)
    policies[CERTIFIED], did[CERTIFIED] = _searched(CERTIFIED, published, certificate.alphas, certain, settings, notes)
    policies[CERTIFIED]["certificate"] = certificate.record()
    return JointFit(models, policies, did, predicted[settings.operator])


def _outcomes(training: Training, fold: np.ndarray, settings: FitSettings, notes: list[str]) -> dict[str, np.ndarray]:
    """Outcomes of the live rows by operator, the router's first; -1 where an operator has no branch."""
    outcomes = {settings.operator: training.labels[:, 2]}
    for operator, values in training.others.items():
        ym = np.array([-1 if values[place] is None else int(values[place]) for place in training.live])
        if operator == settings.operator:
            continue
        if any(not ((fold != number) & (ym >= 0)).any() for number in range(settings.folds)):
            notes.append(f"{operator}: too few branches to learn from; left out of operator choice")
            continue
        outcomes[operator] = ym
    return outcomes


def _episodes(training: Training, view: Sequence[Moment], outcomes: dict[str, np.ndarray]) -> list[DecisionEpisode]:
    """Episodes with a view's candidates; those that lack a branch of one of the operators are left out."""
    candidates: list[Candidate | None] = [None] * len(training.rows)
    lacking = set()
    for row, (place, moment) in enumerate(zip(training.live, view, strict=True)):
        source = training.rows[place]
        if any(ym[row] < 0 for ym in outcomes.values()):
            lacking.add((source["task"], source["condition"]))
        gain = int(outcomes[moment.operator][row]) - int(source["y0"])
        candidates[place] = Candidate(source["delay"], moment.p_err, moment.need, moment.u, gain, moment.operator)
    found = grouped(training.rows, candidates, training.delays)
    return [episode for episode in found if (episode.task, episode.condition) not in lacking]


def _searched(
    name: str,
    episodes: Sequence[DecisionEpisode],
    alphas: Sequence[float],
    allowed: bool,
    settings: FitSettings,
    notes: list[str],
) -> tuple[dict[str, Any], PolicyCounts]:
    """A policy's thresholds, with all betas and gammas of its episodes' moments; never where it is not `allowed`."""
    moments = [moment for episode in episodes for moment in episode.candidates]
    betas = grid_values([moment.need for moment in moments])
    gammas = gamma_values([moment.u for moment in moments], settings.gamma_quantiles)
    found = search(episodes, alphas, betas, gammas, settings.epsilon) if allowed else None
    if allowed and found is None:
        notes.append(f"{name}: no thresholds keep clean harm within the limit: never intervene")
    elif found and found.counts.interventions == 0:
        notes.append(f"{name}: the best thresholds within the limit never intervene on the fit episodes")
    limits = asdict(found.thresholds) if found else dict.fromkeys(("alpha", "beta", "gamma"))
    record = {"never": found is None, "thresholds": limits, "episodes": len(episodes)}
    return record, found.counts if found else counts(None, episodes)


def _certain(certificate: Certificate, notes: list[str]) -> bool:
    """Whether any alpha is certified; else a note says what it would take."""
    if certificate.alphas:
        return True
    needed, epsilon, confidence = certificate.clean_tasks_needed, certificate.epsilon, certificate.confidence
    wish = f"clean harm of at most {100 * epsilon:g}% at {100 * confidence:g}% confidence"
    why = (
        f"{wish} can't be certified by any number of tasks"
        if needed is None
        else f"{certificate.clean_tasks} clean tasks can't certify {wish}; {needed} without harm would"
    )
    notes.append(f"{CERTIFIED}: {why}: never intervene")
    return False
