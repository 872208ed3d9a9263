"""Agents: what the scripted one believes after which texts, that it is a function of the messages, that it plays."""

import json
import os
import random
import subprocess
import sys
import time

import pytest
from alfworld.gen import constants, goal_library
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.agents.protocol import Message
from pipeline.agents.registry import AGENTS, build, modules_digest
from pipeline.agents.scripted.belief import Belief
from pipeline.agents.scripted.commonsense import STATIONS, USUAL_PLACES, search_order
from pipeline.agents.scripted.goals import Goal, parse_goal
from pipeline.config.models import Harness
from pipeline.environment import AlfworldEnvironment, translate
from pipeline.errors import BadInput
from pipeline.harness.session import Session

RULES = "Commands:\n  look\n  go to (receptacle)\n  move (object) to (receptacle)\n"
ROOM = (
    "You are in the middle of a room. Looking quickly around you, you see a cabinet 2, a cabinet 1, a countertop 1, "
    "a fridge 1, a microwave 1, a sinkbasin 1, and a shelf 1."
)
FACING = "You are facing the {}. Next to it, you see nothing."


def opening(task: str = "put a apple in shelf.", rules: str = RULES) -> list[Message]:
    return [Message("system", rules), Message("user", f"{ROOM}\n\nYour task is to: {task}")]


def transcript(*pairs: tuple[str, str], task: str = "put a apple in shelf.", rules: str = RULES) -> list[Message]:
    messages = opening(task, rules)
    for output, reply in pairs:
        messages += [Message("assistant", output), Message("user", reply)]
    return messages


def believe(*pairs: tuple[str, str], **kwargs: str) -> Belief:
    belief = Belief()
    for message in transcript(*pairs, **kwargs):
        belief.read(message)
    return belief


def answer(*pairs: tuple[str, str], parameters: dict | None = None, **kwargs: str) -> str:
    """The agent's next action on a transcript, past the thought it may write first."""
    agent = build("scripted", parameters or {})
    messages = transcript(*pairs, **kwargs)
    text = agent.complete(messages).text
    if text.startswith("think:"):
        text = agent.complete([*messages, Message("assistant", text), Message("user", "OK.")]).text
    return text


AT_COUNTER = ("go to countertop 1", "You arrive at countertop 1. On the countertop 1, you see a apple 1, and a mug 2.")
AT_CABINET = ("go to cabinet 2", "You arrive at cabinet 2. The cabinet 2 is closed.")
TOOK = ("take apple 1 from countertop 1", "You pick up the apple 1 from the countertop 1.")


# --- belief -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pairs", "expected"),
    [
        pytest.param([], {"here": (), "holding": None, "contents": {}}, id="the room"),
        pytest.param(
            [AT_COUNTER],
            {
                "here": ("countertop 1",),
                "contents": {"countertop 1": ["apple 1", "mug 2"]},
                "reads": {"countertop 1": 1},
            },
            id="arriving reads the list",
        ),
        pytest.param([AT_CABINET], {"here": ("cabinet 2",), "shut": {"cabinet 2"}, "reads": {}}, id="closed: unread"),
        pytest.param(
            [AT_CABINET, ("open cabinet 2", "You open the cabinet 2. The cabinet 2 is open. In it, you see nothing.")],
            {"shut": set(), "contents": {"cabinet 2": []}, "reads": {"cabinet 2": 1}},
            id="opening reads the list",
        ),
        pytest.param(
            [AT_COUNTER, TOOK], {"holding": "apple 1", "contents": {"countertop 1": ["mug 2"]}}, id="taking moves it"
        ),
        pytest.param(
            [AT_COUNTER, TOOK, ("move apple 1 to shelf 1", "You move the apple 1 to the shelf 1.")],
            {"holding": None, "here": ("shelf 1",), "unconfirmed": {"shelf 1"}},
            id="placing empties the hands",
        ),
        pytest.param(
            [("clean apple 1 with sinkbasin 1", "You clean the apple 1 using the sinkbasin 1.")],
            {"treated": {"apple 1"}, "here": ("sinkbasin 1",)},
            id="cleaned",
        ),
        pytest.param([("use desklamp 1", "You turn on the desklamp 1.")], {"check_hands": True}, id="lamp on"),
        pytest.param([("inventory", "You are carrying: a apple 1.")], {"holding": "apple 1"}, id="carrying"),
        pytest.param(
            [AT_COUNTER, TOOK, ("inventory", "You are not carrying anything.")], {"holding": None}, id="empty-handed"
        ),
        pytest.param(
            [AT_COUNTER, AT_CABINET, ("go to countertop 1", AT_COUNTER[1].replace("a apple 1, and ", ""))],
            {"contents": {"countertop 1": ["mug 2"]}, "reads": {"countertop 1": 2}},
            id="the newest list wins",
        ),
        pytest.param(
            [("go to shelf 1", "Nothing happens.")], {"refused": {"shelf 1": 1}, "here": ()}, id="unreachable"
        ),
        pytest.param(
            [AT_COUNTER, ("take apple 1 from countertop 1", "Nothing happens.")],
            {"failed": {"take apple 1 from countertop 1": 1}, "check_hands": True},
            id="refused take",
        ),
        pytest.param(
            [("go to shelf 1", "Nothing happens."), ("think: plan again", "Plan again from the observations so far.")],
            {"refused": {}, "failed": {}, "thought": "plan again"},
            id="planning again forgets what failed",
        ),
    ],
)
def test_true_observations(pairs, expected):
    belief = believe(*pairs)
    assert {name: getattr(belief, name) for name in expected} == expected


@pytest.mark.parametrize(
    ("pairs", "expected"),
    [
        pytest.param(
            [AT_COUNTER, ("go to fridge 1", AT_COUNTER[1])], {"here": ("countertop 1",)}, id="a stale text: where it is"
        ),
        pytest.param(
            [AT_CABINET, AT_COUNTER, (TOOK[0], AT_CABINET[1])],
            {"here": ("cabinet 2",), "holding": None, "contents": {"countertop 1": ["apple 1", "mug 2"]}},
            id="a stale text: the take did not happen",
        ),
        pytest.param([AT_COUNTER, ("go to fridge 1", ROOM)], {"here": ()}, id="the room text again: nowhere"),
        pytest.param(
            [AT_COUNTER, ("look", FACING.format("countertop 1"))],
            {"contents": {"countertop 1": []}, "reads": {"countertop 1": 1}},
            id="a look empties the place",
        ),
        pytest.param(
            [AT_COUNTER, ("go to fridge 1", AT_COUNTER[1]), ("look", FACING.format("fridge 1"))],
            {"here": ("fridge 1",), "contents": {"countertop 1": ["apple 1", "mug 2"], "fridge 1": []}},
            id="a look corrects where it is",
        ),
        pytest.param(
            [AT_COUNTER, ("go to fridge 1", AT_COUNTER[1]), ("go to fridge 1", "Nothing happens."),
             ("look", FACING.format("fridge 1"))],
            {"refused": {}, "reads": {"countertop 1": 2}},
            id="what it faces is reachable, but unread",
        ),
        pytest.param(
            [("look", FACING.format("cabinet 2, and cabinet 1"))], {"here": ("cabinet 2", "cabinet 1")}, id="shared spot"
        ),
        pytest.param([("go to fridge 1", "Observation unavailable.")], {"here": ("fridge 1",), "reads": {}}, id="missing"),
        pytest.param(
            [AT_COUNTER, (TOOK[0], "Observation unavailable.")], {"holding": "apple 1"}, id="missing: the take worked"
        ),
    ],
)  # fmt: skip
def test_misleading_observations(pairs, expected):
    belief = believe(*pairs)
    assert {name: getattr(belief, name) for name in expected} == expected


@pytest.mark.parametrize(
    "before",
    [[], [AT_COUNTER], [AT_COUNTER, TOOK], [AT_CABINET], [("go to shelf 1", "Nothing happens.")]],
)
def test_a_withheld_look_changes_nothing(before):
    plain, looked = believe(*before), believe(*before, ("look", "[observation withheld]"))
    assert looked == plain
    assert answer(*before, ("look", "[observation withheld]")) == answer(*before)


def test_admissible_actions_in_the_prompt_are_not_read():
    pairs = [AT_COUNTER, TOOK, ("go to shelf 1", "Nothing happens."), ("look", FACING.format("countertop 1"))]
    listed = "\nAdmissible actions: go to fridge 1, look, take mug 2 from countertop 1"
    assert believe(*((output, reply + listed) for output, reply in pairs)) == believe(*pairs)


# --- what it does -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pairs", "action"),
    [
        pytest.param([], "go to fridge 1", id="the likeliest place first"),
        pytest.param([AT_COUNTER], "take apple 1 from countertop 1", id="takes what it sees"),
        pytest.param([AT_COUNTER, TOOK], "go to shelf 1", id="carries it to the target"),
        pytest.param([AT_CABINET], "open cabinet 2", id="opens what it stands before"),
        pytest.param([AT_COUNTER, (TOOK[0], "Nothing happens.")], "inventory", id="checks its hands after a refusal"),
        pytest.param([("go to fridge 1", "Nothing happens.")], "go to countertop 1", id="leaves the unreachable"),
        pytest.param([("go to shelf 1", "Observation unavailable.")], "examine shelf 1", id="reads what it could not"),
        pytest.param([AT_COUNTER, ("look", FACING.format("countertop 1"))], "go to fridge 1", id="believes a look"),
    ],
)
def test_next_action(pairs, action):
    assert answer(*pairs) == action


def test_treats_before_placing():
    held = [AT_COUNTER, TOOK]
    for task, action in [
        ("heat some apple and put it in shelf.", "go to microwave 1"),
        ("put a cool apple in shelf.", "go to fridge 1"),
        ("put a clean apple in shelf.", "go to sinkbasin 1"),
    ]:
        assert answer(*held, task=task) == action
    sink = ("go to sinkbasin 1", "You arrive at sinkbasin 1. On the sinkbasin 1, you see nothing.")
    assert answer(*held, sink, task="put a clean apple in shelf.") == "clean apple 1 with sinkbasin 1"


@pytest.mark.parametrize(
    ("place_line", "action"),
    [
        ("move (object) to (receptacle)", "move apple 1 to shelf 1"),
        ("put (object) in/on (receptacle)", "put apple 1 in/on shelf 1"),
    ],
)
def test_the_rules_tell_the_verb(place_line, action):
    shelf = ("go to shelf 1", "You arrive at shelf 1. On the shelf 1, you see nothing.")
    assert answer(AT_COUNTER, TOOK, shelf, rules=f"Commands:\n  {place_line}\n  look") == action


def test_two_objects_are_two_different_ones():
    task = "put two apple in shelf."
    shelf = ("go to shelf 1", "You arrive at shelf 1. On the shelf 1, you see nothing.")
    placed = ("move apple 1 to shelf 1", "You move the apple 1 to the shelf 1.")
    assert answer(AT_COUNTER, TOOK, shelf, placed, task=task) == "go to fridge 1"
    fridge = ("go to fridge 1", "You arrive at fridge 1. The fridge 1 is open. In it, you see a apple 2.")
    assert answer(AT_COUNTER, TOOK, shelf, placed, fridge, task=task) == "take apple 2 from fridge 1"


def search_all(parameters: dict) -> list[str]:
    """Every output of a search in a room where each place is empty."""
    agent, messages, outputs = build("scripted", parameters), opening(), []
    while "give up" not in outputs and len(outputs) < 100:
        output = agent.complete(messages).text
        place = output.removeprefix("go to ")
        reply = "OK." if output.startswith("think:") else f"You arrive at {place}. On the {place}, you see nothing."
        outputs.append(output)
        messages += [Message("assistant", output), Message("user", reply)]
    return outputs


def test_search_ends_and_revisit_doubles_it():
    once, twice = search_all({"revisit": False}), search_all({"revisit": True})
    walks = [output for output in once if output.startswith("go to")]
    assert len(walks) == len(set(walks)) == 7
    assert [output for output in twice if output.startswith("go to")] == walks * 2
    assert once[-1] == twice[-1] == "give up"
    assert not [output for output in search_all({"thoughts": False}) if output.startswith("think:")]


def test_a_changed_thought_costs_one_turn():
    thoughts = [output for output in search_all({"revisit": False}) if output.startswith("think:")]
    assert len(thoughts) == len(set(thoughts)) == 2


def test_likely_kinds_first_then_the_rooms_order():
    places = ["shelf 1", "drawer 2", "fridge 1", "countertop 2", "countertop 1"]
    assert search_order("apple", places, 3)[:3] == ["fridge 1", "countertop 2", "countertop 1"]
    assert search_order("apple", places, 1)[0] == "fridge 1"
    assert search_order("apple", places, 0) == places
    assert search_order("no such thing", places, 3) == places


def test_commonsense_names_things_of_alfworld():
    known = {name.lower() for name in constants.OBJECTS}
    assert set(USUAL_PLACES) <= known
    assert {place for places in USUAL_PLACES.values() for place in places} <= known
    assert set(STATIONS.values()) <= known


# --- goals ------------------------------------------------------------------------------------------------------------

TASK_TYPES = {
    "pick_and_place_simple": {},
    "pick_clean_then_place_in_recep": {"treatment": "clean"},
    "pick_heat_then_place_in_recep": {"treatment": "heat"},
    "pick_cool_then_place_in_recep": {"treatment": "cool"},
    "pick_two_obj_and_place": {"count": 2},
}
RECEPTACLES = sorted({name.lower() for name in constants.RECEPTACLES})
OBJECTS = sorted({name.lower() for name in constants.OBJECTS})


@pytest.mark.parametrize("task_type", TASK_TYPES)
def test_every_goal_sentence(task_type):
    for template in goal_library.gdict[task_type]["templates"]:
        for thing in OBJECTS:
            for place in RECEPTACLES:
                expected = Goal(object=thing, target=place, **TASK_TYPES[task_type])
                assert parse_goal(template.format(obj=thing, recep=place) + ".") == expected


def test_every_lamp_sentence():
    for template in goal_library.gdict["look_at_obj_in_light"]["templates"]:
        for thing in OBJECTS:
            for lamp in ("desklamp", "floorlamp"):
                assert parse_goal(template.format(obj=thing, toggle=lamp) + ".") == Goal(object=thing, lamp=lamp)


def test_an_unknown_goal_ends_the_episode():
    assert answer(task="paint the wall.") == "give up"


# --- a function of the messages ---------------------------------------------------------------------------------------

REPLIES = [
    AT_COUNTER[1], AT_CABINET[1], TOOK[1], ROOM, "Nothing happens.", "OK.", "Observation unavailable.",
    "[observation withheld]", "Plan again from the observations so far.", FACING.format("countertop 1"),
    FACING.format("cabinet 2, and cabinet 1"), "You are carrying: a apple 1.", "You are not carrying anything.",
    "You move the apple 1 to the shelf 1.", "You open the cabinet 2. The cabinet 2 is open. In it, you see a apple 3.",
    "You heat the apple 1 using the microwave 1.", "You arrive at shelf 1. On the shelf 1, you see a apple 2.",
]  # fmt: skip
TASKS = [
    "put a apple in shelf.",
    "put two apple in shelf.",
    "heat some apple and put it in cabinet.",
    "look at mug under the desklamp.",
]


def play(agent, task: str, replies: list[str]) -> list[Message]:
    messages = opening(task)
    for reply in replies:
        messages = [*messages, Message("assistant", agent.complete(messages).text), Message("user", reply)]
    return messages


@given(st.sampled_from(TASKS), st.lists(st.sampled_from(REPLIES), max_size=30), st.data())
def test_equal_to_a_fresh_reading(task, replies, data):
    """The belief that is carried on, the one of a fresh agent, and one that was elsewhere meanwhile answer the same."""
    agent = build("scripted", {})
    messages = play(agent, task, replies)
    other = play(build("scripted", {}), "put a mug in fridge.", replies[::-1])
    for position in range(2, len(messages) + 1, 2):
        expected = messages[position].content if position < len(messages) else agent.complete(messages).text
        assert build("scripted", {}).complete(messages[:position]).text == expected
        if data.draw(st.booleans()):
            agent.complete(other[: data.draw(st.integers(0, len(other)))])
        copied = [Message(message.role, message.content) for message in messages[:position]]
        assert agent.complete(copied).text == expected
        assert agent.complete(messages[:position]).text == expected


@given(
    st.lists(
        st.builds(
            Message,
            st.sampled_from(["system", "user", "assistant"]),
            st.one_of(
                st.text(max_size=80), st.sampled_from([*REPLIES, AT_COUNTER[0], TOOK[0], "use desklamp 1", "think: x"])
            ),
        ),
        max_size=20,
    ),
    st.booleans(),
)
@settings(max_examples=300)
def test_any_text_gets_an_answer(messages, with_opening):
    for parameters in ({}, {"revisit": False, "likely_kinds": 0, "thoughts": False}):
        text = build("scripted", parameters).complete([*opening(), *messages] if with_opening else messages).text
        assert text
        assert "\n" not in text


def test_no_dependence_on_the_hash_seed():
    script = (
        "import random, sys; sys.path.insert(0, 'tests'); import test_agents as t;"
        "replies = [random.Random(5).choice(t.REPLIES) for _ in range(60)];"
        "print([[m.content for m in t.play(t.build('scripted', {}), task, replies)] for task in t.TASKS])"
    )
    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    outputs = {
        subprocess.run(
            [sys.executable, "-c", script], env={**os.environ, "PYTHONHASHSEED": seed}, cwd=root,
            check=True, capture_output=True, text=True,
        ).stdout
        for seed in ("0", "42")
    }  # fmt: skip
    assert len(outputs) == 1


def test_a_turn_is_cheap():
    agent = build("scripted", {})
    messages = opening()
    rng = random.Random(0)
    started = time.perf_counter()
    for _ in range(300):
        messages += [Message("assistant", agent.complete(messages).text), Message("user", rng.choice(REPLIES))]
    # The aim is 0.15 ms; the bound leaves room for a busy machine and would still catch reading all anew each turn.
    assert (time.perf_counter() - started) / 300 < 0.0015


# --- registry ---------------------------------------------------------------------------------------------------------


def test_identity_is_json_and_names_what_matters():
    identity = build("scripted", {"revisit": False}).identity
    assert json.loads(json.dumps(identity)) == identity
    assert identity["parameters"] == {"revisit": False, "likely_kinds": 3, "thoughts": True}
    assert identity["kind"] == "scripted"
    assert identity["model_revision"] is None
    assert identity["code"] == modules_digest("pipeline.agents.scripted")


@pytest.mark.parametrize(
    ("kind", "parameters", "message"),
    [
        ("scriptd", {}, "did you mean scripted"),
        ("scripted", {"revist": True}, "agent.parameters.revist.*did you mean revisit"),
        ("scripted", {"colour": 1}, "known are likely_kinds, revisit, thoughts"),
        ("scripted", {"revisit": 1}, "agent.parameters.revisit: .*valid boolean, got 1"),
        ("scripted", {"likely_kinds": True}, "agent.parameters.likely_kinds: .*valid integer, got True"),
        ("scripted", {"likely_kinds": -1}, "greater than or equal to 0, got -1"),
    ],
)
def test_bad_agents_are_refused(kind, parameters, message):
    with pytest.raises(BadInput, match=message):
        build(kind, parameters)


def test_every_agent_can_be_built_and_says_who_it_is():
    needed = {"scripted": {}, "openai": {"model": "m", "base_url": "http://127.0.0.1:9/v1"}}
    assert set(needed) == set(AGENTS)
    for kind, parameters in needed.items():
        identity = build(kind, parameters).identity
        assert identity["kind"] == kind
        assert set(identity) == {"kind", "parameters", "code", "model_revision"}


# --- real games -------------------------------------------------------------------------------------------------------


def test_wins_most_real_games(real_games):
    """Well below what was measured (above 90%), so that it fails for a broken agent and not for an unlucky draw."""
    agent = build("scripted", {})
    episodes = []
    for path in real_games("valid_seen", per_type=2):
        with AlfworldEnvironment(translate(path)) as environment:
            session = Session(path.parent.parent.name, environment, Harness())
            episodes.append(session.run(agent))
            fresh = build("scripted", {})
            for position in range(2, len(session.messages), 2):
                expected = session.messages[position].content
                assert fresh.complete([*session.messages[:position]]).text == expected
    assert len(episodes) == 12
    assert sum(episode.success for episode in episodes) >= 8
    assert {episode.exit for episode in episodes} <= {"success", "gave-up", "turn-limit", "action-limit"}
