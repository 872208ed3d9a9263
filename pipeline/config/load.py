"""Read a study's config and say in one message what is wrong with it, before any job starts."""

import difflib
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, get_args, get_origin

import yaml
from pydantic import BaseModel, ValidationError

from pipeline.config.models import Study
from pipeline.errors import BadInput


def load_study(*paths: str | Path) -> Study:
    """The study in a YAML file, later files laid over earlier ones as Snakemake's --configfile does.

    Raises BadInput naming the file and each key that is wrong.
    """
    values: Any = {}
    for path in paths:
        try:
            layer = read_yaml(Path(path).read_text("utf-8"), str(path))
        except OSError as error:
            raise BadInput(
                f"{path}: cannot be read ({error.strerror}); expected a study's YAML, such as config/demo.yaml"
            ) from error
        except (yaml.YAMLError, ValueError, RecursionError) as error:
            raise BadInput(f"{path}: is no valid YAML: {error}; compare with config/demo.yaml") from error
        values = merge(values, layer) if isinstance(layer, Mapping) else layer
    return parse_study(values, " + ".join(str(path) for path in paths))


class _EachKeyOnce(yaml.SafeLoader):
    """YAML's safe loader, which by itself lets the last of two equal keys win and says nothing."""

    source = ""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        """A mapping. Raises BadInput naming key and lines where a key stands twice."""
        lines: dict[str, int] = {}
        for key, _ in node.value:
            line = key.start_mark.line + 1
            # `<<` may be repeated: it merges, it doesn't replace.
            if isinstance(key, yaml.ScalarNode) and key.tag != "tag:yaml.org,2002:merge":
                if key.value in lines:
                    raise BadInput(
                        f"{self.source}: line {line}: the key {key.value} stands there twice (first in line "
                        f"{lines[key.value]}); keep one, or join what stands below them"
                    )
                lines[key.value] = line
        return super().construct_mapping(node, deep)


def read_yaml(text: str, source: str) -> Any:
    """The values of a YAML text. Raises BadInput naming `source`, key and lines for a repeated key; yaml.YAMLError."""
    loader = _EachKeyOnce(text)
    loader.source = source
    try:
        return loader.get_single_data()
    finally:
        loader.dispose()


def each_key_once(*paths: str | Path) -> None:
    """Check files that another program has read (Snakemake: the last of two equal keys won). Raises BadInput."""
    for path in paths:
        # What is no YAML, or isn't there, its reader has already said.
        with suppress(OSError, ValueError, RecursionError, yaml.YAMLError):
            read_yaml(Path(path).read_text("utf-8"), str(path))


def merge(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """`over` laid on `base`: maps are merged key by key, everything else is replaced."""
    merged = dict(base)
    for name, value in over.items():
        both = isinstance(value, Mapping) and isinstance(merged.get(name), Mapping)
        merged[name] = merge(merged[name], value) if both else value
    return merged


def parse_study(values: Any, source: str) -> Study:
    """The study in already parsed values; `source` names them in messages. Raises BadInput."""
    if not isinstance(values, Mapping) or not values:
        raise BadInput(f"{source}: no study found; pass one with --configfile, such as config/demo.yaml")
    try:
        study = Study.model_validate(dict(values))
    except ValidationError as error:
        problems = "\n".join(f"  {_problem(item)}" for item in error.errors())
        raise BadInput(
            f"{source}: {error.error_count()} key(s) are wrong:\n{problems}\nconfig/README.md lists every key"
        ) from error
    _known_names(study, source)
    return study


def _problem(item: Mapping[str, Any]) -> str:
    place = ".".join(str(part) for part in item["loc"]) or "study"
    if item["type"] == "extra_forbidden":
        close = difflib.get_close_matches(str(item["loc"][-1]), _siblings(item["loc"]), n=1)
        return f"{place}: no such key" + (f"; did you mean {close[0]}?" if close else "")
    message = item["msg"].removeprefix("Value error, ")
    shown = f" (found {item['input']!r})" if isinstance(item["input"], str | int | float | bool | type(None)) else ""
    return f"{place}: {message}{shown}" if item["loc"] else message


def _siblings(location: tuple[Any, ...]) -> list[str]:
    """Keys that exist beside a misspelt one."""
    inner: Any = Study
    for part in location[:-1]:
        if get_origin(inner) is dict:
            # dict[str, Cohort]: the part is the entry's own name.
            inner = get_args(inner)[1]
        elif _is_section(inner) and str(part) in inner.model_fields:
            inner = inner.model_fields[str(part)].annotation
        else:
            return []
    return [field.alias or name for name, field in inner.model_fields.items()] if _is_section(inner) else []


def _is_section(value: Any) -> bool:
    return isinstance(value, type) and issubclass(value, BaseModel)


def _known_names(study: Study, source: str) -> None:
    """Names that registries must know: conditions, operators, the agent. Raises BadInput."""
    from pipeline.agents.registry import build
    from pipeline.harness.conditions import condition
    from pipeline.harness.operators import operator

    for label, names, lookup in (
        ("protocol.conditions", study.protocol.conditions, lambda name: condition(name, study.protocol.alteration)),
        ("protocol.operators", study.protocol.operators, lambda name: operator(name, study.protocol.texts)),
        ("agent", [study.agent.kind], lambda kind: build(kind, study.agent.parameters)),
    ):
        for name in names:
            try:
                lookup(name)
            except BadInput as error:
                raise BadInput(f"{source}: {label}: {error}") from error
