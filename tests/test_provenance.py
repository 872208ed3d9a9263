"""The code digest changes when behaviour can, and only then."""

import ast
import shutil

import pytest

from pipeline.provenance import code

A = '"""Doc."""\nimport pipeline.b\n\ndef go():\n    """Doc."""\n    return helper()\n\n\ndef helper():\n    return 1\n\n\ndef other():\n    from pipeline.c import thing\n    return thing\n'
B = "X = 1\n"
C = "thing = 2\n"


@pytest.fixture
def project(tmp_path, monkeypatch):
    package = tmp_path / "pipeline"
    package.mkdir()
    for name, text in {"__init__": "", "a": A, "b": B, "c": C}.items():
        (package / f"{name}.py").write_text(text)
    (package / "rules.txt").write_text("be good")
    monkeypatch.setattr(code, "ROOT", tmp_path)
    yield package
    _forget()


def _forget():
    for cached in (code.code_digest, code.definition_digest, code._tree, code._imports, code._meaning):
        cached.cache_clear()


def digest(command, apart=()):
    _forget()
    return code.code_digest(command, apart)


@pytest.mark.parametrize(
    ("file", "old", "new", "go", "other"),
    [
        ("a.py", '"""Doc."""', '"""Another doc."""', False, False),
        ("a.py", "return 1", "return (  1  )  # a comment", False, False),
        ("a.py", "return 1", "return 2", True, False),
        ("a.py", "return thing", "return thing + 1", False, True),
        ("b.py", "X = 1", "X = 2", True, True),  # imported by the module itself
        ("c.py", "2", "3", False, True),  # imported by one function only
        ("rules.txt", "good", "bad", True, True),
    ],
)
def test_what_changes_which_digest(project, file, old, new, go, other):
    before = digest("pipeline.a:go"), digest("pipeline.a:other")
    path = project / file
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new))
    after = digest("pipeline.a:go"), digest("pipeline.a:other")
    assert (before[0] != after[0], before[1] != after[1]) == (go, other)


def test_new_imports_are_followed(project):
    before = digest("pipeline.a:go")
    (project / "b.py").write_text("X = 1\nfrom pipeline import c\n")
    with_c = digest("pipeline.a:go")
    (project / "c.py").write_text("thing = 5\n")
    assert len({before, with_c, digest("pipeline.a:go")}) == 3


@pytest.mark.parametrize(("apart", "counts"), [((), True), (("pipeline.c",), False), (("pipeline.cc",), True)])
def test_a_module_set_apart_does_not_count(project, apart, counts):
    before = digest("pipeline.a:other", apart)
    (project / "c.py").write_text("thing = 3\n")
    assert (digest("pipeline.a:other", apart) != before) == counts


def test_a_package_set_apart_takes_its_modules_and_what_only_they_import_with_it(project):
    (project / "many").mkdir()
    (project / "many" / "__init__.py").write_text("")
    (project / "many" / "one.py").write_text("import pipeline.c\n")
    (project / "b.py").write_text("import pipeline.many.one\n")
    before, whole = digest("pipeline.a:go", ("pipeline.many",)), digest("pipeline.a:go")
    (project / "c.py").write_text("thing = 3\n")
    assert digest("pipeline.a:go", ("pipeline.many",)) == before
    assert digest("pipeline.a:go") != whole


D = """import re
from pipeline.b import X, Y
from pipeline.c import thing

LIMIT = 3
REGISTRY = {"one": lambda: One()}

class One:
    \"\"\"Doc.\"\"\"
    def go(self):
        return helper(X)

class Two:
    def go(self):
        return thing, re

def helper(value):
    return min(value, LIMIT)
"""


@pytest.mark.parametrize(
    ("old", "new", "one", "two"),
    [
        ('"one": lambda: One()', '"one": lambda: One(), "two": lambda: Two()', False, False),
        ("X, Y", "X, Z", False, False),
        ("Doc.", "Another doc.", False, False),
        ("LIMIT = 3", "LIMIT = 4", True, False),
        ("min(", "max(", True, False),
        ("helper(X)", "helper(2 * X)", True, False),
        ("return thing, re", "return re, thing", False, True),
        ("import re", "import os as re", False, True),
    ],
)
def test_a_definition_is_what_it_names(project, old, new, one, two):
    def both():
        _forget()
        return code.definition_digest("pipeline.d:One"), code.definition_digest("pipeline.d:Two")

    (project / "d.py").write_text(D)
    before = both()
    assert old in D
    (project / "d.py").write_text(D.replace(old, new))
    after = both()
    assert (before[0] != after[0], before[1] != after[1]) == (one, two)


def test_a_definition_counts_the_modules_it_imports(project):
    (project / "d.py").write_text(D)
    _forget()
    before = code.definition_digest("pipeline.d:One"), code.definition_digest("pipeline.d:Two")
    (project / "c.py").write_text("thing = 3\n")
    _forget()
    assert code.definition_digest("pipeline.d:One") == before[0]
    assert code.definition_digest("pipeline.d:Two") != before[1]


@pytest.mark.parametrize(
    ("file", "old", "new", "changed"),
    [
        ("runtime/progress.py", "QUIET_SECONDS = 2.0", "QUIET_SECONDS = 3.0", ""),
        ("runtime/workers.py", "IN_FLIGHT = 2", "IN_FLIGHT = 3", ""),
        ("store/episodes.py", "YOUNG_SECONDS = 3600.0", "YOUNG_SECONDS = 60.0", ""),
        ("harness/play.py", "again.append(unit)", "again.insert(0, unit)", ""),
        ("forks/command.py", "def fork(", "def fork2(", ""),
        ("forks/branches.py", "carried: bool", "kept: bool", ""),
        ("agents/scripted/policy.py", "def ", "def x", ""),
        ("agents/openai.py", "choices[0]", "choices[-1]", ""),
        ("agents/registry.py", "AGENTS: dict", "KINDS: dict", ""),
        ("config/models.py", '"OK."', '"Okay."', ""),
        ("harness/operators.py", "applies=False),", 'applies=False),\n    "wait": lambda texts: Operator("wait"),', ""),
        ("harness/conditions.py", 'r"missing": lambda', 'r"absent|missing": lambda', ""),
        ("harness/conditions.py", "return texts[-1 - self.lag]", "return texts[-self.lag]", "stale"),
        ("harness/conditions.py", "return self.text", "return self.text.upper()", "missing"),
        ("harness/session.py", "self.turns += 1", "self.turns += 2", "player"),
        ("harness/parse.py", "def parse_turn", "X = 1\n\ndef parse_turn", "player"),
        ("harness/rules.txt", "the", "a", "player"),
        ("harness/player.py", "self.agent", "self.the_agent", "player"),
        ("environment/alfworld.py", "return", "return not", "player"),
        ("environment/grammar_source.py", "return", "return not", "player"),
        ("records/episodes.py", "slots=True", "slots=False", "player"),
    ],
    ids=lambda value: value if isinstance(value, str) and value.endswith((".py", ".txt")) else "",
)
def test_an_episodes_code_is_what_plays_it(tmp_path, monkeypatch, file, old, new, changed):
    """On a copy of the project: an edit shows in the keys of those episodes that it can change, and in no others."""
    from pipeline.harness import keys

    def digests():
        _forget()
        return {
            "player": code.code_digest("pipeline.harness.player:Player", keys.APART),
            "stale": code.definition_digest("pipeline.harness.conditions:Stale"),
            "missing": code.definition_digest("pipeline.harness.conditions:Missing"),
        }

    shutil.copytree(code.ROOT / "pipeline", tmp_path / "pipeline", ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(code, "ROOT", tmp_path)
    before = digests()
    path = tmp_path / "pipeline" / file
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new, 1))
    after = digests()
    _forget()
    assert {name for name in before if before[name] != after[name]} == ({changed} if changed else set())


@pytest.mark.parametrize(("file", "kind"), [("openai.py", "openai"), ("scripted/policy.py", "scripted")])
def test_a_job_sees_the_code_of_its_own_kind_of_agent(tmp_path, monkeypatch, file, kind):
    from pipeline.agents.registry import AGENTS, packages_but

    def digests():
        _forget()
        return {name: code.code_digest("pipeline.forks.command:fork", packages_but(name)) for name in AGENTS}

    shutil.copytree(code.ROOT / "pipeline", tmp_path / "pipeline", ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(code, "ROOT", tmp_path)
    before = digests()
    path = tmp_path / "pipeline" / "agents" / file
    path.write_text(path.read_text() + "\nADDED = 1\n")
    after = digests()
    _forget()
    assert [name for name in before if before[name] != after[name]] == [kind]


def test_place_does_not_matter(project, tmp_path, monkeypatch):
    before = digest("pipeline.a:go")
    shutil.copytree(tmp_path / "pipeline", tmp_path / "elsewhere" / "pipeline")
    monkeypatch.setattr(code, "ROOT", tmp_path / "elsewhere")
    assert digest("pipeline.a:go") == before


def test_a_missing_module_or_function_is_an_error(project):
    with pytest.raises(FileNotFoundError, match=r"pipeline\.z"):
        digest("pipeline.z:go")
    with pytest.raises(KeyError):
        digest("pipeline.a:nowhere")


def test_every_command_of_the_project_has_a_digest_that_sees_its_stage():
    from pipeline.cli import COMMANDS

    digests = set()
    for _, _, where, _ in COMMANDS:
        module, function = where.split(":")
        tree = ast.parse(code._path(module).read_text())
        assert function in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
        digests.add(code.code_digest(where))
    assert len(digests) == len(COMMANDS)
