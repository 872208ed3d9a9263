"""docs/extending.md is run, block by block, with the real engine, on a tiny finished study."""

import re
from pathlib import Path

import pytest
import study

import pipeline.agents
from pipeline.agents.registry import AGENTS
from pipeline.harness.conditions import CONDITIONS
from pipeline.harness.operators import OPERATORS

ROOT = Path(__file__).resolve().parents[1]
BLOCKS = re.findall(r"^```python\n(.*?)^```", (ROOT / "docs/extending.md").read_text(), re.M | re.S)


@pytest.fixture
def registries(tmp_path, monkeypatch):
    """The registries and the agents' package as they were, afterwards."""
    for registry in (OPERATORS, CONDITIONS, AGENTS):
        for name in ("inventory", "first-sentence", "wanderer"):
            assert name not in registry, "the document's example exists by now; it needs another"
            monkeypatch.setitem(registry, name, None)
            del registry[name]
    monkeypatch.setattr(pipeline.agents, "__path__", [*pipeline.agents.__path__, str(tmp_path)])


@pytest.mark.slow
def test_the_worked_examples_run(tmp_path, tmp_path_factory, registries, monkeypatch):
    monkeypatch.chdir(study.shared(tmp_path_factory))
    names: dict = {"__name__": "extending"}
    for number, block in enumerate(BLOCKS):
        if found := re.match(r"# pipeline/agents/(\w+)\.py\n", block):
            (tmp_path / f"{found[1]}.py").write_text(block)
            continue
        exec(compile(block, f"docs/extending.md, block {number}", "exec"), names)
    assert {"inventory"} <= set(OPERATORS)
    assert {"first-sentence"} <= set(CONDITIONS)
    assert names["episode"]["task"] == names["tasks"][0]
    assert names["branch"].exit == "success"


def test_each_of_the_four_has_an_example_with_an_assertion():
    sections = re.split(r"^## ", (ROOT / "docs/extending.md").read_text(), flags=re.M)
    for title in ("An operator", "A condition", "An agent", "An environment"):
        section = next(part for part in sections if part.startswith(title))
        assert "```python" in section
        assert "assert " in section


def test_the_places_named_exist():
    text = (ROOT / "docs/extending.md").read_text()
    paths = set(re.findall(r"`((?:pipeline|tests|docs)/[\w/.]+\.\w+)`", text))
    assert len(paths) > 5
    assert [path for path in paths if not (ROOT / path).is_file()] == []
