"""Doubly robust (AIPW) value of a policy from logged episodes of which one branch each is known.

An episode passes candidate moments in order. At a live moment the logging policy recovers (action 1, the last moment) or
leaves alone (action 0, on to the next). The policy to be valued says at every live moment what it would do. From the last
moment back, with p the propensity of the logged action and y the outcome,

    V_t = Q_t(x_t, policy_t) + 1[action_t = policy_t] / p_t * (V_{t+1} - Q_t(x_t, action_t)),   V after the end = y,

whose mean over episodes is the policy's value if the propensities or the outcome models Q are right (Robins, Rotnitzky and
Zhao 1994; for several moments Jiang and Li 2016). With one moment it is the AIPW estimator. Models are fitted on the other
folds (cross-fitting, Chernozhukov et al. 2018), so the interval follows from the variance of the episodes' V, clusters moving
together. The mean needs one of the two models to be right; the interval needs propensities that are.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

# Estimated propensities are kept this far from 0 and 1: a weight is then at most 50.
CLIP = 0.02
# l2 penalty of the outcome models on scaled features, in units of one row; it only tames directions without data.
RIDGE = 1.0


@dataclass(frozen=True)
class Log:
    """Logged episodes as arrays (episodes, moments, ...), the moments in the order of time.

    `live` bool; `action` 0 or 1 where live; `features` (episodes, moments, features), finite where live; `y` (episodes,)
    the outcome, a share from 0 to 1; `propensity` of action 1 where live, or None where it has to be estimated; `cluster`
    names what moves together. An episode's live moments end with its action 1, where there is one.
    """

    live: np.ndarray
    action: np.ndarray
    features: np.ndarray
    y: np.ndarray
    propensity: np.ndarray | None
    cluster: Sequence[str]


@dataclass(frozen=True)
class Estimate:
    """A mean over episodes with its standard error and 95% interval, on the scale of the outcome."""

    value: float
    error: float
    low: float
    high: float


def folds_of(clusters: Sequence[str], folds: int, seed: int) -> np.ndarray:
    """Fold of each episode: whole clusters, shuffled with the seed, as even as they come.

    Raises ValueError for fewer clusters than folds.
    """
    names, place = np.unique(np.asarray(clusters, dtype=str), return_inverse=True)
    if len(names) < folds:
        raise ValueError(f"{len(names)} clusters can't make {folds} folds")
    return np.random.default_rng(seed).permutation(len(names))[place] % folds


def estimated_propensities(log: Log, fold: np.ndarray) -> np.ndarray:
    """P(action = 1 | features) at every live moment, from an l2 logistic regression of that moment on the other folds.

    Kept within CLIP of 0 and 1. Labels of one class, or no features, give the rate, shrunk by half an event. Where not
    live: 0.5.
    """
    from threadpoolctl import threadpool_limits

    found = np.full(log.live.shape, 0.5)
    # One BLAS thread: sums are then added in one order, whatever the machine's load.
    with threadpool_limits(1):
        for number in np.unique(fold):
            for moment in range(log.live.shape[1]):
                learn, tell = (mask & log.live[:, moment] for mask in (fold != number, fold == number))
                x, labels = log.features[:, moment], log.action[learn, moment]
                if tell.any():
                    found[tell, moment] = _logistic(x[learn], labels, x[tell])
    return np.clip(found, CLIP, 1 - CLIP)


def _logistic(x: np.ndarray, labels: np.ndarray, at: np.ndarray) -> np.ndarray:
    from sklearn.linear_model import LogisticRegression

    if len(set(labels.tolist())) < 2 or x.shape[1] == 0:
        return np.full(len(at), (labels.sum() + 0.5) / (len(labels) + 1))
    scale = _scaling(x)
    model = LogisticRegression(C=1.0, solver="newton-cholesky", tol=1e-10).fit(scale(x), labels)
    return model.predict_proba(scale(at))[:, 1]


def episode_values(log: Log, policy: np.ndarray, propensity: np.ndarray, fold: np.ndarray) -> np.ndarray:
    """V of every episode under `policy` (episodes, moments; 0 or 1 where live): their mean is the policy's value.

    `propensity` of action 1 (episodes, moments) must be inside (0, 1) for the logged action. Models are cross-fitted.
    """
    values = np.empty(len(log.y))
    for number in np.unique(fold):
        values[fold == number] = _backward(log, policy, propensity, fold != number)[fold == number]
    return values


def _backward(log: Log, policy: np.ndarray, propensity: np.ndarray, learn: np.ndarray) -> np.ndarray:
    """V of all episodes with outcome models fitted on the episodes of the mask `learn`."""
    value = log.y.astype(float)
    for moment in reversed(range(log.live.shape[1])):
        live = log.live[:, moment]
        action, wanted, x = log.action[:, moment], policy[:, moment], log.features[:, moment]
        scale = _scaling(x[learn & live])
        predicted = np.zeros((2, len(value)))
        for arm in (0, 1):
            rows = learn & live & (action == arm)
            predicted[arm, live] = _ridge(scale(x[rows]), value[rows], scale(x[live]))
        chance = np.where(action == 1, propensity[:, moment], 1 - propensity[:, moment])
        place = np.arange(len(value))
        follows = live & (action == wanted)
        correction = np.zeros(len(value))
        correction[follows] = (value - predicted[action, place])[follows] / chance[follows]
        value = np.where(live, predicted[wanted, place] + correction, value)
    return value


def _scaling(x: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
    """Function that scales features by mean and deviation of `x`; constant ones become 0."""
    if not len(x):
        return lambda other: np.zeros_like(other)
    mean, deviation = x.mean(axis=0), x.std(axis=0)
    deviation = np.where(deviation > 1e-12, deviation, 1.0)
    return lambda other: (other - mean) / deviation


def _ridge(x: np.ndarray, y: np.ndarray, at: np.ndarray) -> np.ndarray:
    """Linear prediction of y at other rows; the intercept is free. Without rows to learn from: one half."""
    if not len(y):
        return np.full(len(at), 0.5)
    centre = x.mean(axis=0)
    moved = x - centre
    weights = np.linalg.solve(moved.T @ moved + RIDGE * np.eye(x.shape[1]), moved.T @ (y - y.mean()))
    return y.mean() + (at - centre) @ weights


def estimate(values: np.ndarray, clusters: Sequence[str], level: float = 0.95) -> Estimate:
    """Mean over episodes with the influence-function interval, clusters (tasks) moving together.

    An episode's influence is its value less the mean; a cluster's is their sum. Raises ValueError for fewer than two clusters.
    """
    names, place = np.unique(np.asarray(clusters, dtype=str), return_inverse=True)
    if len(names) < 2:
        raise ValueError("an interval needs at least two clusters")
    mean = float(np.mean(values))
    influence = np.bincount(place, weights=np.asarray(values) - mean)
    error = float(np.sqrt(len(names) / (len(names) - 1) * np.sum(influence**2)) / len(values))
    reach = NormalDist().inv_cdf((1 + level) / 2) * error
    return Estimate(mean, error, mean - reach, mean + reach)
