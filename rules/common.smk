"""The study of this run, and what every rule shares: paths, the config keys of a stage, the digest of its code."""

import os
from pathlib import Path

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
COHORTS = sorted(STUDY.cohorts)
FIT = next(name for name in COHORTS if STUDY.cohorts[name].role == "fit")
EVALUATE = next(name for name in COHORTS if STUDY.cohorts[name].role == "evaluate")


wildcard_constraints:
    cohort=r"[a-z0-9_-]+",
    condition=r"[a-z0-9-]+",
    delay=r"\d+",
    operator=r"[a-z0-9-]+",
