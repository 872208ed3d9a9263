"""The fast environment against the stock one, byte for byte, and what it promises beyond (snapshots, hashes, bounds)."""

import hashlib
import json
import os
import random
import re
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from pipeline.environment import AlfworldEnvironment, Translation, translate
from pipeline.environment import alfworld as runtime
from pipeline.environment.facts import Facts, fact, number, variable
from pipeline.environment.library import FUNCTIONS, Atom, Operator, library_path
from pipeline.errors import BadInput
from pipeline.games.generate import make, orders

TYPES = (
    "look_at_obj_in_light",
    "pick_and_place_simple",
    "pick_clean_then_place_in_recep",
    "pick_cool_then_place_in_recep",
    "pick_heat_then_place_in_recep",
    "pick_two_obj_and_place",
)
ODD_ACTIONS = ("Look", "  inventory \n", "", "go to nowhere 1", "go to", "examine fridge 99", "help", "open the door")


@pytest.fixture(scope="session")
def some_real_games(real_games) -> dict[str, Path]:
    """One real game per task type."""
    return {path.parts[-3].split("-")[0]: path for path in real_games("valid_seen", 1)}


@pytest.fixture(scope="session")
def games(request, has_real_games) -> dict[str, Path]:
    """One game per task type: real where there are real ones, else generated."""
    return request.getfixturevalue("some_real_games" if has_real_games else "made_games")


@pytest.fixture(scope="session")
def made_games(tmp_path_factory) -> dict[str, Path]:
    """One generated game per task type."""
    root = tmp_path_factory.mktemp("made")
    for order in orders({"train": len(TYPES)}, TYPES, seed=5, verb="move"):
        make(order, root)
    return {path.parts[-3].split("-")[0]: path for path in sorted(root.rglob("game.tw-pddl"))}


@pytest.fixture(scope="session")
def stock():
    """ALFWorld's own wrappers around TextWorld's environment."""
    import textworld
    from alfworld.agents.environment.alfred_tw_env import AlfredDemangler, AlfredInfos
    from textworld.envs.pddl import PddlEnv

    wanted = textworld.EnvInfos(won=True, admissible_commands=True, facts=True, extras=["gamefile"])
    return AlfredInfos(AlfredDemangler(PddlEnv(wanted), shuffle=False))


@pytest.fixture(scope="session")
def translations(games) -> dict[str, Translation]:
    return {kind: translate(path) for kind, path in games.items()}


@pytest.fixture(scope="session")
def kitchen(games, translations):
    kind = "pick_heat_then_place_in_recep"
    return translations[kind], json.loads(games[kind].read_text())["walkthrough"]


@pytest.fixture
def environment(kitchen):
    with AlfworldEnvironment(kitchen[0]) as one:
        yield one


def assert_same(state, observation: str, environment: AlfworldEnvironment) -> None:
    assert state.feedback == observation
    assert tuple(state["admissible_commands"]) == environment.admissible()
    assert state["won"] == environment.won
    assert sorted(map(str, state["facts"])) == environment.facts()


def play_both(stock, path: Path, seed: int, extra: int) -> AlfworldEnvironment:
    """The walkthrough in order, mixed with `extra` random or odd actions; every step compared in full."""
    rng = random.Random(seed)
    stock.load(str(path))
    environment = AlfworldEnvironment(Translation.from_bytes(translate(path).to_bytes()))
    assert_same(stock.reset(), environment.reset(), environment)
    walkthrough = json.loads(path.read_text())["walkthrough"]
    plan = [True] * len(walkthrough) + [False] * extra
    rng.shuffle(plan)
    for follows in plan:
        if follows:
            action = walkthrough.pop(0)
        elif rng.random() < 0.2:
            action = rng.choice(ODD_ACTIONS)
        else:
            # Going about is most of what can be done; what touches things matters more here.
            near = [one for one in environment.admissible() if not one.startswith("go to")]
            action = rng.choice(near if rng.random() < 0.7 else environment.admissible())
        state, _, _ = stock.step(action)
        assert_same(state, environment.step(action), environment)
    return environment


@pytest.mark.slow
@pytest.mark.parametrize("kind", TYPES)
def test_random_play_on_real_games_equals_stock(stock, some_real_games, kind):
    play_both(stock, some_real_games[kind], seed=hash_free_seed(kind), extra=9).close()


@pytest.mark.slow
@pytest.mark.parametrize("kind", TYPES[:1])
def test_walkthrough_and_play_after_the_win_equal_stock(stock, games, kind):
    environment = play_both(stock, games[kind], seed=0, extra=0)
    assert environment.won
    for action in (*environment.admissible()[:3], "look", "inventory", environment.admissible()[-1]):
        state, _, _ = stock.step(action)
        assert_same(state, environment.step(action), environment)
    environment.close()


@pytest.mark.slow
@pytest.mark.parametrize("kind", TYPES)
def test_random_play_on_generated_games_equals_stock(stock, made_games, kind):
    play_both(stock, made_games[kind], seed=hash_free_seed(kind), extra=4).close()


def hash_free_seed(text: str) -> int:
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4])


def test_every_walkthrough_wins(games, translations, environment):
    for kind, translation in translations.items():
        environment.load(translation)
        texts = environment.replay(json.loads(games[kind].read_text())["walkthrough"])
        assert environment.won
        assert texts[0].endswith(f"Your task is to: {translation.task}")
        assert environment.task == translation.task
        assert environment.verb == "move"


def test_the_put_grammar_is_told_apart(games):
    game = json.loads(games["pick_and_place_simple"].read_text())
    for new, old in (
        ("put {o} in/on {r}", "move {o} to {r}"),
        ("You put the {o.name} in/on", "You move the {o.name} to"),
    ):
        assert old in game["grammar"]
        game["grammar"] = game["grammar"].replace(old, new)
    with AlfworldEnvironment(translate(json.dumps(game).encode())) as environment:
        assert environment.verb == "put"
        actions = [re.sub(r"^move (.*) to (.*)$", r"put \1 in/on \2", action) for action in game["walkthrough"]]
        texts = environment.replay(actions)
        assert environment.won
        assert any(text.startswith("You put the") and " in/on the " in text for text in texts)


def test_translation_round_trip(kitchen):
    translation, _ = kitchen
    data = translation.to_bytes()
    assert Translation.from_bytes(data) == translation
    assert Translation.from_bytes(data).to_bytes() == data
    assert len(data) < 120_000


@pytest.mark.parametrize("damage", [lambda b: b[:-200], lambda b: b"cir-translation/0\n" + b[18:], lambda b: b""])
def test_a_damaged_translation_is_refused(kitchen, damage):
    with pytest.raises(BadInput, match="translate the games again"):
        Translation.from_bytes(damage(kitchen[0].to_bytes()))


def test_bytes_do_not_depend_on_the_hash_seed(games):
    program = (
        "import hashlib, sys\n"
        "from pipeline.environment import translate\n"
        "print([hashlib.sha256(translate(path).to_bytes()).hexdigest() for path in sys.argv[1:]])"
    )
    paths = [str(games["pick_two_obj_and_place"])]
    root = Path(__file__).resolve().parents[1]
    found = {
        subprocess.run(
            [sys.executable, "-c", program, *paths],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(root)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert found == {str([hashlib.sha256(translate(path).to_bytes()).hexdigest() for path in paths]) + "\n"}


def test_playing_imports_neither_textworld_nor_alfworld(kitchen, tmp_path):
    stored = tmp_path / "game.translation"
    stored.write_bytes(kitchen[0].to_bytes())
    program = (
        "import sys, pathlib\n"
        "from pipeline.environment import AlfworldEnvironment, Translation\n"
        "environment = AlfworldEnvironment(Translation.from_bytes(pathlib.Path(sys.argv[1]).read_bytes()))\n"
        "environment.step('look'); environment.state_hash(); environment.close()\n"
        "print({name.split('.')[0] for name in sys.modules} & {'textworld', 'alfworld', 'tatsu', 'fast_downward', 'numpy'})"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(stored)], capture_output=True, text=True, cwd=Path(__file__).parents[1]
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "set()\n"


def test_restore_equals_replay(environment, kitchen):
    _, walkthrough = kitchen
    rng = random.Random(7)
    actions = []
    environment.reset()
    for _ in range(25):
        actions.append(rng.choice(environment.admissible()))
        environment.step(actions[-1])
    snapshot, at_fork = environment.snapshot(), environment.state_hash()
    tails = [[*walkthrough], [rng.choice(ODD_ACTIONS) for _ in range(5)], ["look", "inventory"]]
    for tail in tails:
        environment.restore(snapshot)
        assert environment.state_hash() == at_fork
        branch = [(environment.step(action), environment.state_hash(), environment.facts()) for action in tail]
        environment.replay(actions)
        assert environment.state_hash() == at_fork
        assert branch == [(environment.step(action), environment.state_hash(), environment.facts()) for action in tail]


def test_a_snapshot_dies_with_its_load(environment, kitchen):
    snapshot = environment.snapshot()
    environment.load(kitchen[0])
    with pytest.raises(ValueError, match="earlier load"):
        environment.restore(snapshot)


def test_hashes_are_the_same_in_a_new_environment_and_differ_between_states(environment, kitchen):
    translation, walkthrough = kitchen
    environment.reset()
    first = [environment.state_hash()] + [environment.step(a) and environment.state_hash() for a in walkthrough]
    with AlfworldEnvironment(translation) as other:
        assert first == [other.state_hash()] + [other.step(a) and other.state_hash() for a in walkthrough]
    assert len(set(first)) == len(first)
    assert all(re.fullmatch("[0-9a-f]{64}", one) for one in first)


def test_the_running_facts_digest_equals_one_made_anew(environment, kitchen):
    """After play the incremental sum equals the sum over the facts that hold."""
    environment.replay(kitchen[1])
    held = [(signature, arguments) for signature, all_ in environment._facts._sets.items() for arguments in all_]
    assert int(environment.facts_digest(), 16) == sum(map(number, held)) % 2**256


def test_equal_planner_states_with_other_facts_hash_differently(environment):
    """`open` and `close` come back to one planner state but leave a `not_opened` fact: texts may depend on it."""
    environment.reset()
    place = next(one for one in environment.admissible() if one.startswith("go to fridge"))
    environment.step(place)
    name = place.removeprefix("go to ")
    environment.step(f"open {name}")
    environment.step(f"close {name}")
    before = environment._library.state_id(), environment.facts_digest()
    environment.step(f"open {name}")
    environment.step(f"close {name}")
    assert (environment._library.state_id(), environment.facts_digest()) == before
    assert any(text.startswith("not_opened(") for text in environment.facts())


def test_shared_places_are_told_from_own_errors(translations):
    """Every receptacle is visited; going on to one in the same place is nobody's fault, going there again is."""
    pairs = 0
    for translation in translations.values():
        with AlfworldEnvironment(translation) as environment:
            places = environment._places
            for first in sorted(places):
                twins = [one for one in places if one != first and places[one] & places[first]]
                if not twins or pairs > 40:
                    continue
                environment.reset()
                assert environment.step(f"go to {first}").startswith("You arrive")
                assert environment.last_rejection is None
                for twin in twins:
                    assert environment.step(f"go to {twin}") == "Nothing happens."
                    assert environment.last_rejection == "shared-place"
                    pairs += 1
                assert environment.step(f"go to {first}") == "Nothing happens."
                assert environment.last_rejection == "rejected"
                assert environment.step("go to nowhere 1") == "Nothing happens."
                assert environment.last_rejection == "rejected"
                environment.step("look")
                assert environment.last_rejection is None
    if not pairs:
        pytest.skip("no game of the sample has receptacles that share a place")


def test_rejections_survive_snapshots_and_end_with_reset(environment):
    environment.reset()
    environment.step("dance")
    snapshot = environment.snapshot()
    environment.step("look")
    environment.restore(snapshot)
    assert environment.last_rejection == "rejected"
    environment.reset()
    assert environment.last_rejection is None


def test_two_environments_do_not_disturb_each_other(translations):
    kinds = list(translations)[:2]
    with AlfworldEnvironment(translations[kinds[0]]) as one, AlfworldEnvironment(translations[kinds[1]]) as two:
        expected = [AlfworldEnvironment(translations[kind]) for kind in kinds]
        for environment, alone in ((one, expected[0]), (two, expected[1])):
            actions = list(alone.admissible())[:3]
            assert environment.replay(actions) == alone.replay(actions)
            assert environment.state_hash() == alone.state_hash()
        for alone in expected:
            alone.close()


def test_a_closed_environment_says_so(kitchen):
    environment = AlfworldEnvironment(kitchen[0])
    environment.close()
    environment.close()
    with pytest.raises(ValueError, match="closed"):
        environment.reset()


def test_caches_are_bounded(environment, monkeypatch):
    monkeypatch.setattr(runtime, "KEPT_STATES", 8)
    rng = random.Random(1)
    environment.reset()
    for _ in range(60):
        environment.step(rng.choice(environment.admissible()))
        assert len(environment._moments) <= max(8, 1)


def test_memory_stays_flat(environment, kitchen):
    translation, walkthrough = kitchen

    def play(times: int) -> int:
        for _ in range(times):
            environment.load(translation)
            for _ in range(20):
                environment.replay(walkthrough)
                environment.state_hash()
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    before = play(15)
    assert play(30) - before < 4_000  # KB


def test_the_library_has_the_functions_we_bind():
    """What we declare ourselves must be what the installed wrapper declares, struct by struct."""
    import ctypes

    import fast_downward

    theirs = fast_downward.load_lib()
    for name, (arguments, result) in FUNCTIONS.items():
        assert hasattr(theirs, name), name
        if name in ("get_state_id", "set_state_id"):
            continue  # exported, but not declared by the wrapper
        declared = getattr(theirs, name)
        assert len(declared.argtypes) == len(arguments), name
        assert (declared.restype is None) == (result is None), name
    assert ctypes.sizeof(fast_downward.Operator) == ctypes.sizeof(Operator)
    assert [name.strip("_") for name, _ in fast_downward.Operator._fields_] == [name for name, _ in Operator._fields_]
    assert ctypes.sizeof(fast_downward.Atom) == ctypes.sizeof(Atom)
    assert library_path() == Path(fast_downward.interface.DOWNWARD_LIB_PATH)


def test_state_ids_are_set_and_read_back(environment):
    """The two undeclared functions do what their names say."""
    environment.reset()
    start = environment._library.state_id()
    environment.step(next(one for one in environment.admissible() if one.startswith("go to")))
    moved = environment._library.state_id()
    assert moved != start
    environment._library.set_state_id(start)
    assert environment._library.state_id() == start


def test_textworld_still_derives_texts_as_our_compiler_does():
    """Private names of TextWorld that the translation reads; an upgrade that renames one fails here."""
    import inspect

    from textworld.envs.pddl import textgen
    from textworld.envs.pddl.logic import GameLogic, PddlState

    for name in ("TerminalSymbol", "NonterminalSymbol", "EvalSymbol", "ListSymbol", "ConditionalSymbol"):
        assert inspect.isclass(getattr(textgen, name))
    assert list(inspect.signature(GameLogic.__init__).parameters) == ["self", "domain", "grammar"]
    source = "".join(map(inspect.getsource, (textgen.ContextSensitiveGrammar, textgen.query, textgen.display_list)))
    source += inspect.getsource(PddlState)
    assert hashlib.sha256(source.encode()).hexdigest() == TEXTWORLD_SOURCES, (
        "textworld changed: compare, then renew this"
    )


TEXTWORLD_SOURCES = "c12ef8c1b4139f498d9a89db8ab95549a9a727bacb7004c93fc0935aad143752"


def test_facts_are_a_set_with_a_running_digest():
    one = fact("p", [variable("a", "t")])
    two = fact("q", [variable("a", "t"), variable("b", "t")])
    facts = Facts([one, one], ["q"])
    empty = facts.digest()
    facts.add(*two, number(two))
    facts.add(*two, number(two))
    twin = facts.copy()
    assert facts.digest() != empty
    facts.remove(*two, number(two))
    facts.remove(*two, number(two))
    assert facts.digest() == empty
    assert twin.digest() != empty
    assert twin.ordered(two[0]) == [two[1]]
    assert facts.ordered(two[0]) == []
