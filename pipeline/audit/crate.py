"""A study as a Workflow Run RO-Crate: the workflow, its config, every artifact, and one action a job, out of the records.

It follows the Provenance Run Crate profile too: a step for each command, a control action for each job.
"""

import base64
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipeline import __version__
from pipeline.audit.cells import study_config
from pipeline.audit.study import SHARED, Recorded, outside
from pipeline.errors import BadInput
from pipeline.provenance.code import ROOT
from pipeline.provenance.record import FOLDER, File, Record

if TYPE_CHECKING:
    from rocrate.model.entity import Entity
    from rocrate.rocrate import ROCrate

PROFILES = {
    "https://w3id.org/ro/wfrun/process/0.5": "Process Run Crate",
    "https://w3id.org/ro/wfrun/workflow/0.5": "Workflow Run Crate",
    "https://w3id.org/ro/wfrun/provenance/0.5": "Provenance Run Crate",
    "https://w3id.org/workflowhub/workflow-ro-crate/1.0": "Workflow RO-Crate",
}
TERMS = "https://w3id.org/ro/terms/workflow-run#"
LICENCE = "https://spdx.org/licenses/MIT"
ALWAYS = ("study.json", "report/")  # copied whatever is asked: small, and what a reader opens first
PAGE = "report/index.html"
FORMATS = {
    ".parquet": "application/vnd.apache.parquet",
    ".json": "application/json",
    ".html": "text/html",
    ".txt": "text/plain",
    ".svg": "image/svg+xml",
    ".csv": "text/csv",
}


def write_crate(study: Recorded, out: Path, with_data: bool) -> int:
    """Write the crate, a folder or (where `out` ends in .zip) an archive; returns the number of its actions.

    Without data, artifacts stand in it by their content's name (RFC 6920, ni:///sha-256;…) and their path as
    alternateName; config, report and records are copied in any case. Raises BadInput where the workflow's own files are not here, a
    record or a file to copy is missing, or `out` holds something already.
    """
    from rocrate.rocrate import ROCrate

    if not (ROOT / "Snakefile").is_file():
        raise BadInput(f"{ROOT}: no Snakefile here; run export-crate in the project's checkout")
    if study.unreadable or not {"study", "report"} <= set(study.records):
        raise BadInput(f"{study.root}: records are missing or damaged; `cir audit` names them")
    if out.exists() and (out.is_file() or any(out.iterdir())):
        raise BadInput(f"{out}: exists already; name a new file or folder")
    crate = ROCrate(version="1.1")
    crate.metadata.extra_terms["sha256"] = f"{TERMS}sha256"
    builder = _Builder(crate, study, with_data)
    workflow = builder.workflow()
    builder.root(workflow)
    actions = [builder.job(name, record) for name, record in sorted(study.records.items())]
    whole = builder.run(workflow)
    builder.organised(workflow, whole)
    crate.root_dataset["mentions"] = [whole, *actions]
    (crate.write_zip if out.suffix == ".zip" else crate.write)(out)
    return 1 + len(actions)


class _Builder:
    """Adds entities to one crate, files once each."""

    def __init__(self, crate: "ROCrate", study: Recorded, with_data: bool):
        self.crate, self.study, self.with_data = crate, study, with_data
        self.config = study_config(study)
        self.files: dict[str, Entity] = {}
        self.tools: dict[tuple[str, str], Entity] = {}
        self.jobs: list[tuple[tuple[str, str], Entity]] = []
        records = study.records.values()
        self.started = min(record.run.started for record in records)
        self.ended = max(_end(record) for record in records)

    def add(self, kind: str | list[str], identifier: str, **properties: Any) -> "Entity":
        """A contextual entity."""
        from rocrate.model.contextentity import ContextEntity

        return self.crate.add(ContextEntity(self.crate, identifier, properties={"@type": kind, **properties}))

    def root(self, workflow: "Entity") -> None:
        """Name, description, licence, date and profiles of the whole."""
        crate = self.crate
        crate.name = f"CIR study {self.config.study}"
        crate.description = (
            "Paired forks of agent runs on household tasks: how often a recovery rescues and how often it harms, with every "
            "artifact of the study, the job that made it, and the code and packages it ran on."
        )
        crate.license = self.add("CreativeWork", LICENCE, name="MIT License", url=LICENCE)
        crate.datePublished = datetime.fromisoformat(self.ended)
        crate.root_dataset["conformsTo"] = [
            self.add("CreativeWork", uri, name=name, version=uri.rpartition("/")[2]) for uri, name in PROFILES.items()
        ]

    def workflow(self) -> "Entity":
        """The Snakefile as main entity, its rules as its parts, config and page as its parameters."""
        given = self.add(
            "FormalParameter", "#param-config", name="config", additionalType="File", valueRequired=True,
            description="The study's whole config; every key stands in config/README.md of the project.",
            conformsTo={"@id": "https://bioschemas.org/profiles/FormalParameter/1.0-RELEASE"},
        )  # fmt: skip
        made = self.add(
            "FormalParameter", "#param-page", name="page", additionalType="File", description="The study's page.",
            conformsTo={"@id": "https://bioschemas.org/profiles/FormalParameter/1.0-RELEASE"},
        )  # fmt: skip
        workflow = self.crate.add_workflow(
            ROOT / "Snakefile",
            "Snakefile",
            main=True,
            lang="snakemake",
            lang_version=_packages(self.study).get("snakemake"),
            properties={"@type": ["File", "SoftwareSourceCode", "ComputationalWorkflow", "HowTo"]},
        )
        workflow["name"] = "CIR pipeline"
        workflow["license"] = {"@id": LICENCE}
        workflow["version"] = __version__
        workflow["input"], workflow["output"] = [given], [made]
        rules = sorted((ROOT / "rules").glob("*.smk"))
        for path in rules:
            name = f"rules/{path.name}"
            properties = {"name": name, "encodingFormat": "text/plain", "isPartOf": {"@id": workflow.id}}
            self.crate.add_file(path, name, properties=properties)
        self.file("study.json")["exampleOfWork"] = given
        self.file(PAGE)["exampleOfWork"] = made
        return workflow

    def run(self, workflow: "Entity") -> "Entity":
        """The run of the whole workflow: from the config to every artifact."""
        made = sorted(
            {file.path for record in self.study.records.values() for file in record.outputs if not outside(file.path)}
        )
        return self.add(
            "CreateAction", "#run", name=f"Run of the study {self.config.study}", instrument=workflow,
            object=[self.file("study.json")], result=[self.file(path) for path in made],
            startTime=self.started, endTime=self.ended, actionStatus="http://schema.org/CompletedActionStatus",
        )  # fmt: skip

    def job(self, name: str, record: Record) -> "Entity":
        """One job as an action: its command, what it read, what it wrote, its record."""
        record_file = f"{FOLDER}/{name}.json"
        action = self.add(
            "CreateAction", f"#job-{name.replace('/', '-')}", name=f"cir {record.job.command} ({name})",
            instrument=self.tool(record), object=self.listed(record.inputs), result=self.listed(record.outputs),
            startTime=record.run.started, endTime=_end(record),
            actionStatus="http://schema.org/CompletedActionStatus",
            subjectOf=self.copied(record_file, f"Record of the job {name}"),
        )  # fmt: skip
        self.jobs.append(((record.job.command, record.code.digest), action))
        return action

    def organised(self, workflow: "Entity", whole: "Entity") -> None:
        """The workflow's steps, one a command, and the engine's run: which step each job was an execution of."""
        steps = {}
        for position, (key, tool) in enumerate(self.tools.items()):
            steps[key] = self.add("HowToStep", f"#step-{tool.id[1:]}", position=str(position), workExample=tool)
        workflow["step"], workflow["hasPart"] = list(steps.values()), list(self.tools.values())
        version = _packages(self.study).get("snakemake", "unknown")
        self.add(
            "OrganizeAction",
            "#engine-run",
            name=f"Run of Snakemake {version}",
            instrument=self.package("snakemake", version),
            object=[
                self.add("ControlAction", f"#control-{action.id[1:]}", instrument=steps[key], object=action)
                for key, action in self.jobs
            ],
            result=whole,
            startTime=self.started,
            endTime=self.ended,
        )

    def tool(self, record: Record) -> "Entity":
        """The command at the code that ran, with the packages it stands on."""
        key = (record.job.command, record.code.digest)
        if key not in self.tools:
            commit = f", commit {record.environment.commit}" if record.environment.commit else ""
            self.tools[key] = self.add(
                "SoftwareApplication", f"#cir-{record.job.command.replace(' ', '-')}-{record.code.digest[:12]}",
                name=f"cir {record.job.command}", softwareVersion=f"{__version__}, code {record.code.digest}{commit}",
                description=f"Function {record.code.function}, on Python {record.environment.python}.",
                softwareRequirements=[self.package(*item) for item in record.environment.packages.items()],
            )  # fmt: skip
        return self.tools[key]

    def package(self, name: str, version: str) -> "Entity":
        """A package that the project depends on."""
        identifier = f"https://pypi.org/project/{name}/{version}/"
        found = self.crate.dereference(identifier)
        return found or self.add("SoftwareApplication", identifier, name=name, version=version, url=identifier)

    def listed(self, files: Iterable[File]) -> list["Entity"]:
        """Entities of files, each once."""
        return list({entity.id: entity for entity in (self.file(file.path, file) for file in files)}.values())

    def file(self, name: str, seen: File | None = None) -> "Entity":
        """The file of that name in the records: copied, or by the name of its content."""
        file = self.study.entry(name) or seen
        if file is None:
            raise BadInput(f"{name}: no record claims it; `cir audit` says what is missing")
        if name not in self.files:
            properties = {"name": name, "contentSize": str(file.bytes), "sha256": file.sha256} | _format(name)
            if (self.with_data and not name.startswith("games:")) or name.startswith(ALWAYS):
                place = self.study.place(name)
                if place is None or not place.is_file():
                    raise BadInput(f"{name}: is missing, so it can't be copied; `cir audit` says what is wrong")
                inside = f"games-files/{name.removeprefix(SHARED)}" if name.startswith(SHARED) else name
                self.files[name] = self.crate.add_file(place, inside, properties=properties)
            else:
                identifier = _by_content(file.sha256)
                # Two files of one content are one entity: what differs is where they stood.
                entity = self.crate.dereference(identifier) or self.crate.add_file(identifier, properties=properties)
                entity["alternateName"] = sorted({*_list(entity.get("alternateName")), name})
                self.files[name] = entity
        return self.files[name]

    def copied(self, name: str, description: str) -> "Entity":
        """A record."""
        properties = {"name": name, "description": description, "encodingFormat": "application/json"}
        return self.crate.add_file(self.study.root / name, name, properties=properties)


def _by_content(sha256: str) -> str:
    return "ni:///sha-256;" + base64.urlsafe_b64encode(bytes.fromhex(sha256)).decode().rstrip("=")


def _list(value: Any) -> list[Any]:
    return [] if value is None else value if isinstance(value, list) else [value]


def _format(name: str) -> Mapping[str, str]:
    found = FORMATS.get(Path(name).suffix)
    return {"encodingFormat": found} if found else {}


def _end(record: Record) -> str:
    ended = datetime.fromisoformat(record.run.started) + timedelta(seconds=record.run.seconds)
    return ended.isoformat(timespec="seconds")


def _packages(study: Recorded) -> Mapping[str, str]:
    return study.records["study"].environment.packages
