"""Which jobs a study's config means, and what each must have been given and have left: written down apart from the rules.

An auditor's second book. A rule that changes without this table, or the other way round, fails a test.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import product
from typing import Any

from pipeline.config.models import Study
from pipeline.config.scopes import settings


@dataclass(frozen=True)
class Planned:
    """One job: its record's name, its function, params it must have had, files it must have left.

    `besides` are folders in which it may have left more; `optional`: the study is complete without it.
    """

    name: str
    function: str
    params: Mapping[str, Any]
    outputs: tuple[str, ...]
    besides: tuple[str, ...] = field(default=())
    optional: bool = False


def role(study: Study, wanted: str) -> str:
    """Name of the one cohort that has that role."""
    return next(name for name, cohort in study.cohorts.items() if cohort.role == wanted)


def trunk_path(cohort: str, condition: str) -> str:
    """Trunks of a cohort under a condition (contracts.md)."""
    return f"trajectories/cohort={cohort}/condition={condition}/trunk.parquet"


def factual_path(cohort: str) -> str:
    """Factual runs of a cohort."""
    return f"trajectories/cohort={cohort}/factual.parquet"


def fork_path(cohort: str, condition: str, delay: int, operator: str) -> str:
    """Branches of a cohort under a condition, by delay and operator."""
    return f"forks/cohort={cohort}/condition={condition}/delay={delay}/operator={operator}/part.parquet"


def planned(study: Study) -> dict[str, Planned]:
    """Every job of the study by name."""
    return {job.name: job for job in _jobs(study)}


def _jobs(study: Study) -> Iterator[Planned]:
    def keys(stage: str, condition: str | None = None, operator: str | None = None) -> dict[str, Any]:
        return {"settings": json.loads(settings(study, stage, condition, operator))}

    # Where episodes are kept is a matter of the machine.
    whole = study.model_dump(mode="json", by_alias=True, exclude={"store"})
    fit, evaluate = role(study, "fit"), role(study, "evaluate")
    drawn = {"resamples": study.statistics.resamples, "seed": study.statistics.seed}
    cohorts, protocol = sorted(study.cohorts), study.protocol

    yield Planned("study", "pipeline.config.command:record", {"study": whole}, ("study.json",))
    if study.games.source == "generated":
        make, given, more = "pipeline.games.command:generate", keys("generate"), ("../games/",)
    else:
        make, given, more = "pipeline.games.command:index", {}, ()
    yield Planned("games", make, given, ("games/games.parquet",), more)
    yield Planned("draw", "pipeline.trajectories.command:draw", keys("draw"), ("games/candidates.parquet",))
    yield Planned("translations", "pipeline.games.command:translate", {}, ("games/translations.parquet",))
    for c in cohorts:
        given = keys("factual") | {"cohort": c}
        yield Planned(f"factual/{c}", "pipeline.trajectories.command:factual", given, (factual_path(c),))
    yield Planned("settle", "pipeline.trajectories.command:settle", keys("settle"), ("games/cohorts.parquet",))
    for c, e in product(cohorts, protocol.conditions):
        given = keys("trunk", e) | {"cohort": c, "condition": e}
        yield Planned(f"trunk/{c}/{e}", "pipeline.trajectories.command:trunk", given, (trunk_path(c, e),))
    for c, e, d, m in product(cohorts, protocol.conditions, protocol.delays, protocol.operators):
        given = keys("fork", e, m) | {"delay": d, "operator": m, "trunk": trunk_path(c, e)}
        yield Planned(f"fork/{c}/{e}/{d}/{m}", "pipeline.forks.command:fork", given, (fork_path(c, e, d, m),))
    tables = ("outcomes/pairs.parquet", "outcomes/exclusions.parquet")
    yield Planned("pairs", "pipeline.outcomes.command:pairs", keys("pairs"), tables)
    yield Planned("effects", "pipeline.outcomes.command:effects", drawn, ("outcomes/effects.parquet",))
    given = keys("features") | {"cohort": f"{fit},{evaluate}"}
    yield Planned("features", "pipeline.router.command:features", given, ("router/decisions.parquet",))
    given = keys("fit") | {"cohort": fit}
    yield Planned("fit", "pipeline.router.command:fit", given, ("router/router.json", "router/oof.parquet"))
    given = drawn | {"cohort": evaluate}
    yield Planned("evaluate", "pipeline.evaluation.command:evaluate", given, ("evaluation/summary.json",))
    given, live = keys("live") | {"cohort": evaluate}, ("evaluation/live.parquet",)
    optional = study.agent.kind != "scripted"
    yield Planned("live", "pipeline.evaluation.live_command:live", given, live, optional=optional)
    page = ("report/index.html", "report/summary.txt")
    yield Planned("report", "pipeline.report.command:report", {}, page, ("report/figures/",))
