"""Which config keys concern which stage: the one table that rules, commands and documentation share.

A stage is given exactly these keys as one canonical JSON param, so changing a key re-runs the stages listed with it and
what follows from them, and nothing else. A job of one condition and operator is given only those that matter to these.
"""

import json
import re
from collections.abc import Mapping
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from pipeline.config.models import Study
from pipeline.errors import BadInput
from pipeline.records.canonical import canonical_json

Model = TypeVar("Model", bound=BaseModel)

# Stage -> dotted keys. Wildcards of a job (its cohort, condition, delay, operator) are chosen by the workflow's targets.
SCOPES: dict[str, tuple[str, ...]] = {
    "generate": ("games.generate",),
    "index": ("games.root",),
    "translate": (),
    "draw": ("cohorts",),
    "factual": ("agent", "harness"),
    "settle": (
        "cohorts",
        "protocol.conditions",
        "protocol.alteration.fraction",
        "protocol.alteration.first_observation",
    ),
    "trunk": ("agent", "harness", "protocol.alteration.length", "protocol.alteration.missing_text"),
    "fork": (
        "agent",
        "harness",
        "protocol.alteration.length",
        "protocol.alteration.missing_text",
        "protocol.texts",
    ),
    "pairs": ("protocol.conditions", "protocol.delays", "protocol.operators", "statistics.null_alterations"),
    "effects": ("statistics.resamples", "statistics.seed"),
    "features": (
        "router.operator",
        "router.operators",
        "router.delays",
        "protocol.conditions",
        "protocol.operators",
        "harness.turns",
        "harness.actions",
    ),
    "fit": (
        "router.C",
        "router.lambda",
        "router.epsilon",
        "router.confidence",
        "router.folds",
        "router.seed",
        "router.gamma_quantiles",
        "router.conditions",
        "router.population",
        "router.delays",
        "router.operator",
    ),
    "evaluate": ("statistics.resamples", "statistics.seed"),
    "live": ("agent", "harness", "protocol.alteration", "protocol.texts"),
    "report": (),
}
# Of a section's keys those that matter to a condition or an operator; to a name that no pattern matches all of them do.
CONCERNS: dict[str, dict[str, tuple[str, ...]]] = {
    "protocol.alteration": {
        r"clean": (),
        r"stale-\d+": ("length",),
        r"missing": ("length", "missing_text"),
    },
    "protocol.texts": {
        r"none": (),
        r"refresh": ("look_line",),
        r"content-ablated": ("look_line", "withheld_text"),
        r"replan-only": ("replan_line", "replan_text"),
    },
}
BY_CONDITION_AND_OPERATOR = ("trunk", "fork")  # stages whose jobs are told what their condition and operator need
# Keys that no stage reads: they choose where results or episodes stand or which jobs there are.
TARGETS = ("study", "store", "games.source")


def settings(study: Study, stage: str, condition: str | None = None, operator: str | None = None) -> str:
    """Canonical JSON of the keys that concern a stage, nested as in the config.

    With a condition or an operator: without what matters only to others (CONCERNS).
    """
    whole = study.model_dump(mode="json", by_alias=True)
    chosen: dict[str, Any] = {}
    for path in SCOPES[stage]:
        *parents, last = path.split(".")
        source, target = whole, chosen
        for part in parents:
            source, target = source[part], target.setdefault(part, {})
        target[last] = source[last]
    for path, name in (("protocol.alteration", condition), ("protocol.texts", operator)):
        *parents, last = path.split(".")
        section: Any = chosen
        for part in parents:
            section = section.get(part, {})
        if name is not None and last in section:
            section[last] = {key: value for key, value in section[last].items() if concerns(path, name, key)}
    return canonical_json(chosen)


def concerns(section: str, name: str, key: str) -> bool:
    """Whether a key of a section matters to a condition or an operator of that name."""
    keys = next((keys for pattern, keys in CONCERNS[section].items() if re.fullmatch(pattern, name)), None)
    return keys is None or key in keys


def concerned(path: str) -> list[str]:
    """The conditions or operators that the key at a dotted path matters to; empty where it isn't told apart."""
    section, _, key = path.rpartition(".")
    patterns = CONCERNS.get(section, {})
    return [pattern.replace(r"\d+", "N") for pattern, keys in patterns.items() if key in keys]


def parsed_settings(text: str) -> dict[str, Any]:
    """The object in a `--settings` JSON. Raises BadInput where it is none."""
    hint = "`cir config settings STUDY.yaml STAGE` prints what a stage needs"
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise BadInput(f"--settings: is no valid JSON ({error}); {hint}") from error
    if not isinstance(value, dict):
        raise BadInput(f"--settings: is a JSON {type(value).__name__}, expected an object; {hint}")
    return value


def study_key(path: str, value: Any, source: str) -> Any:
    """The value checked as the study's key at that dotted path. Raises BadInput naming `source` and what was expected.

    Not strict: JSON has one kind of number, so a whole 2 may stand for 2.0.
    """
    model: Any = Study
    *parents, last = path.split(".")
    for part in parents:
        model = model.model_fields[part].annotation
    field = next(field for name, field in model.model_fields.items() if last in (name, field.alias))
    adapter: TypeAdapter[Any] = TypeAdapter(
        Annotated[field.annotation, *field.metadata, Field()], config=ConfigDict(allow_inf_nan=False)
    )
    try:
        return adapter.validate_python(value, strict=False)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join((path, *map(str, first["loc"])))
        raise BadInput(f"{source}: {place}: {first['msg']} (found {first['input']!r})") from error


def section(text: str, path: str, model: type[Model]) -> Model:
    """One section out of a `--settings` JSON. Raises BadInput naming the key that is missing or wrong."""
    value: Any = parsed_settings(text)
    for part in path.split("."):
        if not isinstance(value, Mapping) or part not in value:
            raise BadInput(
                f"--settings: lacks the key {path}; `cir config settings STUDY.yaml STAGE` prints what a stage needs"
            )
        value = value[part]
    try:
        # Not strict: JSON has one kind of number, so a whole 2 may stand for 2.0.
        return model.model_validate(value, strict=False)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join((path, *map(str, first["loc"])))
        raise BadInput(f"--settings: {place}: {first['msg']}") from error
