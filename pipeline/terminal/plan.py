"""The jobs that a study means, and where each leaves its output, its log and its time (the rules' own paths)."""

from collections.abc import Iterator
from dataclasses import dataclass

from pipeline.config.models import Study

STAGES = ("games", "trajectories", "forks", "outcomes", "router", "evaluation", "report")


@dataclass(frozen=True)
class Job:
    """One job: the rule, its stage, and paths below results/<study>/. `cohort` is set where the job plays episodes."""

    stage: str
    rule: str
    output: str
    log: str
    benchmark: str
    cohort: str | None = None


def planned(study: Study) -> list[Job]:
    """Every job that `snakemake --configfile` plans from nothing, but `all`; in the order of the stages."""
    return list(_jobs(study))


def _jobs(study: Study) -> Iterator[Job]:
    protocol = study.protocol
    for rule, name in (("games", "games"), ("draw", "candidates"), ("translations", "translations")):
        stage = "trajectories" if rule == "draw" else "games"
        yield _single(stage, rule, f"games/{name}.parquet")
    for cohort in sorted(study.cohorts):
        yield _played("trajectories", "factual", f"trajectories/cohort={cohort}/factual", cohort, (cohort,))
    yield _single("trajectories", "settle", "games/cohorts.parquet")
    for cohort in sorted(study.cohorts):
        for condition in protocol.conditions:
            place = f"cohort={cohort}/condition={condition}"
            yield _played("trajectories", "trunk", f"trajectories/{place}/trunk", cohort, (cohort, condition))
    for cohort in sorted(study.cohorts):
        for condition in protocol.conditions:
            for delay in protocol.delays:
                for operator in protocol.operators:
                    place = f"cohort={cohort}/condition={condition}/delay={delay}/operator={operator}"
                    names = (cohort, condition, str(delay), operator)
                    yield _played("forks", "fork", f"forks/{place}/part", cohort, names)
    for stage, rule, output in (
        ("outcomes", "pairs", "outcomes/pairs.parquet"),
        ("outcomes", "effects", "outcomes/effects.parquet"),
        ("router", "features", "router/decisions.parquet"),
        ("router", "fit", "router/router.json"),
        ("evaluation", "evaluate", "evaluation/summary.json"),
        *([("evaluation", "live", "evaluation/live.parquet")] if study.agent.kind == "scripted" else []),
        ("report", "study", "study.json"),
        ("report", "report", "report/index.html"),
    ):
        yield _single(stage, rule, output)


def _single(stage: str, rule: str, output: str) -> Job:
    return Job(stage, rule, output, f"logs/{rule}.log", f"benchmarks/{rule}.tsv")


def _played(stage: str, rule: str, output: str, cohort: str, wildcards: tuple[str, ...]) -> Job:
    place = "/".join((rule, *wildcards))
    return Job(stage, rule, f"{output}.parquet", f"logs/{place}.log", f"benchmarks/{place}.tsv", cohort)
