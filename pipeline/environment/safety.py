"""Checks of a game file before anything of TextWorld sees it: a game file is code (see expressions.py).

ALFWorld's own domain and grammars are known by their sha256, the grammar with its task sentence blanked, since that is
all that differs between games. Another grammar must keep to an allow-list: every `{…}` in it is one of five harmless
expressions. Names and characters of the problem are limited, since the planner's library copies names into fields of
1,024 bytes without looking. A file that passes can't run code; it can still be slow or pointless.
"""

import hashlib
import json
import re
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pipeline.environment.expressions import FORMS, parse_expression
from pipeline.errors import BadInput
from pipeline.records.ledger import note_read

SIZE_LIMIT = 1_000_000  # bytes; the largest official game has 138,334
TOKEN_LIMIT = 120  # characters of a name; the longest official one has 88
TASK_LEAD = "Your task is to: "
TASK_MARK = "UNKNOWN GOAL"

KNOWN_DOMAINS = {
    "0af55e7f92d12b09d28515aa730e4d03fddd17228ef1fd7b18a3ee8ba49b27b9": "official games",
    "f1473041ed01da514de1f87adfd7ef0804862361f83ccf63c75e43633b0eb280": "alfred.pddl of alfworld 0.4.2",
    "e64e8c0002648c403e05adedc25be5ea8b9863924f32cc7611051bed1f386e46": "alfred.pddl of alfworld 0.3.5",
}
# sha256 of the grammar whose task sentence is "UNKNOWN GOAL".
KNOWN_GRAMMARS = {
    "cee144b0ebf9c0a2c1fad64f91e2837e954f0b118e410f9156616ac0bf21ef2c": "official games (move)",
    "6b9f73c67d6214ec37cae9118e7a120cdd2c14dd4fa50abe53ac12362db85f9b": "alfred.twl2 of alfworld 0.4.2 (move)",
    "dff6d7b3f150fb5589be90f8b218ea09c13e172cca84f8ee4d02bff9d9d99a82": "alfred.twl2 of alfworld 0.3.5 (put)",
}

_TASK = re.compile(r'"rhs"\s*:\s*"' + TASK_LEAD + r'([^"]*)"')
_SENTENCE = re.compile(r"[a-z ,.]{1,300}")
_PDDL_TEXT = re.compile(r"[\x20-\x7e\t\r\n]*")
_PROBLEM = re.compile(r"[A-Za-z0-9_\-:()=? \t\r\n]*")
_DELIMITERS = re.compile(r"[\s()]+")
_COMMENT = re.compile(r";[^\n]*")
_QUERY = r"[A-Za-z0-9_'!&():, ]{1,500}"
# No two parts of this pattern can match the same character, so a hostile text can't make it slow.
_BRACED = re.compile(r"\{(?:#[\w(), .\-]{1,100}# ?|(?P<expression>[A-Za-z0-9_.+' ]{1,120}))(?:\|" + _QUERY + r")?\}")
_ACTION_HEAD = re.compile(r"\baction\s+[\w/-]{1,100}\s*\{(?=\s*(?:template|feedback|grammar)\s*::)")
_TEXTS = {"pddl_domain": "the PDDL domain", "grammar": "the text grammar", "pddl_problem": "the PDDL problem"}


def check_game(game: str | Path | bytes, name: str | None = None) -> dict[str, Any]:
    """Read and check a game; returns its JSON object. `game`: a path or the file's bytes (`name`: how to call them).

    Raises BadInput that names the file, what is wrong and what to do.
    """
    if isinstance(game, bytes):
        data, name = game, name or "game"
    else:
        name = str(game)
        data = read_game(Path(game))
    try:
        return _checked(data)
    except BadInput as error:
        raise BadInput(f"{name}: {error}") from None


def split_task(grammar: str) -> tuple[str, str]:
    """The grammar with its task sentence blanked, and the sentence. Raises BadInput where there isn't exactly one."""
    sentences = list(_TASK.finditer(grammar))
    if len(sentences) != 1 or grammar.count(TASK_LEAD) != 1:
        raise BadInput(
            f"the grammar has {grammar.count(TASK_LEAD)} task sentences; expected exactly one rule "
            f'"rhs": "{TASK_LEAD}..." as in ALFWorld\'s games'
        )
    start, end = sentences[0].span(1)
    return grammar[:start] + TASK_MARK + grammar[end:], grammar[start:end]


def read_game(path: Path, limit: int = SIZE_LIMIT) -> bytes:
    """The bytes of a game's file, unchecked. Raises BadInput where it can't be read, is no plain file, or is too large."""
    try:
        found = path.stat()
        # Reading a pipe would wait for ever, and a device may never end.
        if not stat.S_ISREG(found.st_mode):
            raise BadInput(f"{path}: is no plain file; expected a game's {path.name}")
        if found.st_size > limit:
            raise BadInput(f"{path}: larger than {limit:,} bytes; expected ALFWorld's {path.name} (under 0.5 MB)")
        content = path.read_bytes()
        note_read(path)
        return content
    except OSError as error:
        raise BadInput(f"{path}: cannot be read ({error.strerror}); expected a game's {path.name}") from error


def _checked(data: bytes) -> dict[str, Any]:
    game = _shape(data)
    _check_domain(game["pddl_domain"])
    _check_problem(game["pddl_problem"])
    _check_grammar(game["grammar"])
    return game


def _shape(data: bytes) -> dict[str, Any]:
    if len(data) > SIZE_LIMIT:
        raise BadInput(f"larger than {SIZE_LIMIT:,} bytes; expected an ALFWorld game (at most 0.2 MB)")
    try:
        game = json.loads(data.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise BadInput(f"is no complete JSON ({error}); it may be truncated: download or generate it again") from error
    if not isinstance(game, dict):
        raise BadInput(f"holds a JSON {type(game).__name__}; expected an object with {', '.join(_TEXTS)}")
    for key, meaning in _TEXTS.items():
        if not isinstance(game.get(key), str):
            found = "is missing" if key not in game else f"is a {type(game[key]).__name__}"
            raise BadInput(f"{meaning} (key {key!r}) {found}; expected a string as in ALFWorld's game.tw-pddl")
        if not _PDDL_TEXT.fullmatch(game[key]):
            raise BadInput(
                f"{meaning} (key {key!r}) holds characters outside printable ASCII; expected ALFWorld's texts"
            )
    walkthrough = game.get("walkthrough")
    if walkthrough is not None and not (
        isinstance(walkthrough, list) and all(isinstance(action, str) for action in walkthrough)
    ):
        raise BadInput("key 'walkthrough' is no list of commands; expected a list of strings, or no such key")
    return game


def _check_domain(domain: str) -> None:
    if hashlib.sha256(domain.encode()).hexdigest() in KNOWN_DOMAINS:
        return
    _check_tokens("domain", _COMMENT.sub("", domain))


def _check_problem(problem: str) -> None:
    if not _PROBLEM.fullmatch(problem):
        wrong = sorted(set(re.sub(_PROBLEM, "", problem)))[:5]
        raise BadInput(f"the PDDL problem holds the characters {wrong}; expected letters, digits and _-:()=? only")
    _check_tokens("problem", problem)


def _check_tokens(what: str, text: str) -> None:
    longest = max(_DELIMITERS.split(text), key=len)
    if len(longest) > TOKEN_LIMIT:
        raise BadInput(
            f"the PDDL {what} has a name of {len(longest)} characters ({longest[:30]}...); "
            f"expected at most {TOKEN_LIMIT}, since the planner's library would overflow"
        )


def _check_grammar(grammar: str) -> None:
    blanked, sentence = split_task(grammar)
    if not _SENTENCE.fullmatch(sentence):
        raise BadInput(
            f"the task sentence is {sentence[:80]!r}; expected only lower-case letters, spaces, commas, full stops"
        )
    if hashlib.sha256(blanked.encode()).hexdigest() not in KNOWN_GRAMMARS:
        _check_unknown_grammar(blanked)


def _check_unknown_grammar(grammar: str) -> None:
    """Every `{` of a text must open an allow-listed form. Texts are the JSON blocks' strings and all that is outside."""
    pieces = grammar.split('"""')
    if len(pieces) % 2 == 0:
        raise BadInput('the grammar has an odd number of """; expected closed blocks as in ALFWorld\'s alfred.twl2')
    for outside in pieces[0::2]:
        _check_text(_ACTION_HEAD.sub("", outside))
    for block in pieces[1::2]:
        lines = [line for line in block.split("\n") if not line.lstrip().startswith("#")]
        try:
            rules = json.loads("\n".join(lines))
        except (ValueError, RecursionError) as error:
            raise BadInput(
                f"a block of the grammar is no JSON ({error}); expected rules as in ALFWorld's alfred.twl2"
            ) from error
        for text in _rule_texts(rules):
            _check_text(text)


def _rule_texts(rules: Any) -> Iterator[str]:
    if not isinstance(rules, dict):
        raise BadInput("a block of the grammar is no JSON object; expected rule names with lists of rules")
    for name, alternatives in rules.items():
        if not isinstance(alternatives, list) or not all(isinstance(rule, dict) for rule in alternatives):
            raise BadInput(f"the grammar's rule {name[:80]!r} is no list of objects with 'rhs'")
        yield name
        for rule in alternatives:
            if not isinstance(rule.get("rhs"), str) or not set(rule) <= {"rhs", "condition", "weight"}:
                raise BadInput(
                    f"an alternative of the grammar's rule {name[:80]!r} needs 'rhs' (text), at most 'condition'"
                )
            condition = rule.get("condition", "")
            if not isinstance(condition, str) or not re.fullmatch(f"(?:{_QUERY})?", condition):
                raise BadInput(f"the condition of the grammar's rule {name[:80]!r} is no plain query `p(x:type) & ...`")
            yield rule["rhs"]


def _check_text(text: str) -> None:
    for match in _BRACED.finditer(text):
        if match["expression"] is not None:
            parse_expression(match["expression"])
    left = _BRACED.sub("", text)
    if "{" in left:
        found = left[left.index("{") :][:60]
        raise BadInput(f"the grammar holds {found!r}; expected only {FORMS} between braces: do not run this game")
