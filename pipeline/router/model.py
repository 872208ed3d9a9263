"""A fitted router: three logistic regressions, thresholds, and decisions about one prefix at a time.

Needs neither numpy, pandas nor scikit-learn, so that an agent's loop can ask it in well under a millisecond.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipeline.errors import BadInput
from pipeline.records.files import read_json
from pipeline.router.features import features
from pipeline.router.policy import Candidate, DecisionEpisode, Thresholds
from pipeline.router.prefix import Prefix

FORMAT = 1
LARGEST = 1e100  # of a coefficient or threshold; sums of products stay far from overflow
MODELS = ("p_err", "p_0", "p_1")
COMPARATORS = ("sequential-anomaly", "rate-matched-anomaly")


@dataclass(frozen=True, slots=True)
class Signals:
    """The three predictions for a moment and what follows from them; s_R, s_H, u rank moments, they are no probabilities."""

    p_err: float
    p_0: float
    p_1: float
    s_R: float
    s_H: float
    u: float


def signals(p_err: float, p_0: float, p_1: float, lambda_: float) -> Signals:
    """s_R = (1 - p_0) p_1, s_H = p_0 (1 - p_1), u = s_R - lambda s_H (protocol.md section 3, [R])."""
    s_R, s_H = (1 - p_0) * p_1, p_0 * (1 - p_1)
    return Signals(p_err, p_0, p_1, s_R, s_H, s_R - lambda_ * s_H)


@dataclass(frozen=True, slots=True)
class Decision:
    """A router's answer: whether to intervene now, why (which thresholds were passed), and from which features."""

    intervene: bool
    signals: Signals
    passed: dict[str, bool]
    features: dict[str, float]


@dataclass(frozen=True)
class Router:
    """A router as router.json holds it; `thresholds` None means that it never intervenes.

    `anomaly` holds the alphas of the comparators that only look at p_err, None where one never intervenes.
    """

    names: tuple[str, ...]
    mean: tuple[float, ...]
    scale: tuple[float, ...]
    weights: Mapping[str, tuple[float, tuple[float, ...]]]
    thresholds: Thresholds | None
    anomaly: Mapping[str, float | None]
    lambda_: float
    epsilon: float
    delays: tuple[int, ...]
    operator: str
    fit_tasks: frozenset[str]
    fit_folders: frozenset[str]

    @classmethod
    def load(cls, path: str | Path) -> "Router":
        """Read router.json. Raises BadInput naming the file and what is wrong in it."""
        return cls.parse(read_json(path), str(path))

    @classmethod
    def parse(cls, value: Any, source: str) -> "Router":
        """A router out of the parsed JSON. Raises BadInput naming `source` and the key that is missing or wrong."""
        try:
            if value["format"] != FORMAT:
                raise BadInput(f"{source}: format {value['format']!r}, expected {FORMAT}; fit the router again")
            limits = value["thresholds"]
            router = cls(
                names=tuple(str(name) for name in value["features"]),
                mean=_floats(value["scaling"]["mean"]),
                scale=_floats(value["scaling"]["scale"]),
                weights={
                    name: (_number(value["models"][name]["intercept"]), _floats(value["models"][name]["coefficients"]))
                    for name in MODELS
                },
                thresholds=None
                if value["never"]
                else Thresholds(*(_number(limits[name]) for name in ("alpha", "beta", "gamma"))),
                anomaly={
                    name: None
                    if value["comparators"][name]["alpha"] is None
                    else _number(value["comparators"][name]["alpha"])
                    for name in COMPARATORS
                },
                lambda_=_number(value["lambda"]),
                epsilon=_number(value["epsilon"]),
                delays=tuple(int(delay) for delay in value["delays"]),
                operator=str(value["operator"]),
                fit_tasks=frozenset(value["fit"]["tasks"]),
                fit_folders=frozenset(value["fit"]["folders"]),
            )
        except KeyError as error:
            raise BadInput(f"{source}: lacks the key {error.args[0]!r}; expected what `cir fit` writes") from error
        except (TypeError, ValueError, AttributeError) as error:
            raise BadInput(f"{source}: is no router ({error}); expected what `cir fit` writes") from error
        lengths = {
            len(part) for part in (router.names, router.mean, router.scale, *(w for _, w in router.weights.values()))
        }
        if len(lengths) != 1:
            raise BadInput(f"{source}: features, scaling and coefficients differ in length; fit the router again")
        if not router.delays or min(router.scale, default=1) <= 0:
            raise BadInput(f"{source}: delays must not be empty and scales be above 0; fit the router again")
        return router

    def signals(self, values: Mapping[str, float]) -> Signals:
        """Predictions for a moment with the given features by name. Raises BadInput for a missing or non-finite one."""
        absent = [name for name in self.names if not _finite(values.get(name))]
        if absent:
            raise BadInput(f"feature(s) {', '.join(absent)} are missing or not finite; the router was fitted with them")
        scaled = [
            (values[name] - mean) / scale for name, mean, scale in zip(self.names, self.mean, self.scale, strict=True)
        ]
        p_err, p_0, p_1 = (self._probability(name, scaled) for name in MODELS)
        return signals(p_err, p_0, p_1, self.lambda_)

    def _probability(self, model: str, scaled: Sequence[float]) -> float:
        intercept, coefficients = self.weights[model]
        logit = intercept + math.fsum(weight * x for weight, x in zip(coefficients, scaled, strict=True))
        # The form that cannot overflow for either sign.
        return 1 / (1 + math.exp(-logit)) if logit >= 0 else math.exp(logit) / (1 + math.exp(logit))

    def decide(self, prefix: Prefix) -> Decision:
        """Whether to intervene at the moment the prefix ends. Pure: at most once per episode is the caller's to keep.

        Ask at the candidate delays in order and stop after the first yes.
        """
        values = features(prefix)
        found = self.signals(values)
        tests = (False, False, False)
        if self.thresholds is not None:
            tests = self.thresholds.passed(found.p_err, 1 - found.p_0, found.u)
        return Decision(all(tests), found, dict(zip(("alpha", "beta", "gamma"), tests, strict=True)), values)

    def policies(self) -> dict[str, Thresholds | None]:
        """The router under the name `cir`, and its comparators, as thresholds."""
        rules: dict[str, Thresholds | None] = {
            name: None if alpha is None else Thresholds(alpha, 0.0, -math.inf) for name, alpha in self.anomaly.items()
        }
        return rules | {"cir": self.thresholds}


def candidate(row: Mapping[str, Any], found: Signals) -> Candidate:
    """The candidate moment of a decisions row (delay, y0, ym) with its predictions."""
    return Candidate(row["delay"], found.p_err, 1 - found.p_0, found.u, int(row["ym"]) - int(row["y0"]))


def episodes(
    rows: Sequence[Mapping[str, Any]], found: Sequence[Signals | None], delays: Sequence[int]
) -> list[DecisionEpisode]:
    """Decision rows grouped into episodes, in order of (task, condition); rows without predictions are not live.

    Candidates stand in the order of `delays`.
    """
    grouped: dict[tuple[str, str], list[Candidate]] = {}
    for row, predicted in zip(rows, found, strict=True):
        moments = grouped.setdefault((row["task"], row["condition"]), [])
        if predicted is not None:
            moments.append(candidate(row, predicted))
    place = {delay: order for order, delay in enumerate(delays)}
    return [
        DecisionEpisode(
            task, condition, condition == "clean", tuple(sorted(moments, key=lambda moment: place[moment.delay]))
        )
        for (task, condition), moments in sorted(grouped.items())
    ]


def _floats(values: Any) -> tuple[float, ...]:
    return tuple(_number(value) for value in values)


def _number(value: Any) -> float:
    # NaN compares false with everything, so a router that holds one would never intervene and never say why.
    number = float(value)
    if not abs(number) <= LARGEST:
        raise ValueError(f"{value!r} is no usable number")
    return number


def _finite(value: Any) -> bool:
    return isinstance(value, int | float) and math.isfinite(value)
