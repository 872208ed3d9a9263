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
    for cached in (code.code_digest, code._tree, code._imports, code._meaning):
        cached.cache_clear()


def digest(command):
    _forget()
    return code.code_digest(command)


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
