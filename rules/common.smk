"""The study of this run, and what every rule shares: paths, the config keys of a stage, the digest of its code."""

import os
from pathlib import Path

from pipeline.agents.registry import packages_but
from pipeline.config.load import each_key_once, parse_study
from pipeline.config.scopes import settings
from pipeline.errors import CirError
from pipeline.provenance.code import code_digest
from pipeline.records.canonical import digest

try:
    each_key_once(*workflow.configfiles)
    STUDY = parse_study(config, "the study's config")
except CirError as error:
    raise WorkflowError(str(error)) from None

RESULTS = f"results/{STUDY.study}"
# Where `cir factual|trunk|fork` keep episodes: no param, since they are the same wherever they are kept and another place
# must re-run nothing. Every process of the workflow reads this file, on a cluster's nodes too.
os.environ.update(CIR_STORE=STUDY.store)
# An edit of another kind of agent concerns no job of this study.
OTHER_AGENTS = packages_but(STUDY.agent.kind)
COHORTS = sorted(STUDY.cohorts)
FIT = next(name for name in COHORTS if STUDY.cohorts[name].role == "fit")
EVALUATE = next(name for name in COHORTS if STUDY.cohorts[name].role == "evaluate")


wildcard_constraints:
    cohort=r"[a-z0-9_-]+",
    condition=r"[a-z0-9-]+",
    delay=r"\d+",
    operator=r"[a-z0-9-]+",
