"""A game's grammar as plain data, read with TextWorld's own parsers (imported here only, and only while translating).

Only texts that passed `safety.check_game` come here; parsing evaluates nothing, and every expression becomes one of the
five forms of `expressions.py` or is refused.
"""

from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Any

from pipeline.environment.expressions import parse_expression
from pipeline.environment.facts import variable
from pipeline.environment.safety import TASK_LEAD, TASK_MARK
from pipeline.errors import BadInput

Types = Callable[[Iterable[str]], list[tuple[str, ...]]]


@lru_cache(maxsize=8)
def parse_grammar(blanked: str) -> Any:
    """TextWorld's GameLogic of a grammar whose task sentence is blanked (≈ 0.2 s, once per grammar and process)."""
    from textworld.envs.pddl.logic import GameLogic

    try:
        return GameLogic(domain="", grammar=blanked)
    except Exception as error:  # TatSu, JSON and attribute errors alike: the text is no grammar
        raise BadInput(f"the grammar can't be parsed ({type(error).__name__}: {str(error).splitlines()[0]})") from error


@lru_cache(maxsize=256)
def _parse_text(source: str) -> list[Any]:
    from textworld.envs.pddl import textgen

    return textgen._parse_and_convert(source, rule_name="symbols")


@lru_cache(maxsize=256)
def _parse_query(source: str) -> tuple[Any, ...]:
    from textworld.logic import Rule

    try:
        return tuple(Rule.parse_conjunctive_query(source).preconditions)
    except Exception as error:
        raise BadInput(
            f"the grammar's condition {source[:80]!r} can't be parsed; expected `p(x:type) & ...`"
        ) from error


def plain_grammar(
    blanked: str, actions: Mapping[str, list[tuple[str, str]]], types: Any, possible: set
) -> dict[str, Any]:
    """The JSON that `grammar.Grammar` compiles.

    `actions`: name -> parameters (name, type) of the domain; `types`: TextWorld's TypeHierarchy of it; `possible`: the
    signatures that facts of this game can have, so that a query does not try others. Raises BadInput for an action
    without texts, an expression that is not allowed, or a type that the domain lacks.
    """
    logic = parse_grammar(blanked)
    reader = _Reader(types, possible)
    rules = {
        name: [{"condition": reader.query(rule.condition), "rhs": reader.symbols(rule.rhs)} for rule in alternatives]
        for name, alternatives in sorted(logic.grammar._rules.items())
    }
    missing = sorted(set(actions) - set(logic.actions))
    if missing:
        raise BadInput(
            f"the grammar has no texts for the domain's action {missing[0]!r}; expected an `action` block for each"
        )
    texts = {
        name: {
            "parameters": [list(pair) for pair in parameters],
            "template": reader.text(logic.actions[name].template),
            "feedback": reader.text(logic.actions[name].feedback_rule),
        }
        for name, parameters in sorted(actions.items())
    }
    return {"rules": rules, "actions": texts, "intro": reader.text("#intro#")}


def put_template(blanked: str) -> str:
    """Template of the action that places an object, which names the game's verb. Raises BadInput where it is missing."""
    action = parse_grammar(blanked).actions.get("putobject")
    if action is None:
        raise BadInput("the grammar has no action PutObject; expected one of ALFWorld's grammars")
    return action.template


def commands_vary(plain: Mapping[str, Any], dynamic: Iterable[str]) -> bool:
    """Whether a command's wording can change while a game is played (in ALFWorld's grammars it can't)."""
    changing = {form for name in dynamic for form in (name, "not_" + name)}
    seen: set[str] = set()

    def query(predicates: Any) -> bool:
        return any(name in changing for _, signatures in predicates or () for name, _ in signatures)

    def symbols(items: Iterable[Any]) -> bool:
        return any(symbol(item) for item in items)

    def symbol(item: Any) -> bool:
        if item[0] in ("each", "list"):
            return query(item[2]) or symbol(item[1])
        if item[0] == "rule" and item[1] not in seen:
            seen.add(item[1])
            return any(query(rule["condition"]) or symbols(rule["rhs"]) for rule in plain["rules"].get(item[1], ()))
        return False

    return any(symbols(action["template"]) for action in plain["actions"].values())


class _Reader:
    """Turns TextWorld's symbols and queries into plain data."""

    def __init__(self, types: Any, possible: set):
        from textworld.envs.pddl import textgen

        self._textgen = textgen
        self._types = types
        self._possible = possible

    def text(self, source: str) -> list[Any]:
        return self.symbols(_parse_text(source))

    def symbols(self, items: Iterable[Any]) -> list[Any]:
        return [plain for item in items for plain in self._symbol(item)]

    def query(self, source: str | None) -> list[Any] | None:
        return [self._predicate(one) for one in _parse_query(source)] if source else None

    def _symbol(self, item: Any) -> list[Any]:
        textgen = self._textgen
        if isinstance(item, textgen.TerminalSymbol):
            if TASK_MARK not in str(item):
                return [["text", str(item)]]
            return [["text", TASK_LEAD], ["task"]]
        if isinstance(item, textgen.NonterminalSymbol):
            return [["rule", str(item)]]
        if isinstance(item, textgen.EvalSymbol):
            return [["show", *parse_expression(item.expression)]]
        if isinstance(item, textgen.ListSymbol):
            inner = self._symbol(item.symbol)[0]
            return [["list", *inner[1:]]]
        if isinstance(item, textgen.ConditionalSymbol):
            return [["each", self._symbol(item.expression)[0], self.query(item.given)]]
        raise BadInput(f"the grammar holds a symbol of the unknown kind {type(item).__name__}")

    def _predicate(self, predicate: Any) -> list[Any]:
        placeholders = [variable(ph.name, ph.type) for ph in predicate.parameters]
        try:
            asked = [self._types.get(ph.type) for ph in predicate.parameters]
        except KeyError as error:
            raise BadInput(
                f"the grammar asks for the type {error} in {predicate}; the domain does not declare it"
            ) from None
        # TextWorld's own order of subtypes, doubles included: it is the order of lists in texts.
        signatures = [(predicate.name, tuple(one.name for one in types)) for types in self._types.multi_subtypes(asked)]
        return [placeholders, [[name, list(types)] for name, types in signatures if (name, types) in self._possible]]
