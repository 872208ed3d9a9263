"""Digest of the project code a command runs: changes when behaviour can, not when a comment does.

Snakemake sees only a rule's shell line, so an edit of the module behind `cir …` would leave stale results unnoticed.
Each rule therefore has this digest among its params.
"""

import ast
import copy
import hashlib
from collections.abc import Iterable
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = "pipeline"
DATA_SUFFIXES = {".sql", ".txt", ".html", ".css", ".js", ".json", ".yaml"}


@cache
def code_digest(command: str) -> str:
    """sha256 over a command's function, every project module it imports, directly or not, and the data files beside them.

    `command` is `module:function` (`pipeline.forks.command:fork`): of that module only the function and what it uses
    there counts, so commands that share a file don't share a digest. Comments, docstrings and formatting do not count.
    Raises FileNotFoundError for a module that isn't there, KeyError for a function.
    """
    module, function = command.split(":")
    own = _own_code(_tree(_path(module)), function)
    modules = _closure(_imports_of(own))
    hasher = hashlib.sha256(f"{command}\0{_dump(own)}\0".encode())
    for name in sorted(modules):
        hasher.update(f"{name}\0{_meaning(_path(name))}\0".encode())
    for folder in sorted({_path(name).parent for name in modules}):
        for data in sorted(item for item in folder.iterdir() if item.suffix in DATA_SUFFIXES):
            hasher.update(f"{data.relative_to(ROOT)}\0".encode() + data.read_bytes())
    return hasher.hexdigest()


def _own_code(tree: ast.Module, function: str) -> ast.Module:
    """The function, the module's other definitions it names, directly or not, and its plain statements."""
    definitions = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    wanted, waiting = set(), [function]
    while waiting:
        name = waiting.pop()
        if name not in wanted:
            wanted.add(name)
            names = {node.id for node in ast.walk(definitions[name]) if isinstance(node, ast.Name)}
            waiting.extend(names & set(definitions))
    plain = [node for node in tree.body if not isinstance(node, ast.FunctionDef | ast.ClassDef)]
    return ast.Module(body=plain + [definitions[name] for name in sorted(wanted)], type_ignores=[])


def _closure(modules: Iterable[str]) -> set[str]:
    seen: set[str] = set()
    waiting = list(modules)
    while waiting:
        name = waiting.pop()
        if name not in seen:
            seen.add(name)
            waiting.extend(_imports(_path(name)))
    return seen


def _path(name: str) -> Path:
    base = ROOT.joinpath(*name.split("."))
    for path in (base.with_suffix(".py"), base / "__init__.py"):
        if path.is_file():
            return path
    raise FileNotFoundError(f"no module {name} under {ROOT}")


def _exists(name: str) -> bool:
    base = ROOT.joinpath(*name.split("."))
    return base.with_suffix(".py").is_file() or (base / "__init__.py").is_file()


@cache
def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text("utf-8"))


@cache
def _imports(path: Path) -> frozenset[str]:
    return _imports_of(_tree(path))


def _imports_of(tree: ast.AST) -> frozenset[str]:
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module)
            # `from pipeline.records import tables` names a module too.
            found.update(f"{node.module}.{alias.name}" for alias in node.names)
    return frozenset(name for name in found if name.split(".")[0] == PACKAGE and _exists(name))


def meaning(source: str) -> str:
    """The source without comments, docstrings and formatting, as text that two equal programs share."""
    return _dump(ast.parse(source))


@cache
def _meaning(path: Path) -> str:
    return _dump(_tree(path))


def _dump(tree: ast.Module) -> str:
    tree = copy.deepcopy(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and (
            node.body
            and isinstance(node.body[0], ast.Expr)
            and isinstance(node.body[0].value, ast.Constant)
            and isinstance(node.body[0].value.value, str)
        ):
            node.body = node.body[1:]
    return ast.dump(tree)
