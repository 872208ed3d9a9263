"""A job's record: what ran, on what, and what came of it, as data with a schema (docs/provenance.md).

Everything but `run` is the same for the same job on the same inputs, code and packages. Two digests guard the record: one
over `run`, one over all the rest; a record file holds the one rendering that these contents have, so that any changed byte
is found.
"""

import json
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from pipeline.errors import BadInput
from pipeline.records.canonical import digest

FORMAT = 1
FOLDER = "provenance"
Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


class Part(BaseModel):
    """Base: an unknown or missing field is an error, nothing is coerced."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


class Job(Part):
    """Which job it was."""

    name: str = Field(description="The record's place under provenance/ without .json: rule, then wildcards.")
    command: str = Field(description="The command behind `cir`.")
    params: dict[str, Any] = Field(description="Its options and arguments by name; paths as in `inputs`.")


class File(Part):
    """A file and its content."""

    path: str = Field(
        description="Relative to the study's folder; `games:…`: relative to the games' root, where that is elsewhere."
    )
    sha256: Sha256 = Field(description="sha256 of its content.")
    bytes: int = Field(ge=0, description="Size.")


class Code(Part):
    """The code that ran."""

    function: str = Field(description="module:function of the command.")
    digest: Sha256 = Field(
        description="Digest of that function and all project code it uses (pipeline.provenance.code)."
    )
    apart: list[str] = Field(description="Packages that did not count: those of other kinds of agent.")


class Environment(Part):
    """What the code ran on."""

    python: str = Field(description="Python's version.")
    packages: dict[str, str] = Field(description="Versions of the packages that the project depends on.")
    commit: str | None = Field(description="Commit of the checkout, null outside one.")
    dirty: bool | None = Field(
        description="Whether workflow or code differed from that commit, null outside a checkout."
    )
    no_commit: str | None = Field(description="Why there is no commit, null where there is one.")


class Run(Part):
    """What may differ between two runs of the same job."""

    host: str = Field(description="Name of the machine.")
    gpus: list[str] | None = Field(description="Models of its GPUs, null where none was seen.")
    started: str = Field(description="When the command began, UTC, ISO 8601.")
    seconds: float = Field(ge=0, description="How long it took, wall clock.")
    params: dict[str, Any] = Field(description="Params that are matters of the machine, such as threads.")
    places: dict[str, str] = Field(description="Folders of that machine: the study's, the games'.")
    notes: dict[str, Any] = Field(description="Counts that the command left, such as the store's hits and misses.")


class Record(Part):
    """One job's record."""

    format: Literal[1] = Field(description="Version of this format.")
    job: Job
    inputs: list[File] = Field(description="Every file that was read, sorted by path.")
    outputs: list[File] = Field(description="Every file that was written, sorted by path.")
    code: Code
    environment: Environment
    agent: dict[str, Any] | None = Field(description="Identity of the agent that played, with its model revision.")
    seeds: dict[str, int] = Field(description="Seeds among the params, by dotted name.")
    run: Run
    digest: Sha256 = Field(description="sha256 of the canonical JSON of all but run, digest and run_digest.")
    run_digest: Sha256 = Field(description="sha256 of the canonical JSON of run.")


def sealed(values: dict[str, Any]) -> Record:
    """The record of these values, its digests added. Raises pydantic's ValidationError for values that are none."""
    return Record.model_validate(values | dict(zip(("digest", "run_digest"), _digests(values), strict=True)))


def rendered(record: Record) -> bytes:
    """The one rendering of a record: indented JSON with sorted keys, UTF-8."""
    return (
        json.dumps(record.model_dump(), sort_keys=True, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
    ).encode()


def parsed(content: bytes, source: str | Path) -> Record:
    """The record in a file's content. Raises BadInput naming `source` where it is none, or not as it was written."""
    again = "it was not written so: run its job again"
    try:
        values = json.loads(content)
        record = Record.model_validate(values)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"]) or "record"
        raise BadInput(f"{source}: {place}: {first['msg']}; {again}") from error
    except (ValueError, RecursionError) as error:
        raise BadInput(f"{source}: is no valid JSON ({error}); {again}") from error
    for name, wanted in zip(("digest", "run_digest"), _digests(values), strict=True):
        if getattr(record, name) != wanted:
            raise BadInput(f"{source}: {name} does not fit the content; {again}")
    if rendered(record) != content:
        raise BadInput(f"{source}: holds the right values in another rendering; {again}")
    return record


def schema_text() -> str:
    """JSON schema of a record (draft 2020-12), indented, keys sorted."""
    schema = Record.model_json_schema()
    schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    return json.dumps(schema, indent=2, sort_keys=True, ensure_ascii=False) + "\n"


def _digests(values: dict[str, Any]) -> tuple[str, str]:
    rest = {name: value for name, value in values.items() if name not in ("run", "digest", "run_digest")}
    return digest(rest), digest(values.get("run"))
