"""A fitted router: logistic regressions, thresholds, and decisions about one prefix at a time.

Needs neither numpy, pandas nor scikit-learn, so that an agent's loop can ask it in well under a millisecond.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pipeline.errors import BadInput
from pipeline.records.files import read_json
from pipeline.router.features import features
from pipeline.router.joint import CELLS, VIEWS, Moment, best_operator, joint_moment
from pipeline.router.policy import Candidate, DecisionEpisode, Thresholds
from pipeline.router.prefix import Prefix

# 2 added the joint-outcome models and the policies on them. 1 is read all the same; it has none of these.
FORMAT = 2
READ = (1, FORMAT)
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

    `anomaly` holds the alphas of the comparators that only look at p_err, None where one never intervenes. `joint` holds
    the models of rescue and harm by operator, `extensions` the thresholds of the policies in pipeline.router.joint; both
    are empty for a file of format 1.
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
    joint: Mapping[str, Mapping[str, tuple[float, tuple[float, ...]]]] = field(default_factory=dict)
    extensions: Mapping[str, Thresholds | None] = field(default_factory=dict)

    @classmethod
    def load(cls, path: str | Path) -> "Router":
        """Read router.json. Raises BadInput naming the file and what is wrong in it."""
        return cls.parse(read_json(path), str(path))

    @classmethod
    def parse(cls, value: Any, source: str) -> "Router":
        """A router out of the parsed JSON. Raises BadInput naming `source` and the key that is missing or wrong."""
        try:
            later = value["format"] != 1
            if value["format"] not in READ:
                known = " or ".join(map(str, READ))
                raise BadInput(f"{source}: format {value['format']!r}, expected {known}; fit the router again")
            router = cls(
                names=tuple(str(name) for name in value["features"]),
                mean=_floats(value["scaling"]["mean"]),
                scale=_floats(value["scaling"]["scale"]),
                weights=_weights(value["models"], MODELS),
                thresholds=_thresholds(value),
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
                joint={name: _weights(models, CELLS) for name, models in value["joint"].items()} if later else {},
                extensions={
                    name: _thresholds(value["extensions"][name]) for name in VIEWS if name in value["extensions"]
                }
                if later
                else {},
            )
        except KeyError as error:
            raise BadInput(f"{source}: lacks the key {error.args[0]!r}; expected what `cir fit` writes") from error
        except (TypeError, ValueError, AttributeError) as error:
            raise BadInput(f"{source}: is no router ({error}); expected what `cir fit` writes") from error
        models = [router.weights, *router.joint.values()]
        parts = [router.names, router.mean, router.scale, *(w for model in models for _, w in model.values())]
        if len({len(part) for part in parts}) != 1:
            raise BadInput(f"{source}: features, scaling and coefficients differ in length; fit the router again")
        if not router.delays or min(router.scale, default=1) <= 0:
            raise BadInput(f"{source}: delays must not be empty and scales be above 0; fit the router again")
        return router

    def signals(self, values: Mapping[str, float]) -> Signals:
        """Predictions for a moment with the given features by name. Raises BadInput for a missing or non-finite one."""
        scaled = self._scaled(values)
        p_err, p_0, p_1 = (_probability(self.weights[name], scaled) for name in MODELS)
        return signals(p_err, p_0, p_1, self.lambda_)

    def moment(self, view: str, values: Mapping[str, float]) -> Moment:
        """What the thresholds of a view are compared with: `cir` (published), `joint` or `choice` (of operators).

        Raises BadInput for a missing or non-finite feature, KeyError for a view that was not fitted.
        """
        if view == "cir":
            found = self.signals(values)
            return Moment(self.operator, found.p_err, 1 - found.p_0, found.u)
        scaled = self._scaled(values)
        p_err = _probability(self.weights["p_err"], scaled)
        moments = {
            name: joint_moment(
                name, p_err, *(_probability(self.joint[name][cell], scaled) for cell in CELLS), self.lambda_
            )
            for name in (self.joint if view == "choice" else (self.operator,))
        }
        return best_operator(moments)

    def _scaled(self, values: Mapping[str, float]) -> list[float]:
        absent = [name for name in self.names if not _finite(values.get(name))]
        if absent:
            raise BadInput(f"feature(s) {', '.join(absent)} are missing or not finite; the router was fitted with them")
        return [
            (values[name] - mean) / scale for name, mean, scale in zip(self.names, self.mean, self.scale, strict=True)
        ]

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

    def operator_now(self, policy: str, prefix: Prefix) -> str | None:
        """The operator that an extension policy (pipeline.router.joint) applies where the prefix ends, None: leave alone.

        To be asked like `decide`. Raises BadInput for a policy that this router does not hold.
        """
        if policy not in self.extensions:
            raise BadInput(f"the router holds no policy {policy!r}; it has {', '.join(self.extensions) or 'only cir'}")
        thresholds, here = self.extensions[policy], self.moment(VIEWS[policy], features(prefix))
        return here.operator if thresholds and all(thresholds.passed(here.p_err, here.need, here.u)) else None

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
    candidates = [
        None if predicted is None else candidate(row, predicted) for row, predicted in zip(rows, found, strict=True)
    ]
    return grouped(rows, candidates, delays)


def grouped(
    rows: Sequence[Mapping[str, Any]], candidates: Sequence[Candidate | None], delays: Sequence[int]
) -> list[DecisionEpisode]:
    """The same for candidates that are made already, one a row, None where the row is not live."""
    grouped: dict[tuple[str, str], list[Candidate]] = {}
    for row, here in zip(rows, candidates, strict=True):
        moments = grouped.setdefault((row["task"], row["condition"]), [])
        if here is not None:
            moments.append(here)
    place = {delay: order for order, delay in enumerate(delays)}
    return [
        DecisionEpisode(
            task, condition, condition == "clean", tuple(sorted(moments, key=lambda moment: place[moment.delay]))
        )
        for (task, condition), moments in sorted(grouped.items())
    ]


def _probability(model: tuple[float, tuple[float, ...]], scaled: Sequence[float]) -> float:
    intercept, coefficients = model
    logit = intercept + math.fsum(weight * x for weight, x in zip(coefficients, scaled, strict=True))
    # The form that cannot overflow for either sign.
    return 1 / (1 + math.exp(-logit)) if logit >= 0 else math.exp(logit) / (1 + math.exp(logit))


def _weights(models: Any, names: Sequence[str]) -> dict[str, tuple[float, tuple[float, ...]]]:
    return {name: (_number(models[name]["intercept"]), _floats(models[name]["coefficients"])) for name in names}


def _thresholds(value: Any) -> Thresholds | None:
    limits = value["thresholds"]
    return None if value["never"] else Thresholds(*(_number(limits[name]) for name in ("alpha", "beta", "gamma")))


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
