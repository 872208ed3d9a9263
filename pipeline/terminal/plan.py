"""The jobs that a study means, and where each leaves its output, its log and its time (the rules' own paths)."""

from dataclasses import dataclass

from pipeline.audit.plan import planned as jobs_of
from pipeline.config.models import Study

STAGE_OF = {
    "games": "games",
    "translations": "games",
    "draw": "trajectories",
    "factual": "trajectories",
    "settle": "trajectories",
    "trunk": "trajectories",
    "fork": "forks",
    "pairs": "outcomes",
    "effects": "outcomes",
    "features": "router",
    "fit": "router",
    "evaluate": "evaluation",
    "live": "evaluation",
    "study": "report",
    "report": "report",
}
STAGES = tuple(dict.fromkeys(STAGE_OF.values()))
PLAYED = ("factual", "trunk", "fork")


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
    jobs = []
    for job in jobs_of(study).values():
        rule, *wildcards = job.name.split("/")
        if not job.optional:
            cohort = wildcards[0] if rule in PLAYED else None
            places = job.outputs[0], f"logs/{job.name}.log", f"benchmarks/{job.name}.tsv"
            jobs.append(Job(STAGE_OF[rule], rule, *places, cohort))
    return sorted(jobs, key=lambda job: STAGES.index(job.stage))
