"""ALFWorld's text grammar, compiled to closures: what TextWorld's ContextSensitiveGrammar does, without parsing or eval.

A grammar is plain JSON (made by `grammar_source.py` with TextWorld's own parsers):

    rules    name -> [{"condition": query | null, "rhs": [symbol, ...]}]; the first rule whose condition holds is taken
    symbol   ["text", s] | ["rule", name] | ["show", kind, variable] | ["task"]
             | ["each", symbol, query | null] | ["list", symbol, query | null]
    query    [[placeholder, ...], [signature, ...]] per predicate: every signature that subtypes allow, in TextWorld's order

A placeholder or variable is "name\\0type" (facts.py). Texts depend on facts, so nothing here is kept by state.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, lru_cache
from typing import Any

from pipeline.environment.expressions import SHOW
from pipeline.environment.facts import Facts, Variable, name_of, variable
from pipeline.errors import BadInput

Bindings = dict[str, Variable]  # placeholder -> variable
EXPANSIONS = 5_000  # rules taken for one text; ALFWorld's longest takes about 200


class Scene:
    """What a text is derived from: the facts, the display names by id, the task sentence."""

    __slots__ = ("expansions", "facts", "names", "task")

    def __init__(self, facts: Facts, names: Mapping[str, str], task: str):
        self.facts = facts
        self.names = names
        self.task = task
        self.expansions = 0


# (scene, bindings, variables by bare name, pieces of text so far)
Emit = Callable[[Scene, Bindings, dict[str, Variable], list[str]], None]


class Query:
    """A conjunctive query over facts; distinct placeholders stand for distinct variables, as in TextWorld."""

    def __init__(self, predicates: Sequence[Any]):
        self._predicates = [
            (tuple(placeholders), [(name, tuple(types)) for name, types in signatures])
            for placeholders, signatures in predicates
        ]
        # How to match depends only on what is bound before; there are few such contexts in a grammar.
        self._plan = cache(self._make_plan)

    def solutions(self, facts: Facts, bindings: Bindings) -> Iterator[Bindings]:
        """Every extension of the bindings that makes all predicates facts, in TextWorld's order."""
        return _solve(self._plan(tuple(bindings)), 0, facts, bindings, frozenset(bindings.values()))

    def holds(self, facts: Facts, bindings: Bindings) -> bool:
        """Whether there is a solution."""
        return next(self.solutions(facts, bindings), None) is not None

    def _make_plan(self, bound: tuple[str, ...]) -> list[tuple]:
        seen = set(bound)
        plan = []
        for placeholders, signatures in self._predicates:
            known = [(i, ph) for i, ph in enumerate(placeholders) if ph in seen]
            first = {ph: i for i, ph in reversed(list(enumerate(placeholders))) if ph not in seen}
            fresh = sorted((i, ph) for ph, i in first.items())
            again = [(i, first[ph]) for i, ph in enumerate(placeholders) if ph in first and first[ph] != i]
            seen.update(placeholders)
            plan.append((signatures, known, fresh, again))
        return plan


def _solve(plan: list[tuple], depth: int, facts: Facts, bindings: Bindings, used: frozenset[str]) -> Iterator[Bindings]:
    if depth == len(plan):
        yield bindings
        return
    signatures, known, fresh, again = plan[depth]
    wanted = [(i, bindings[ph]) for i, ph in known]
    for signature in signatures:
        for arguments in facts.ordered(signature):
            for i, var in wanted:
                if arguments[i] != var:
                    break
            else:
                new = {ph: arguments[i] for i, ph in fresh}
                values = new.values()
                if not used.isdisjoint(values) or len(set(values)) < len(new):
                    continue
                if again and any(arguments[i] != arguments[j] for i, j in again):
                    continue
                yield from _solve(plan, depth + 1, facts, bindings | new, used.union(values))


class Grammar:
    """Compiled rules and action texts; one object serves every game of the same grammar."""

    def __init__(self, plain: Mapping[str, Any]):
        """Compile the JSON described at the top of this module; `actions` and `intro` are texts in it as well."""
        self._rules: dict[str, list[tuple[Query | None, list[Emit]]]] = {}
        for name, rules in plain["rules"].items():
            self._rules[name] = [(_query(rule["condition"]), self._compile(rule["rhs"])) for rule in rules]
        self._parameters = {name: [tuple(pair) for pair in one["parameters"]] for name, one in plain["actions"].items()}
        self._templates = {name: self._compile(one["template"]) for name, one in plain["actions"].items()}
        self._feedback = {name: self._compile(one["feedback"]) for name, one in plain["actions"].items()}
        self._intro = self._compile(plain["intro"])

    def intro(self, scene: Scene) -> str:
        """Text of the reset."""
        return _derive(self._intro, scene, {})

    def ground(self, operator: str) -> tuple[str, Bindings]:
        """Action and bindings of a planner's operator, `action argument ...`."""
        action, *arguments = operator.split()
        parameters = self._parameters[action]
        # Some variants of an action have fewer arguments than its last one; TextWorld drops the rest, and so do we.
        pairs = zip(parameters, arguments, strict=False)
        return action, {variable(name, type_): variable(argument, type_) for (name, type_), argument in pairs}

    def command(self, action: str, bindings: Bindings, scene: Scene) -> str:
        """The command that takes an action."""
        return _derive(self._templates[action], scene, bindings)

    def feedback(self, action: str, bindings: Bindings, scene: Scene) -> str:
        """The text that answers an action, from the facts after it."""
        return _derive(self._feedback[action], scene, bindings)

    def _compile(self, symbols: Sequence[Any]) -> list[Emit]:
        return [self._symbol(symbol) for symbol in symbols]

    def _symbol(self, symbol: Sequence[Any]) -> Emit:
        kind = symbol[0]
        if kind == "text":
            return _text(symbol[1])
        if kind == "rule":
            return self._rule(symbol[1])
        if kind == "show":
            return _show(symbol[1], symbol[2])
        if kind == "task":
            return lambda scene, bindings, bound, out: out.append(scene.task)
        if kind == "each":
            return _each(self._symbol(symbol[1]), _query(symbol[2]))
        if kind == "list":
            separators = [self._rule(name) for name in ("list_empty", "list_separator", "list_last_separator")]
            return _list(self._symbol(symbol[1]), _query(symbol[2]), *separators)
        raise BadInput(f"a translation holds the unknown grammar symbol {kind!r}: translate the game again")

    def _rule(self, name: str) -> Emit:
        rules = self._rules

        def emit(scene: Scene, bindings: Bindings, bound: dict[str, Variable], out: list[str]) -> None:
            scene.expansions += 1
            if scene.expansions > EXPANSIONS:
                raise BadInput(f"the grammar's rule {name!r} does not come to an end: do not run this game")
            for condition, symbols in rules.get(name, ()):
                if condition is None or condition.holds(scene.facts, bindings):
                    for one in symbols:
                        one(scene, bindings, bound, out)
                    return
            raise BadInput(f"the grammar has no rule {name!r} that applies; expected one: check the game's grammar")

        return emit


@lru_cache(maxsize=64)
def compiled(text: str) -> Grammar:
    """The grammar of a canonical JSON text, compiled once per process."""
    return Grammar(json.loads(text))


def _derive(symbols: list[Emit], scene: Scene, bindings: Bindings) -> str:
    scene.expansions = 0
    bound = {placeholder.partition("\0")[0]: var for placeholder, var in bindings.items()}
    out: list[str] = []
    try:
        for emit in symbols:
            emit(scene, bindings, bound, out)
    except RecursionError as error:
        raise BadInput("the grammar's rules call each other without end: do not run this game") from error
    return "".join(out)


def _query(plain: Sequence[Any] | None) -> Query | None:
    return None if plain is None else Query(plain)


def _text(text: str) -> Emit:
    return lambda scene, bindings, bound, out: out.append(text)


def _show(kind: str, variable: str) -> Emit:
    show = SHOW[kind]

    def emit(scene: Scene, bindings: Bindings, bound: dict[str, Variable], out: list[str]) -> None:
        if variable not in bound:
            raise BadInput(f"the grammar shows {variable!r} where nothing is bound to it: check the game's grammar")
        id_ = name_of(bound[variable])
        if id_ not in scene.names:
            raise BadInput(
                f"the grammar shows {id_[:80]!r}, which no fact of the game mentions: check the PDDL problem"
            )
        out.append(show(id_, scene.names[id_]))

    return emit


def _scopes(query: Query | None, scene: Scene, bindings: Bindings, bound: dict) -> list[tuple[Bindings, dict]]:
    if query is None:
        return [(bindings, bound)]
    return [
        (found, bound | {placeholder.partition("\0")[0]: var for placeholder, var in found.items()})
        for found in query.solutions(scene.facts, bindings)
    ]


def _each(symbol: Emit, query: Query | None) -> Emit:
    def emit(scene: Scene, bindings: Bindings, bound: dict[str, Variable], out: list[str]) -> None:
        for inner, names in _scopes(query, scene, bindings, bound):
            symbol(scene, inner, names, out)

    return emit


def _list(symbol: Emit, query: Query | None, empty: Emit, separator: Emit, last: Emit) -> Emit:
    def emit(scene: Scene, bindings: Bindings, bound: dict[str, Variable], out: list[str]) -> None:
        scopes = _scopes(query, scene, bindings, bound)
        if not scopes:
            empty(scene, bindings, bound, out)
        for position, (inner, names) in enumerate(scopes):
            if position:
                between = last if position == len(scopes) - 1 else separator
                between(scene, bindings, bound, out)
            symbol(scene, inner, names, out)

    return emit
