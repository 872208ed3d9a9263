"""Game files are code to TextWorld: what may pass the check, and that hostile or broken files don't, by name."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from pipeline.environment import AlfworldEnvironment, check_game, translate
from pipeline.environment.expressions import parse_expression
from pipeline.environment.safety import KNOWN_GRAMMARS, SIZE_LIMIT, TOKEN_LIMIT, split_task
from pipeline.errors import BadInput
from pipeline.games.generate import build, orders

PAYLOAD = "__import__('os').system('true')"
BARE = "().__class__.__base__.__subclasses__()"


@pytest.fixture(scope="module")
def game() -> dict:
    """A harmless generated game as its JSON object."""
    order = orders({"train": 1}, ["look_at_obj_in_light"], seed=3, verb="move")[0]
    return json.loads(build(order, 0).game)


def packed(game: dict) -> bytes:
    return json.dumps(game).encode()


def with_grammar(game: dict, old: str, new: str) -> bytes:
    assert old in game["grammar"], old
    return packed({**game, "grammar": game["grammar"].replace(old, new, 1)})


# Where a payload can stand in a grammar: (name, text that is replaced, replacement).
PLACES = [
    ("intro", "-= Welcome to TextWorld, ALFRED! =-", "{%s}"),
    ("intro with a query", "-= Welcome to TextWorld, ALFRED! =-", "[{%s | atlocation(a:agent, l:location)}]"),
    ("task sentence", "Your task is to: ", "Your task is to: {%s}"),
    ("command template", "open {r}", "open {%s}"),
    ("command in an allowed form's tail", "open {r}", "open {r.name or %s}"),
    ("feedback", "You open the {r.name}.", "You open the {%s}."),
    ("feedback behind a comment", "You open the {r.name}.", "//{\\n{%s}"),
    ("list", "[{o.indefinite + ' ' + o.name |", "[{o.indefinite + ' ' + %s |"),
    ("rule without condition", "{o.indefinite} {o.name}", "{o.indefinite} {%s}"),
]


@pytest.mark.parametrize(
    "payload", [PAYLOAD, BARE, "open('x').read()", "self", "context", "r.name.__class__", "[].append"]
)
@pytest.mark.parametrize(("old", "new"), [place[1:] for place in PLACES], ids=[place[0] for place in PLACES])
def test_code_in_a_grammar_is_refused_wherever_it_stands(game, old, new, payload):
    with pytest.raises(BadInput, match="evil"):
        check_game(with_grammar(game, old, new % payload), "evil.tw-pddl")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"You close the {r.name}."', '"You close the \\u007b%s\\u007d."'),  # braces hidden by JSON escapes
        ('"intro"', '"{%s}"'),  # a rule's name
        ("action OpenObject {", 'action OpenObject { # """\n'),  # a comment that opens a block
        ('template :: "look";', 'template :: "look"; pddl :: """{%s}""";'),
        ('"condition": "openable(r:receptacle)"', '"condition": "openable(r:receptacle) | {%s}"'),
        ('"condition": "openable(r:receptacle)"', '"condition": {"a": "{%s}"}'),
        ('template :: "look";', 'template :: "action look {%s}";'),
        ('template :: "look";', 'template :: "look \\u007b%s\\u007d {%s}";'),
    ],
)
def test_hiding_places_are_searched(game, old, new):
    with pytest.raises(BadInput, match="evil"):
        check_game(with_grammar(game, old, new.replace("%s", PAYLOAD)), "evil")


@pytest.mark.slow
def test_the_payload_is_real_in_stock_and_refused_here(game, tmp_path):
    """What is refused above does run in the stock environment: at reset, in a process of its own."""
    trace = tmp_path / "trace"
    payload = f"__import__('pathlib').Path('{trace}').touch()"
    path = tmp_path / "game.tw-pddl"
    path.write_bytes(with_grammar(game, "-= Welcome to TextWorld, ALFRED! =-", f"{{{payload}}}"))
    with pytest.raises(BadInput, match=re.escape(str(path))):
        translate(path)
    assert not trace.exists()
    program = (
        "import sys, textworld\n"
        "from textworld.envs.pddl import PddlEnv\n"
        "environment = PddlEnv(textworld.EnvInfos())\n"
        "environment.load(sys.argv[1]); environment.reset()"
    )
    subprocess.run([sys.executable, "-c", program, str(path)], check=True, capture_output=True)
    assert trace.exists()


def test_nothing_here_evaluates():
    folder = Path(__file__).resolve().parents[1] / "pipeline" / "environment"
    for path in folder.glob("*.py"):
        assert not re.search(r"(?<![\w.`])(eval|exec)\s*\(", path.read_text()), path
        assert not re.search(r"^\s*(import|from) (pickle|marshal|shelve)", path.read_text(), re.M), path


@pytest.mark.parametrize(
    ("text", "form"),
    [
        ("r", ("name", "r")),
        ("r.name", ("name", "r")),
        (" o2.indefinite ", ("indefinite", "o2")),
        ("o.indefinite + ' ' + o.name", ("indefinite-name", "o")),
        ("r.name or r.id", ("name-or-id", "r")),
    ],
)
def test_the_five_forms(text, form):
    assert parse_expression(text) == form


@pytest.mark.parametrize(
    "text",
    [
        "",
        "1",
        "r.name()",
        "r.name or o.id",
        "r.names",
        "r.__class__",
        "self",
        "None",
        "r\n",
        "a" * 40,
        "o.indefinite+' '+o.name",
    ],
)
def test_other_forms_are_refused(text):
    if text == "r\n":  # white space around a form is TextWorld's own
        assert parse_expression(text)
        return
    with pytest.raises(BadInput):
        parse_expression(text)


@pytest.mark.parametrize(
    "sentence",
    [
        "put {a} in b.",
        "Put a in b.",
        "put a in b; then stop.",
        "put a\\nin b.",
        "put 1 in b.",
        "#intro#",
        "",
        "a" * 400,
    ],
)
def test_odd_task_sentences_are_refused(game, sentence):
    _, old = split_task(game["grammar"])
    with pytest.raises(BadInput, match="task sentence"):
        check_game(with_grammar(game, "Your task is to: " + old, "Your task is to: " + sentence), "evil")


def test_a_second_or_missing_task_sentence_is_refused(game):
    with pytest.raises(BadInput, match="task sentences"):
        check_game(with_grammar(game, "Your task is to: ", "Do this: "))
    with pytest.raises(BadInput, match="task sentences"):
        check_game(with_grammar(game, '"rhs": "TODO"', '"rhs": "Your task is to: wait."'))


@pytest.mark.parametrize("name", ["a" * (TOKEN_LIMIT + 1), "b" * 1500])
@pytest.mark.parametrize("key", ["pddl_problem", "pddl_domain"])
def test_long_names_are_refused_before_they_overflow(game, name, key):
    text = (
        game[key].replace("(:objects", f"(:objects {name} - object", 1)
        if key == "pddl_problem"
        else f"{game[key]} {name}"
    )
    with pytest.raises(BadInput, match="name of"):
        check_game(packed({**game, key: text}))


def test_many_parameters_are_refused_before_they_overflow(game):
    """Every name is short enough, but an operator of twelve of them is not."""
    parameters = " ".join(f"?x{i} - agent" for i in range(12))
    action = f"(:action help2 :parameters ({parameters}) :precondition () :effect (checked ?x0))"
    domain = game["pddl_domain"].rstrip().removesuffix(")") + action + ")"
    grammar = game["grammar"] + '\naction help2 { template :: "help two"; feedback :: "Help."; }\n'
    problem = game["pddl_problem"].replace("agent1", "agent" + "x" * 100)
    with pytest.raises(BadInput, match="1024 characters"):
        translate(packed({**game, "pddl_domain": domain, "grammar": grammar, "pddl_problem": problem}))


@pytest.mark.parametrize("character", [";", '"', "{", "\\", "\x00", "é", "\ud800", "`", "$"])
def test_odd_characters_of_a_problem_are_refused(game, character):
    with pytest.raises(BadInput, match="characters"):
        check_game(packed({**game, "pddl_problem": game["pddl_problem"] + character}))


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "no complete JSON"),
        (b'{"pddl_domain": "(define', "no complete JSON"),
        (b"\xff\xfe{}", "no complete JSON"),
        (b"[" * 100_000, "no complete JSON"),
        (b"[]", "a JSON list"),
        (b"null", "a JSON NoneType"),
        (b"{}", "pddl_domain"),
        (b" " * (SIZE_LIMIT + 1), "larger than"),
    ],
)
def test_files_that_are_no_game(data, message):
    with pytest.raises(BadInput, match=message) as refused:
        check_game(data, "broken.tw-pddl")
    assert str(refused.value).startswith("broken.tw-pddl: ")


@pytest.mark.parametrize("key", ["pddl_domain", "grammar", "pddl_problem"])
@pytest.mark.parametrize("value", [None, 3, [], {"a": 1}])
def test_keys_must_be_texts(game, key, value):
    with pytest.raises(BadInput, match=key):
        check_game(packed({**game, key: value}))
    with pytest.raises(BadInput, match=f"{key}.* is missing"):
        check_game(packed({name: text for name, text in game.items() if name != key}))


@pytest.mark.parametrize("walkthrough", ["look", [1], {"a": "look"}])
def test_a_walkthrough_is_a_list_of_commands(game, walkthrough):
    with pytest.raises(BadInput, match="walkthrough"):
        check_game(packed({**game, "walkthrough": walkthrough}))


def test_truncated_and_missing_files_are_named(game, tmp_path):
    path = tmp_path / "game.tw-pddl"
    with pytest.raises(BadInput, match=f"{re.escape(str(path))}: cannot be read"):
        check_game(path)
    path.write_bytes(packed(game)[:-40])
    for reads in (check_game, translate):
        with pytest.raises(BadInput, match=f"{re.escape(str(path))}: is no complete JSON"):
            reads(path)
    path.write_bytes(b" " * (SIZE_LIMIT + 1))
    with pytest.raises(BadInput, match="larger than"):
        check_game(path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"grammar": 'grammar :: """{"task": [{"rhs": "Your task is to: a."}]}""";'}, "PutObject"),
        ({"grammar": '"rhs": "Your task is to: a."'}, "can't be parsed"),
        ({"pddl_problem": "(define (problem a"}, "can't be translated"),
        ({"pddl_problem": ""}, "can't be translated"),
        ({"pddl_domain": "(define (domain alfred))"}, "can't be translated"),
    ],
)
def test_wrong_texts_of_the_right_shape_are_refused_by_the_translation(game, change, message):
    with pytest.raises(BadInput, match=message) as refused:
        translate(packed({**game, **change}), "wrong.tw-pddl")
    assert str(refused.value).startswith("wrong.tw-pddl: ")


def test_a_game_whose_goal_is_out_of_reach_is_refused(game):
    problem = game["pddl_problem"]
    start = problem.index("(:goal")
    unreachable = problem[:start] + "(:goal (exists (?o - object) (and (objectType ?o BootsType) (isSliced ?o))))\n)\n"
    with pytest.raises(BadInput, match="goal can't be reached"):
        translate(packed({**game, "pddl_problem": unreachable}), "unsolvable.tw-pddl")


def test_a_command_that_changes_during_play_is_refused(game):
    data = with_grammar(game, '"open {r}"', '"open {r} [{o.name | inreceptacle(o:object, r:receptacle)}]"')
    with pytest.raises(BadInput, match="changes its wording"):
        translate(data)


@pytest.mark.parametrize("rhs", ["#intro#", "#a##a#"])
def test_grammars_without_end_are_refused_in_play(game, rhs):
    data = with_grammar(game, '"notImplemented": [', f'"a": [{{"rhs": "#b##b#"}}], "b": [{{"rhs": "{rhs}"}}], "c": [')
    data = packed({**json.loads(data), "grammar": json.loads(data)["grammar"].replace("#look.feedback#", "#a#", 1)})
    with pytest.raises(BadInput, match="end"):
        AlfworldEnvironment(translate(data))


def test_a_grammar_that_keeps_to_the_allow_list_plays(game):
    """Other words, same forms: not a known grammar, but harmless."""
    data = with_grammar(game, "You arrive at {r.name}.", "Here you are, at {r.name or r.id}.")
    with AlfworldEnvironment(translate(data)) as environment:
        environment.reset()
        first = next(one for one in environment.admissible() if one.startswith("go to"))
        assert environment.step(first).startswith(f"Here you are, at {first.removeprefix('go to ')}.")


def test_alfworlds_own_grammar_is_known():
    import hashlib

    import alfworld

    text = (Path(next(iter(alfworld.__path__))) / "data" / "alfred.twl2").read_text()
    assert hashlib.sha256(split_task(text)[0].encode()).hexdigest() in KNOWN_GRAMMARS


@pytest.mark.parametrize(
    "text",
    [
        "{" * 200_000,
        "{" + " " * 300_000,
        "{a |" + " " * 400_000,
        ("{a" + " " * 100 + "|" + " " * 490) * 500,
        '"""' * 9_999,
    ],
)
def test_the_check_itself_takes_no_time(game, text):
    data = packed({**game, "grammar": game["grammar"] + text})
    with pytest.raises(BadInput):
        check_game(data)


def test_real_games_pass(real_games):
    for path in real_games("valid_seen", 1):
        assert set(check_game(path)) >= {"pddl_domain", "grammar", "pddl_problem"}
