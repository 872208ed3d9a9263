"""A game translated once, so that jobs can play it without TextWorld: the planner's text, facts, names, compiled texts.

`translate` takes about half a second and imports TextWorld, ALFWorld and the planner's translator; a stored translation
loads in a few milliseconds and needs none of them. The bytes are the same on every run and under every PYTHONHASHSEED.
"""

import hashlib
import json
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from pipeline.environment.facts import Fact, Facts, fact, negated, variable
from pipeline.environment.grammar import Grammar, Scene, compiled
from pipeline.environment.safety import check_game, read_game, split_task
from pipeline.errors import BadInput

MAGIC = b"cir-translation/1\n"
PACKAGES = ("alfworld", "fast-downward-textworld", "textworld")
VERBS = {"move": "move {o} to {r}", "put": "put {o} in/on {r}"}
NAME_LIMIT = 1024  # the planner's library copies the names of atoms and operators into fields of this size
_PARTS, _LENGTH_DIGITS = 4, 10


@dataclass(frozen=True)
class Translation:
    """Everything that playing a game needs.

    game_sha256: of the game file; verb: `move` or `put`; task: the sentence, without lead; libraries: package ->
    version; names: entity id -> display name; types: object -> type; facts: those of the start, sorted; dynamic:
    predicates that actions change; grammar: canonical JSON (grammar.py); commands: the command of every ground action,
    by the planner's operator id; sas: the planner's input.
    """

    game_sha256: str
    verb: str
    task: str
    libraries: Mapping[str, str]
    names: Mapping[str, str]
    types: Mapping[str, str]
    facts: tuple[Fact, ...]
    dynamic: tuple[str, ...]
    grammar: str
    commands: tuple[str, ...]
    sas: bytes

    def to_bytes(self) -> bytes:
        """Versioned, compressed, deterministic (20–70 KB)."""
        head = {
            "game_sha256": self.game_sha256,
            "verb": self.verb,
            "task": self.task,
            "libraries": dict(self.libraries),
            "names": dict(self.names),
            "types": dict(self.types),
            "facts": [[predicate, *arguments] for (predicate, _), arguments in self.facts],
            "dynamic": list(self.dynamic),
        }
        parts = [_canonical(head).encode(), self.grammar.encode(), "\n".join(self.commands).encode(), self.sas]
        lengths = b"".join(b"%0*d" % (_LENGTH_DIGITS, len(part)) for part in parts)
        return MAGIC + zlib.compress(lengths + b"".join(parts), 9)

    @classmethod
    def from_bytes(cls, data: bytes) -> "Translation":
        """Read `to_bytes`. Raises BadInput for other or damaged bytes."""
        _of_this_version(data)
        try:
            body = memoryview(zlib.decompress(data[len(MAGIC) :]))
            parts, start = [], _PARTS * _LENGTH_DIGITS
            for i in range(_PARTS):
                length = int(bytes(body[i * _LENGTH_DIGITS : (i + 1) * _LENGTH_DIGITS]))
                parts.append(bytes(body[start : start + length]))
                start += length
            head = json.loads(parts[0])
            facts = tuple(fact(predicate, arguments) for predicate, *arguments in head.pop("facts"))
            dynamic = tuple(head.pop("dynamic"))
            grammar, commands = parts[1].decode(), tuple(parts[2].decode().split("\n"))
            return cls(**head, facts=facts, dynamic=dynamic, grammar=grammar, commands=commands, sas=parts[3])
        except (ValueError, TypeError, KeyError, zlib.error) as error:
            raise BadInput(f"a translation is damaged ({error}): translate the games again") from error

    @staticmethod
    def origin(data: bytes) -> dict[str, Any]:
        """What `to_bytes` was made from: the game's sha256 and the libraries' versions. Reads the head only (0.4 ms).

        Raises BadInput for other bytes and for a damaged head.
        """
        _of_this_version(data)
        try:
            stream, packed = zlib.decompressobj(), data[len(MAGIC) :]
            lengths = stream.decompress(packed, _PARTS * _LENGTH_DIGITS)
            head = json.loads(stream.decompress(stream.unconsumed_tail, int(lengths[:_LENGTH_DIGITS])))
            return {"sha256": head["game_sha256"], "libraries": head["libraries"]}
        except (ValueError, TypeError, KeyError, zlib.error) as error:
            raise BadInput(f"a translation is damaged ({error}): translate the games again") from error


def _of_this_version(data: bytes) -> None:
    if not data.startswith(MAGIC):
        raise BadInput(f"no translation of this version (expected {MAGIC[:-1].decode()}): translate the games again")


def translate(game: str | Path | bytes, name: str | None = None) -> Translation:
    """Check a game and translate it. `game`: a path or the file's bytes (`name`: how errors call them).

    Not thread-safe: the planner's translator keeps its options in globals. Use processes. Raises BadInput that names
    the file where it is hostile, damaged, or not a game of ALFWorld's kind.
    """
    label = name or ("game" if isinstance(game, bytes) else str(game))
    # Read once, so that what is checked is what is translated.
    data = game if isinstance(game, bytes) else read_game(Path(game))
    checked = check_game(data, label)
    try:
        return _translate(checked, hashlib.sha256(data).hexdigest())
    except BadInput as error:
        raise BadInput(f"{label}: {error}") from None


def _translate(game: Mapping[str, Any], digest: str) -> Translation:
    from pipeline.environment import grammar_source as source

    blanked, sentence = split_task(game["grammar"])
    template = source.put_template(blanked)
    verb = next((verb for verb, form in VERBS.items() if form == template), None)
    if verb is None:
        raise BadInput(f"PutObject's command is {template[:80]!r}; expected one of {sorted(VERBS.values())}")
    task, sas = _to_sas(game["pddl_domain"], game["pddl_problem"])
    types = {one.name: one.type_name for one in task.objects}
    facts = _initial_facts(task, sas, types)
    possible = {signature for signature, _ in facts} | _atom_signatures(sas, types)
    dynamic = sorted({effect.literal.predicate for action in task.actions for effect in action.effects})
    actions = {one.name: [(p.name.strip("?"), p.type_name) for p in one.parameters] for one in task.actions}
    plain = source.plain_grammar(blanked, actions, _type_hierarchy(task.types), possible)
    if source.commands_vary(plain, dynamic):
        raise BadInput("a command of the grammar changes its wording during play; expected fixed ones as in ALFWorld's")
    grammar, names = _canonical(plain), _display_names(facts)
    return Translation(
        game_sha256=digest,
        verb=verb,
        task=sentence,
        libraries=_versions(),
        names=names,
        types=dict(sorted(types.items())),
        facts=tuple(sorted(facts)),
        dynamic=tuple(dynamic),
        grammar=grammar,
        commands=_commands(sas, compiled(grammar), Scene(Facts(facts, dynamic), names, sentence)),
        sas=sas.encode(),
    )


def _to_sas(domain: str, problem: str) -> tuple[Any, str]:
    import sys

    import fast_downward

    arguments = sys.argv
    try:
        task, sas = fast_downward.pddl2sas(domain, problem)
    except (Exception, SystemExit) as error:  # the translator exits the process on bad PDDL
        reason = (str(error).splitlines() or [""])[0][:120]
        raise BadInput(
            f"the PDDL domain and problem can't be translated ({type(error).__name__}: {reason}); "
            "expected a problem of ALFWorld's domain: download or generate the game again"
        ) from error
    finally:
        sys.argv = arguments  # pddl2sas replaces it
    if "<none of those>" in sas:
        raise BadInput("the planner merged facts into a variable of several values; expected ALFWorld's domain")
    if "\nAtom dummy(val1)\n" in sas:  # the translator's stand-in where it finds nothing to plan
        raise BadInput(
            "the goal can't be reached, or always holds, from this start: the game can't be played; leave it out"
        )
    if max(map(len, sas.split("\n"))) >= NAME_LIMIT:
        raise BadInput(f"the PDDL domain makes names of {NAME_LIMIT} characters or more; expected ALFWorld's domain")
    return task, sas


def _commands(sas: str, grammar: Grammar, scene: Scene) -> tuple[str, ...]:
    """The command of every operator; the planner numbers operators as they stand in its input."""
    lines = sas.split("\n")
    operators = [lines[i + 1] for i, line in enumerate(lines) if line == "begin_operator"]
    return tuple(grammar.command(*grammar.ground(operator), scene) for operator in operators)


def _initial_facts(task: Any, sas: str, types: Mapping[str, str]) -> set[Fact]:
    """Facts of the start as TextWorld's PddlState has them: the problem's own, and the planner's positive atoms."""
    from fast_downward.translate import pddl

    from pipeline.environment.library import acquire, release

    facts: set[Fact] = set()
    for atom in task.init:
        if isinstance(atom, pddl.conditions.Atom) and atom.predicate != "=":
            facts.add(fact(atom.predicate, [variable(name, types[name]) for name in atom.args]))
        elif isinstance(atom, pddl.f_expression.Assign) and atom.fluent.symbol != "total-cost":
            value = str(atom.expression.value)
            # TextWorld names such a fact after the value, and leaves out whole numbers (distances).
            if not value.isdigit():
                facts.add(fact(value, [variable(name, types[name]) for name in atom.fluent.args]))
    library = acquire()
    try:
        library.load(sas.encode())
        atoms = library.state()
    finally:
        release(library)
    facts.update(one for one in (parse_atom(atom, types) for atom in atoms) if not one[0][0].startswith("not_"))
    return facts


def parse_atom(text: str, types: Mapping[str, str]) -> Fact:
    """A fact from the planner's print, `Atom p(a, b)` or `NegatedAtom p(a, b)`, as TextWorld reads it."""
    kind, _, rest = text.partition(" ")
    predicate, _, inner = rest.partition("(")
    names = [name for name in inner[:-1].split(", ") if name]
    # TextWorld turns entities called i and p into capitals.
    arguments = [variable(name.upper() if name.lower() in ("i", "p") else name, types[name]) for name in names]
    return fact("not_" + predicate if kind == "NegatedAtom" else predicate, arguments)


def _atom_signatures(sas: str, types: Mapping[str, str]) -> set:
    found = set()
    for line in sas.splitlines():
        if line.startswith(("Atom ", "NegatedAtom ")):
            (predicate, kinds), _ = parse_atom(line, types)
            found |= {(predicate, kinds), (negated(predicate), kinds)}
    return found


def _type_hierarchy(types: Any) -> Any:
    from textworld.logic import Type, TypeHierarchy

    hierarchy = TypeHierarchy()
    for one in types:
        # ALFWorld's domain declares `object`, which exists already; TextWorld keeps the first, and so do we.
        if one.name not in {known.name for known in hierarchy}:
            hierarchy.add(Type(one.name, one.supertype_names))
    return hierarchy


def _display_names(facts: set[Fact]) -> dict[str, str]:
    """Entity id -> display name, by ALFWorld's own Demangler over every entity that a fact mentions."""
    from alfworld.agents.utils.misc import Demangler
    from textworld.generator.game import EntityInfo

    ids = sorted({var.partition("\0")[0] for _, arguments in facts for var in arguments})
    demangler = Demangler(game_infos={id_: EntityInfo(id_, "") for id_ in ids}, shuffle=False)
    return {id_: demangler.demangle_alfred_name(id_) for id_ in ids}


@lru_cache(maxsize=1)
def _versions() -> dict[str, str]:
    from importlib.metadata import version

    return {name: version(name) for name in PACKAGES}


def _canonical(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
