"""Digest of the project code a command runs: changes when behaviour can, not when a comment does.

Snakemake sees only a rule's shell line, so an edit of the module behind `cir …` would leave stale results unnoticed.
Each rule therefore has this digest among its params.
"""

import ast
import hashlib
from collections.abc import Iterable
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = "pipeline"
DATA_SUFFIXES = {".sql", ".txt", ".html", ".css", ".js", ".json", ".yaml"}


@cache
def code_digest(command: str, apart: tuple[str, ...] = ()) -> str:
    """sha256 over a command's function, every project module it imports, directly or not, and the data files beside them.

    `command` is `module:function` (`pipeline.forks.command:fork`): of that module only the function and what it uses
    there counts, so commands that share a file don't share a digest. Modules named in `apart`, those of packages named
    there, and what only they import do not count: for code that is identified in another way, or can't matter.
    Comments, docstrings and formatting do not count. Raises FileNotFoundError for a module that isn't there, KeyError
    for a function.
    """
    module, function = command.split(":")
    own = _own_code(_tree(_path(module)), function)
    return _digest_of(command, ast.dump(own), _closure(_imports_of(own), apart))


@cache
def definition_digest(definition: str) -> str:
    """sha256 over one class or function and what it names: definitions, constants and imports of its module, no others.

    `definition` is `module:name`. Unlike `code_digest`, which takes all plain statements of a module, this leaves out
    constants and imports that the definition doesn't name: an entry added to a registry beside it changes nothing.
    Raises as `code_digest` does.
    """
    module, name = definition.split(":")
    own = _named_code(_tree(_path(module)), name)
    return _digest_of(definition, ast.dump(own), _closure(_imports_of(own), ()))


def _digest_of(what: str, own: str, modules: Iterable[str]) -> str:
    hasher = hashlib.sha256(f"{what}\0{own}\0".encode())
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


def _named_code(tree: ast.Module, name: str) -> ast.Module:
    """The definition and the statements that bind what it names, directly or not; of an import only the names used."""
    binding: dict[str, ast.stmt] = {}
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            binding[node.name] = node
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            binding |= {one.id: node for target in targets for one in ast.walk(target) if isinstance(one, ast.Name)}
        elif isinstance(node, ast.Import):
            binding |= {alias.asname or alias.name.split(".")[0]: ast.Import([alias]) for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            one_each = (ast.ImportFrom(node.module, [alias], node.level) for alias in node.names)
            binding |= {one.names[0].asname or one.names[0].name: one for one in one_each}
    wanted, waiting = {name}, [name]
    while waiting:
        used = {node.id for node in ast.walk(binding[waiting.pop()]) if isinstance(node, ast.Name)}
        new = (used & set(binding)) - wanted
        wanted |= new
        waiting.extend(new)
    return ast.Module(body=[binding[one] for one in sorted(wanted)], type_ignores=[])


def _closure(modules: Iterable[str], apart: tuple[str, ...]) -> set[str]:
    seen: set[str] = set()
    waiting = list(modules)
    while waiting:
        name = waiting.pop()
        if name not in seen and not any(name == one or name.startswith(f"{one}.") for one in apart):
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
    return _parsed(path.read_text("utf-8"))


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
    return ast.dump(_parsed(source))


@cache
def _meaning(path: Path) -> str:
    return ast.dump(_tree(path))


def _parsed(source: str) -> ast.Module:
    """The source's tree without docstrings."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and (
            node.body
            and isinstance(node.body[0], ast.Expr)
            and isinstance(node.body[0].value, ast.Constant)
            and isinstance(node.body[0].value.value, str)
        ):
            node.body = node.body[1:]
    return tree
