"""The documents keep their word: links lead somewhere, messages exist in the code, the workflow's other door opens."""

import re
import subprocess
from pathlib import Path
from xml.etree import ElementTree

import pytest
import study
import yaml

ROOT = Path(__file__).resolve().parents[1]
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), ROOT / "config/README.md"]
SNAKEMAKES_OWN = ("LockException",)


def anchors(path):
    """GitHub's anchors of a document's headings."""
    heads = re.findall(r"^#+ (.*)$", path.read_text(), re.M)
    return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_links_lead_somewhere(path):
    text = re.sub(r"^```.*?^```", "", path.read_text(), flags=re.M | re.S)
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if target.startswith(("http://", "https://")):
            continue
        file, _, anchor = target.partition("#")
        place = (path.parent / file).resolve() if file else path
        assert place.exists(), f"{path.name}: {target}"
        if anchor and place.suffix == ".md":
            assert anchor in anchors(place), f"{path.name}: {target}"


def test_the_index_names_every_document():
    index = (ROOT / "docs/README.md").read_text()
    missing = [
        path.name for path in (ROOT / "docs").glob("*.md") if path.name != "README.md" and f"({path.name})" not in index
    ]
    assert missing == []


def test_the_readme_answers_a_newcomer():
    text = (ROOT / "README.md").read_text()
    for heading in (
        "## Two commands",
        "### How to read the four cells",
        "## What it is not",
        "## Citation and licences",
    ):
        assert heading in text
    assert re.search(r"!\[.+\]\(docs/figures/four-cells.svg\)", text)
    assert "config/paper.yaml" in text
    assert re.search(r"fast-downward-textworld.*GPL", text, re.S)
    assert "CITATION.cff" in text


def code():
    """All text of the sources with strings that go over lines joined, and what is filled in made a gap."""
    text = "\n".join(
        path.read_text() for pattern in ("pipeline/**/*.py", "rules/*.smk") for path in sorted(ROOT.glob(pattern))
    )
    # "a " "b" and "a " f"b" over a line's end are one message.
    text = re.sub(r"\"\s*\n\s*f?\"", "", text)
    return re.sub(r"\{[^{}]*\}", "…", text)


def quoted():
    """(message, its fixed pieces) of each row of the troubleshooting table: the placeholders (…, N, X) are left out."""
    for line in (ROOT / "docs/troubleshooting.md").read_text().splitlines():
        if line.startswith("| `"):
            message = re.match(r"\| `(.+?)`", line)[1]
            pieces = [piece.strip() for piece in re.split(r"…|<[^>]+>", message)]
            yield message, [piece for piece in pieces if len(piece) > 3]


@pytest.mark.parametrize(("message", "pieces"), list(quoted()), ids=[message[:40] for message, _ in quoted()])
def test_a_message_that_is_quoted_exists(message, pieces):
    if message.startswith(SNAKEMAKES_OWN):
        pytest.skip("Snakemake's own word")
    assert pieces, message
    source = code()
    for piece in pieces:
        assert piece in source, f"{piece!r} is in no source file; the message has changed"


def test_the_drawing_is_described_and_has_both_schemes():
    path = ROOT / "docs/figures/trunk-and-forks.svg"
    root = ElementTree.parse(path).getroot()
    names = {element.tag.split("}")[1]: element.text for element in root}
    assert names["title"]
    assert "Y0" in names["desc"]
    assert "prefers-color-scheme: dark" in path.read_text()
    assert "http" not in path.read_text().replace("http://www.w3.org/2000/svg", "")


def test_the_catalogs_file_is_as_the_catalog_reads_it():
    usage = yaml.safe_load((ROOT / ".snakemake-workflow-catalog.yml").read_text())["usage"]
    assert set(usage) == {"mandatory-flags", "software-stack-deployment", "report"}
    config = ROOT / usage["mandatory-flags"]["flags"].split()[1]
    assert config.is_file()
    assert (ROOT / "workflow/Snakefile").is_file()
    assert (ROOT / "config/README.md").is_file()


def dry_run(folder, *arguments):
    command = ["snakemake", "--cores", "1", "--dry-run", "--quiet", "host", *arguments]
    done = subprocess.run(command, cwd=folder, env=study.environment(), capture_output=True, text=True, check=False)
    text = done.stdout + done.stderr
    assert done.returncode == 0, text
    counts = re.findall(r"^(\w+)\s+(\d+)$", text, re.M)
    return {rule: int(count) for rule, count in counts if rule not in ("total", "job", "count", "all", "complete")}


@pytest.mark.slow
def test_the_catalogs_door_plans_the_same_jobs(tmp_path):
    """From the root, through workflow/Snakefile, and as a module of another project, as the catalog deploys it."""
    clone, other = tmp_path / "clone", tmp_path / "other"
    clone.mkdir()
    study.checkout(clone)
    (other / "workflow").mkdir(parents=True)
    (other / "config").mkdir()
    (other / "config/config.yaml").write_text((clone / "config/test.yaml").read_text())
    (other / "workflow/Snakefile").write_text(
        'configfile: "config/config.yaml"\n\n\n'
        f'module cir:\n    snakefile: "{clone}/workflow/Snakefile"\n    config: config\n\n\nuse rule * from cir\n'
    )
    root = dry_run(clone, "--configfile", "config/test.yaml")
    assert root["fork"] == 128
    assert dry_run(clone, "-s", "workflow/Snakefile", "--configfile", "config/test.yaml") == root
    assert dry_run(other) == root


@pytest.mark.slow
def test_a_key_that_stands_twice_ends_snakemake_too(tmp_path):
    study.checkout(tmp_path)
    path = tmp_path / "config/demo.yaml"
    path.write_text(path.read_text() + "study: again\n")
    command = ["snakemake", "--cores", "1", "--dry-run", "--configfile", "config/demo.yaml"]
    done = subprocess.run(command, cwd=tmp_path, env=study.environment(), capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "the key study stands there twice (first in line 2)" in done.stdout + done.stderr
    assert "Traceback" not in done.stdout + done.stderr
