"""What a study needs of a machine, checked one by one. A check never raises: what goes wrong is what it reports."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from pipeline.config.models import Study

LOW_SPACE, NO_SPACE = 10e9, 1e9  # bytes; the paper-size study's results take a few GB
SLURM = ("sbatch", "squeue", "sinfo")
SECONDS = 10  # patience with programs and servers
DISTRIBUTION = "cir-pipeline"


@dataclass(frozen=True)
class Check:
    """A finding: `ok`, `warning` (the study runs without it) or `problem` (it can't), what was found, what to do."""

    name: str
    level: str
    found: str
    todo: str = ""


def examine(study: Study | None) -> list[Check]:
    """Every check, in the order in which things are needed; with a study what that one needs."""
    checks: list[Check] = [python(sys.version_info[:2]), *packages(_pins()), *_guarded("engine", engine)]
    if study is None or study.games.source == "alfworld":
        root = (study.games.root if study else None) or os.environ.get("ALFWORLD_DATA")
        checks += _guarded("games", lambda: games(root, needed=study is not None))
    store = study.store if study else os.environ.get("CIR_STORE", "results/store")
    checks += [
        writable(Path("results")),
        writable(Path(store), "store"),
        space(Path("results")),
        slurm(shutil.which),
        gpu(shutil.which),
    ]
    if study is not None and study.agent.kind == "openai":
        checks += _guarded("server", lambda: server(study))
    return checks


def python(version: tuple[int, ...]) -> Check:
    """Python 3.11: what the pins were resolved for."""
    name = ".".join(map(str, version))
    if version == (3, 11):
        return Check("python", "ok", name)
    return Check("python", "problem", f"{name}, 3.11 is needed", "make setup PYTHON=python3.11")


def packages(pins: Iterable[tuple[str, str]]) -> Iterator[Check]:
    """Installed versions against the pins (name, version): one line when all agree, else one for each that doesn't."""
    wrong = total = 0
    for name, wanted in pins:
        total += 1
        try:
            have = metadata.version(name)
        except metadata.PackageNotFoundError:
            have = "not installed"
        if have != wanted:
            wrong += 1
            level = "problem" if have == "not installed" else "warning"
            yield Check(
                "packages", level, f"{name} {have}, {wanted} is pinned", "make setup (installs requirements.lock)"
            )
    if not total:
        yield Check("packages", "warning", "the pins are not known: the project isn't installed", "make setup")
    elif not wrong:
        yield Check("packages", "ok", f"{total} as pinned")


def _pins() -> list[tuple[str, str]]:
    """The project's own dependencies with their exact versions, from its installed metadata or pyproject.toml beside it."""
    try:
        listed = metadata.requires(DISTRIBUTION) or []
    except metadata.PackageNotFoundError:
        import tomllib

        project = Path(__file__).resolve().parents[2] / "pyproject.toml"
        listed = tomllib.loads(project.read_text("utf-8"))["project"]["dependencies"] if project.is_file() else []
    return [(found[1], found[2]) for line in listed if (found := re.fullmatch(r"([\w.-]+)==([\w.]+)", line))]


def engine() -> Iterator[Check]:
    """Make a game, translate it and win it by its own walkthrough: generator, grammar, planner and engine at once."""
    from pipeline.environment.safety import KNOWN_DOMAINS, KNOWN_GRAMMARS, split_task
    from pipeline.games.generate import build, orders, prove
    from pipeline.records.canonical import bytes_sha256

    game = build(orders({"train": 1}, ["pick_and_place_simple"], 1, "move")[0], 0)
    prove(game)
    yield Check("engine", "ok", f"a generated game is won by its walkthrough ({len(game.walkthrough)} commands)")
    import json

    parts = json.loads(game.game)
    domain = KNOWN_DOMAINS.get(bytes_sha256(parts["pddl_domain"].encode()))
    grammar = KNOWN_GRAMMARS.get(bytes_sha256(split_task(parts["grammar"])[0].encode()))
    for name, known in (("domain", domain), ("grammar", grammar)):
        if known:
            yield Check(name, "ok", known)
        else:
            yield Check(
                name, "warning", "its sha256 is none that is known", "another alfworld is installed: make setup"
            )


def games(root: str | None, needed: bool) -> Iterator[Check]:
    """The official games: only a study that reads them needs them."""
    level = "problem" if needed else "ok"
    if not root:
        todo = "alfworld-download, then export ALFWORLD_DATA=~/.cache/alfworld" if needed else ""
        yield Check("games", level, "no official games named; generated ones need none", todo)
        return
    folder = Path(root).expanduser()
    data = folder if folder.name == "json_2.1.1" else folder / "json_2.1.1"
    splits = sorted(path.name for path in data.iterdir() if path.is_dir()) if data.is_dir() else []
    if splits:
        yield Check("games", "ok", f"{data} holds {', '.join(splits)}")
    else:
        todo = "alfworld-download, or name the folder that holds json_2.1.1 in games.root or ALFWORLD_DATA"
        yield Check("games", "problem" if needed else "warning", f"{data}: no split is there", todo)


def writable(folder: Path, what: str = "results") -> Check:
    """Whether results, or the store of episodes, can be written: tried in the folder, or in the nearest one above it that exists."""
    place = _existing(folder)
    try:
        with tempfile.TemporaryFile(dir=place) as file:
            file.write(b"0")
    except OSError as error:
        return Check(what, "problem", f"{place}: cannot be written ({error.strerror})", "choose a writable folder")
    return Check(what, "ok", f"{place.resolve()} can be written")


def space(folder: Path) -> Check:
    """Free space where results will stand."""
    free = shutil.disk_usage(_existing(folder)).free
    found = f"{free / 1e9:.1f} GB free"
    if free < NO_SPACE:
        return Check("disk", "problem", found, "free at least 1 GB (the demo takes less, paper-size studies more)")
    if free < LOW_SPACE:
        return Check("disk", "warning", found, "enough for the demo; free 10 GB before a paper-size study")
    return Check("disk", "ok", found)


def slurm(which: Callable[[str], str | None]) -> Check:
    """Slurm's programs: only runs on a cluster need them."""
    if missing := [name for name in SLURM if which(name) is None]:
        return Check(
            "slurm",
            "ok" if len(missing) == len(SLURM) else "warning",
            f"{', '.join(missing)} not here; one machine does without",
        )
    try:
        done = subprocess.run(["sinfo", "--version"], capture_output=True, text=True, timeout=SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return Check(
            "slurm", "warning", f"sinfo does not answer ({error})", "ask the cluster's people; one machine does without"
        )
    if done.returncode:
        return Check("slurm", "warning", done.stderr.strip() or "sinfo failed", "ask the cluster's people")
    return Check("slurm", "ok", done.stdout.strip())


def gpu(which: Callable[[str], str | None]) -> Check:
    """A GPU: only a model served on this machine needs one."""
    if which("nvidia-smi") is None:
        return Check("gpu", "ok", "none here; only a model served on this machine needs one")
    command = ["nvidia-smi", "--query-gpu=name,memory.total", "--format=csv,noheader"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return Check("gpu", "warning", f"nvidia-smi does not answer ({error})", "check the driver")
    if done.returncode:
        return Check("gpu", "warning", (done.stdout + done.stderr).strip()[:200], "check the driver")
    return Check("gpu", "ok", "; ".join(done.stdout.strip().splitlines()))


def server(study: Study) -> Iterator[Check]:
    """The agent's endpoint: it answers, and serves the model that the study names."""
    from openai import OpenAI, OpenAIError

    from pipeline.agents.openai import OpenAIParameters

    asked = OpenAIParameters.model_validate(study.agent.parameters)
    key = os.environ.get(asked.api_key_variable) or "none"
    client = OpenAI(base_url=asked.base_url, api_key=key, timeout=SECONDS, max_retries=0)
    start = f"start the server, or mend agent.parameters.base_url; a key is read from ${asked.api_key_variable}"
    try:
        models = sorted(model.id for model in client.models.list().data)
    except (OpenAIError, ValueError) as error:
        yield Check("server", "problem", f"{asked.base_url}/models: {error}", start)
        return
    if asked.model in models:
        yield Check("server", "ok", f"{asked.base_url} serves {asked.model}")
    else:
        found = f"{asked.base_url} serves {', '.join(models) or 'no model'}, not {asked.model}"
        yield Check("server", "problem", found, "serve that model, or name one of these in agent.parameters.model")


def _guarded(name: str, check: Callable[[], Iterator[Check]]) -> list[Check]:
    """The findings of a check; whatever it raises is a finding too, since the next ones must still be made."""
    found = []
    try:
        found.extend(check())
    except Exception as error:
        found.append(Check(name, "problem", f"{type(error).__name__}: {error}", "make setup; if it stays, report it"))
    return found


def _existing(folder: Path) -> Path:
    while not folder.exists():
        folder = folder.parent
    return folder
