"""Everything the page is made of, read and checked against each other before a word is written."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipeline.config.load import parse_study
from pipeline.config.models import Study
from pipeline.errors import BadInput, CheckFailed
from pipeline.records.canonical import file_sha256
from pipeline.records.files import read_json
from pipeline.records.tables import read_rows
from pipeline.report.belonging import made_from, one_run
from pipeline.router.model import Router
from pipeline.router.training import read_decisions

Row = Mapping[str, Any]
POPULATIONS = ("complete", "factual-success")
UNIT = ("cohort", "condition", "delay", "operator")
PAIR_COLUMNS = ("task", *UNIT, "factual_success", "y0", "ym", "cell", "intervened", "null_alteration")
POLICY_FIELDS = (
    "policy", "tasks", "episodes", "gain_pp", "ci95_pp", "rescue", "harm", "interventions", "sign_flip_p", "by_condition",
)  # fmt: skip
CONDITION_FIELDS = ("condition", "tasks", "success", "rescue", "harm", "interventions")
_NUMBERS = ("tasks", "episodes", "gain_pp", "rescue", "harm", "interventions")


@dataclass(frozen=True)
class Paths:
    """The files of one study (contracts.md, "Artifacts"); `study` is its whole merged config as JSON.

    `decisions` and `oof` are the router's (its curves need both), `trajectories` and `forks` the folders of these stages
    (the fork viewer needs both, and the former two), `audit` what
    `cir audit` printed, shown as it is; None: the page does without.
    """

    study: Path
    games: Path
    cohorts: Path
    pairs: Path
    exclusions: Path
    effects: Path
    router: Path
    evaluation: Path
    decisions: Path | None = None
    oof: Path | None = None
    trajectories: Path | None = None
    forks: Path | None = None
    audit: Path | None = None

    def __post_init__(self) -> None:
        for one, other in (("decisions", "oof"), ("trajectories", "forks")):
            if (getattr(self, one) is None) != (getattr(self, other) is None):
                raise BadInput(f"--{one} and --{other} belong together; give both or neither")
        if self.trajectories is not None and self.decisions is None:
            raise BadInput("--trajectories: needs --decisions and --oof too, to say where the router fires")

    @property
    def files(self) -> dict[str, Path]:
        """The files by name, without the folders and what is not there."""
        return {name: path for name, path in vars(self).items() if path and name not in ("trajectories", "forks")}


@dataclass(frozen=True)
class Inputs:
    """A study's records. Tables are lists of rows (pipeline.records.schemas); `policies` are those of `evaluation` (summary.json)."""

    study: Study
    config: Row
    games: Sequence[Row]
    cohorts: Sequence[Row]
    pairs: Sequence[Row]
    exclusions: Sequence[Row]
    effects: Sequence[Row]
    router: Router
    router_record: Row
    evaluation: Row
    policies: Sequence[Row]
    digests: Mapping[str, str]
    paths: Paths
    decisions: Sequence[Row] = ()
    oof: Sequence[Row] = ()
    audit: str = ""

    @property
    def fit_cohort(self) -> str:
        """Name of the cohort on which effects are headlined and the router is fitted."""
        return next(name for name, cohort in self.study.cohorts.items() if cohort.role == "fit")

    @property
    def operators(self) -> list[str]:
        """Operators in the config's order, the A/A arm last: it is the yardstick the others are read against."""
        return sorted(self.study.protocol.operators, key=lambda name: name == "none")

    @property
    def cohort_names(self) -> list[str]:
        """Cohorts with effects: the fit cohort first, then as the config lists them."""
        have = {row["cohort"] for row in self.effects}
        order = [self.fit_cohort, *(name for name in self.study.cohorts if name != self.fit_cohort)]
        return [name for name in order if name in have]

    def effects_of(self, cohort: str, population: str, operator: str | None = None) -> list[Row]:
        """Effects of a cohort and population in the order of operators, conditions, delays."""
        protocol = self.study.protocol
        places = [
            {value: place for place, value in enumerate(values)}
            for values in (self.operators, protocol.conditions, protocol.delays)
        ]
        rows = [
            row
            for row in self.effects
            if row["cohort"] == cohort and row["population"] == population and operator in (None, row["operator"])
        ]
        return sorted(
            rows,
            key=lambda row: tuple(
                place[row[name]] for place, name in zip(places, ("operator", "condition", "delay"), strict=True)
            ),
        )

    def policy(self, name: str) -> Row:
        """A policy of the evaluation by name."""
        return next(row for row in self.policies if row["policy"] == name)


def read_inputs(paths: Paths) -> Inputs:
    """Read all inputs.

    Raises BadInput naming the file where one is missing, empty or lacks something, and CheckFailed where two of them
    disagree: a page must not mix the tables of two runs.
    """
    config, evaluation = read_json(paths.study), read_json(paths.evaluation)
    study = parse_study(config, str(paths.study))
    tables = {
        "games": read_rows(paths.games, "games"),
        "cohorts": read_rows(paths.cohorts, "cohorts"),
        "pairs": read_rows(paths.pairs, "pairs", PAIR_COLUMNS),
        "effects": read_rows(paths.effects, "effects"),
        "exclusions": read_rows(paths.exclusions, "exclusions"),
    }
    for name, rows in tables.items():
        if not rows and name != "exclusions":
            raise BadInput(f"{getattr(paths, name)}: holds no row; expected the {name} of a finished study")
    _planned(tables["effects"], study, paths.effects)
    _counts_agree(tables["effects"], tables["pairs"], paths)
    one_run(tables, paths.files)
    policies = _policies(evaluation, paths.evaluation)
    router = Router.load(paths.router)
    digests = {name: file_sha256(path) for name, path in paths.files.items()}
    made_from(evaluation, "evaluation", digests, paths.files)
    return Inputs(
        study=study,
        config=config,
        router=router,
        router_record=read_json(paths.router),
        evaluation=evaluation,
        policies=policies,
        digests=digests,
        paths=paths,
        decisions=read_decisions(paths.decisions, factual=True)[0] if paths.decisions else (),
        oof=read_rows(paths.oof, "oof") if paths.oof else (),
        audit=_text(paths.audit) if paths.audit else "",
        **tables,
    )


def _text(path: Path) -> str:
    try:
        return path.read_text("utf-8", "replace")
    except OSError as error:
        raise BadInput(
            f"{path}: can't be read ({error.strerror}); give what `cir audit` printed, or leave it out"
        ) from error


def _planned(effects: Sequence[Row], study: Study, path: Path) -> None:
    known = {
        "cohort": list(study.cohorts),
        "population": list(POPULATIONS),
        "condition": study.protocol.conditions,
        "delay": study.protocol.delays,
        "operator": study.protocol.operators,
    }
    for row in effects:
        for name, values in known.items():
            if row[name] not in values:
                raise BadInput(
                    f"{path}: {name} {row[name]!r} is not in the study's config, which has {values}; "
                    "make effects and page from the same study"
                )
    fit = next(name for name, cohort in study.cohorts.items() if cohort.role == "fit")
    wanted = {(e, d, study.router.operator) for e in study.router.conditions for d in study.protocol.delays}
    have = {(row["condition"], row["delay"], row["operator"]) for row in effects if _headline(row, fit)}
    if missing := sorted(wanted - have):
        e, d, m = missing[0]
        raise BadInput(
            f"{path}: lacks {len(missing)} row(s) of cohort {fit}, population complete, the first: "
            f"condition {e}, delay {d}, operator {m}; run `cir effects` on the study's pairs"
        )


def _headline(row: Row, cohort: str) -> bool:
    return row["cohort"] == cohort and row["population"] == "complete"


def _counts_agree(effects: Sequence[Row], pairs: Sequence[Row], paths: Paths) -> None:
    counted: Counter[tuple[Any, ...]] = Counter()
    for pair in pairs:
        unit = tuple(pair[name] for name in UNIT)
        for population in POPULATIONS[: 1 + pair["factual_success"]]:
            counted[population, unit, pair["cell"].replace("-", "_")] += 1
    for row in effects:
        unit = tuple(row[name] for name in UNIT)
        for cell in ("rescue", "harm", "kept_success", "unchanged_failure"):
            if row[cell] != counted[row["population"], unit, cell]:
                raise CheckFailed(
                    f"{paths.effects}: {row['population']}, {', '.join(map(str, unit))}: {row[cell]} {cell}, but "
                    f"{paths.pairs} has {counted[row['population'], unit, cell]}; run `cir effects` on these pairs again"
                )


def _policies(summary: Any, path: Path) -> list[Row]:
    policies = summary.get("policies") if isinstance(summary, Mapping) else None
    if not isinstance(policies, list) or not policies:
        raise BadInput(f"{path}: lacks a list `policies` with entries; expected what `cir evaluate` writes")
    for number, policy in enumerate(policies):
        place = f"{path}: policies[{number}]"
        _has(policy, POLICY_FIELDS, place)
        interval, rows = policy["ci95_pp"], policy["by_condition"]
        if not isinstance(interval, list) or len(interval) != 2 or not isinstance(rows, list):
            raise BadInput(f"{place}: ci95_pp must be two numbers and by_condition a list; run `cir evaluate` again")
        for row in rows:
            _has(row, CONDITION_FIELDS, f"{place}.by_condition")
        _numbers([policy[name] for name in _NUMBERS] + interval, place)
        # A policy that is averaged over draws has no exact test.
        _numbers([p for p in [policy["sign_flip_p"]] if p is not None], place)
        for row in rows:
            _numbers([row[name] for name in CONDITION_FIELDS[1:]], f"{place}.by_condition")
    names = [policy["policy"] for policy in policies]
    if missing := [name for name in ("never", "cir") if name not in names]:
        raise BadInput(f"{path}: lacks the policy {' and '.join(missing)}; it has {', '.join(map(str, names))}")
    return policies


def _numbers(values: Sequence[Any], place: str) -> None:
    for value in values:
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            raise BadInput(f"{place}: holds {value!r} where a finite number is expected; run `cir evaluate` again")


def _has(value: Any, names: Sequence[str], place: str) -> None:
    if not isinstance(value, Mapping):
        raise BadInput(f"{place}: expected an object, found {value!r}")
    if missing := [name for name in names if name not in value]:
        raise BadInput(f"{place}: lacks {', '.join(missing)}; expected what `cir evaluate` writes")
