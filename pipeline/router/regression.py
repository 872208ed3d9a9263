"""The regressions behind a router: folds, scaling, fits and out-of-fold predictions (protocol.md section 3)."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pipeline.errors import BadInput
from pipeline.runtime.progress import tracked


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
    confidence: float = 0.95


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


def held_out_predictions(
    features: np.ndarray,
    labels: np.ndarray,
    names: Sequence[str],
    fold: np.ndarray,
    C: float,
    notes: list[str],
    known: np.ndarray | None = None,
) -> np.ndarray:
    """Out-of-fold predictions (rows, models) for 0/1 labels (rows, models); scaling and models see the other folds only.

    `known` marks the rows whose labels may be learnt from (default: all); predicted are all rows. Notes name the folds
    without which a label has one class.
    """
    known = np.ones(len(fold), dtype=bool) if known is None else known
    predicted = np.empty((len(fold), len(names)))
    constant: dict[tuple[str, int], list[str]] = {}
    folds = range(int(fold.max()) + 1)
    for number in tracked(folds, len(folds), "folds"):
        held_out = fold == number
        learnt = ~held_out & known
        mean, scale = scaling(features[~held_out])
        for column, name in enumerate(names):
            model = fit_model((features[learnt] - mean) / scale, labels[learnt, column], C)
            predicted[held_out, column] = model.predict((features[held_out] - mean) / scale)
            if model.constant:
                constant.setdefault((name, int(labels[learnt, column][0])), []).append(str(number))
    notes += [
        f"{name}: without fold {', '.join(numbers)} every label is {only}; its predictions there are constant"
        for (name, only), numbers in constant.items()
    ]
    return predicted


def scaling(features: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and scale of each feature; a constant feature keeps scale 1 and so becomes 0."""
    from sklearn.preprocessing import StandardScaler

    scaler = StandardScaler().fit(features)
    return scaler.mean_, scaler.scale_
