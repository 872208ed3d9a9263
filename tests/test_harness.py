"""The episode loop against hand-counted transcripts, on a tiny real text environment."""

import hashlib
from dataclasses import replace

import pytest
from corridor import Corridor
from hypothesis import given
from hypothesis import strategies as st

from pipeline.agents.protocol import Completion, ContextLimit, InfrastructureError, Message
from pipeline.config.models import Alteration, Harness, RecoveryTexts
from pipeline.errors import BadInput
from pipeline.harness.conditions import condition
from pipeline.harness.operators import OPERATORS, operator
from pipeline.harness.parse import parse_turn
from pipeline.harness.prompt import BANNER, opening, room_text
from pipeline.harness.session import Altered, Session
from pipeline.records.episodes import EXITS, KINDS, is_live

TEXTS = RecoveryTexts()


class Script:
    """An agent that says given lines, then gives up."""

    identity = {"kind": "script"}

    def __init__(self, *lines):
        self.lines = list(lines)

    def complete(self, messages):
        turn = sum(message.role == "assistant" for message in messages)
        line = self.lines[turn] if turn < len(self.lines) else "give up"
        if isinstance(line, Exception):
            raise line
        return Completion(line, 10, 1)


def session(altered=None, rooms=6, **budget):
    return Session("f/t", Corridor(rooms), Harness(**budget), altered)


def altered(name, k, **keys):
    alteration = Alteration(**keys)
    return Altered(condition(name, alteration), k, alteration.length)


@pytest.mark.parametrize(
    ("output", "thought", "action", "problem"),
    [
        ("go to desk 1", None, "go to desk 1", None),
        ("think: where?", "where?", None, None),
        ("Think: where?\ngo to desk 1", "where?", "go to desk 1", None),
        ("> go to desk 1", None, "go to desk 1", None),
        ("Action: go to desk 1", None, "go to desk 1", None),
        ("> act: look", None, "look", None),
        ("\n\n  look  \n", None, "look", None),
        ("look\ninventory", None, None, "several actions"),
        ("think: a\nlook\ninventory", "a", None, "several actions"),
        ("", None, None, "empty"),
        ("  \n ", None, None, "empty"),
        ("Action:", None, None, "empty"),
        ("Look", None, "Look", None),
    ],
)
def test_parsing(output, thought, action, problem):
    turn = parse_turn(output)
    assert (turn.thought, turn.action, turn.problem) == (thought, action, problem)


LINES = st.lists(st.sampled_from(["think: a", "Thought: b", "look", "> act: look", "Action:", "give up", "", " "]))


@given(st.one_of(st.text(), LINES.map("\n".join)))
def test_parsing_any_text_gives_exactly_one_reading(output):
    turn = parse_turn(output)
    assert turn.problem is None or turn.action is None
    assert turn.problem is not None or turn.action is not None or turn.thought is not None


@pytest.mark.parametrize("output", ["look\nforward", "think: a\nlook\nforward", "", "Action:"])
def test_what_cannot_be_parsed_is_not_sent_and_gets_the_fixed_reply(output):
    """Two actions after a thought are no thought either."""
    run = session(unparseable_reply="What?")
    run.advance(output)
    assert (run.turns, run.actions, run.environment.place) == (1, 0, 0)
    assert (run.steps[1].kind, run.steps[1].action, run.steps[1].observation_shown) == ("unparseable", None, "What?")


def test_the_opening_names_the_games_own_verb():
    for verb, line in (("move", "move (object) to (receptacle)"), ("put", "put (object) in/on (receptacle)")):
        rules, first = opening(f"{BANNER}A room.\n\nYour task is to: x.", verb, Harness())
        assert line in rules.content
        assert first.content == "A room.\n\nYour task is to: x."
    with pytest.raises(BadInput, match="verb 'throw'"):
        opening("A room.", "throw", Harness())
    assert room_text(f"{BANNER}A room.\n\nYour task is to: x.") == "A room."


def test_a_run_is_counted_as_protocol_says():
    run = session()
    episode = run.run(Script("think: go", "forward", "nonsense", "a\nb", *["forward"] * 4))
    assert (episode.exit, episode.success) == ("success", True)
    assert episode.turns == 8  # thoughts and unparseable outputs cost a turn
    assert episode.actions == 6  # rejected actions count, thoughts and unparseable outputs don't
    assert [step.kind for step in episode.steps] == [
        "reset",
        "think",
        "act",
        "act",
        "unparseable",
        "act",
        "act",
        "act",
        "act",
    ]
    assert episode.steps[1].observation_shown == Harness().thought_reply
    assert episode.steps[3].rejection == "rejected"
    assert episode.steps[4].observation_true is None
    assert (episode.prompt_tokens, episode.completion_tokens) == (80, 8)
    # Each call's tokens stand with the step that it made; the reset was no call.
    assert [(step.prompt_tokens, step.completion_tokens) for step in episode.steps] == [(None, None), *[(10, 1)] * 8]


def test_budgets_end_an_episode_exactly():
    episode = session(turns=3).run(Script(*["look"] * 9))
    assert (episode.exit, episode.turns, episode.actions) == ("turn-limit", 3, 3)
    episode = session(actions=3).run(Script("think: a", *["look"] * 9))
    assert (episode.exit, episode.turns, episode.actions) == ("action-limit", 4, 3)
    # A success on the last turn or action is a success.
    assert session(turns=5).run(Script(*["forward"] * 9)).exit == "success"
    assert session(actions=5).run(Script(*["forward"] * 9)).exit == "success"


def test_every_way_out_keeps_the_trajectory():
    for line, exit_ in (
        (ContextLimit(), "context-limit"),
        (InfrastructureError(), "infrastructure"),
        ("give up", "gave-up"),
    ):
        episode = session().run(Script("forward", line))
        assert episode.exit == exit_
        assert exit_ in EXITS
        assert not episode.success
        assert episode.steps[1].action == "forward"
    with pytest.raises(ZeroDivisionError):  # a fault of ours is no exit
        session().run(Script(ZeroDivisionError()))


def test_alterations_change_the_shown_text_only():
    lines = ["forward", "look", "forward", "forward", "forward", "forward"]
    true = [step.observation_true for step in session().run(Script(*lines)).steps]
    expected = {
        "clean": true[3],
        "stale-1": true[2],
        "stale-2": true[1],
        "stale-3": "You are in room 0 of 6.",
        "missing": Alteration().missing_text,
    }
    for name, text in expected.items():
        episode = session(altered(name, 3)).run(Script(*lines))
        assert [step.observation_true for step in episode.steps] == true
        assert episode.steps[3].observation_shown == text
        assert [step.observation_shown for i, step in enumerate(episode.steps) if i not in (0, 3)] == [
            text for i, text in enumerate(true) if i not in (0, 3)
        ]
        assert episode.altered_at == 3


def test_longer_alterations_cover_consecutive_replies_and_stay_true_texts():
    episode = session(altered("stale-1", 2, length=2)).run(Script(*["forward"] * 5))
    shown = [step.observation_shown for step in episode.steps]
    assert shown[1:5] == [f"You walk into room {n}." for n in (1, 1, 2, 4)]


def test_feasibility_depends_on_history():
    for first, k_min in ((True, 2), (False, 3)):
        stale = condition("stale-2", Alteration(first_observation=first))
        assert stale.infeasible(k_min) is None
        assert "stale-2" in stale.infeasible(k_min - 1)
    assert condition("clean", Alteration()).infeasible(1) is None


def test_admissible_actions_come_from_the_step_whose_text_is_shown():
    episode = session(altered("stale-1", 5), admissible_in_prompt=True).run(Script(*["forward"] * 5))
    assert episode.steps[0].observation_shown.endswith("Admissible actions: forward, look")
    # The true list of the last room has no `forward`; a stale text must not leak that.
    assert episode.steps[5].observation_shown == "You walk into room 4.\nAdmissible actions: forward, look"
    assert episode.steps[5].observation_true == "You walk into room 5."


@pytest.mark.parametrize("name", list(OPERATORS))
def test_operators_use_one_wrapper_and_cost_what_protocol_says(name):
    run = session()
    run.replay(["forward", "forward"])
    before = list(run.messages)
    run.intervene(operator(name, TEXTS))
    added = run.messages[len(before) :]
    expected = {
        "none": [],
        "refresh": [Message("assistant", "look"), Message("user", "You are in room 2.")],
        "content-ablated": [Message("assistant", "look"), Message("user", TEXTS.withheld_text)],
        "replan-only": [Message("assistant", TEXTS.replan_line), Message("user", TEXTS.replan_text)],
    }[name]
    assert added == expected
    assert run.turns == 2
    assert run.actions == 2 + (name in ("refresh", "content-ablated"))
    assert run.agent_actions == 2
    assert run.environment.place == 2


def test_a_recovery_can_exhaust_the_action_budget():
    run = session(actions=3)
    run.replay(["forward", "forward"])
    run.intervene(operator("refresh", TEXTS))
    assert run.exit == "action-limit"
    with pytest.raises(RuntimeError, match="has ended"):
        run.intervene(operator("refresh", TEXTS))
    with pytest.raises(RuntimeError, match="has ended"):
        run.advance("look")


OUTPUTS = st.lists(st.sampled_from(["forward", "look", "think: hm", "", "nonsense", "a\nb"]), min_size=1, max_size=12)


@given(OUTPUTS, st.integers(1, 5), st.sampled_from(["clean", "stale-1", "missing"]), st.data())
def test_a_replayed_prefix_is_the_trunk_to_the_byte(outputs, k, name, data):
    """Fork anywhere: the rebuilt prefix has the trunk's hashes, and without an operator the branch is the trunk."""
    trunk = session(altered(name, k), turns=12).run(Script(*outputs))
    assert all(step.kind in KINDS for step in trunk.steps)
    acts = [i for i, step in enumerate(trunk.steps) if step.kind == "act"]
    live = [n for n in range(1, len(acts) + 1) if is_live(trunk.steps, n)]
    if not live:
        return
    position = acts[data.draw(st.sampled_from(live)) - 1]
    branch = session(altered(name, k), turns=12)
    branch.replay(step.output for step in trunk.steps[1 : position + 1])
    # A replayed call was made before: it costs no tokens again.
    replayed = [replace(step, prompt_tokens=None, completion_tokens=None) for step in trunk.steps[: position + 1]]
    assert branch.steps == replayed
    assert branch.exit is None
    episode = branch.run(Script(*outputs))
    assert episode.steps == replayed + trunk.steps[position + 1 :]
    assert (episode.exit, episode.turns, episode.actions, episode.transcript_hash) == (
        trunk.exit, trunk.turns, trunk.actions, trunk.transcript_hash
    )  # fmt: skip


def test_the_transcript_hash_is_that_of_the_messages():
    run = session()
    run.run(Script("forward", "think: a"))
    expected = hashlib.sha256("".join(f"{m.role}\0{m.content}\0" for m in run.messages).encode()).hexdigest()
    # Giving up is the agent's last message; it gets no reply.
    assert run.messages[-1] == Message("assistant", "give up")
    assert run.transcript_hash == expected


def test_unknown_names_are_named():
    with pytest.raises(BadInput, match="no such condition: 'stale'"):
        condition("stale", Alteration())
    with pytest.raises(BadInput, match=r"did you mean refresh\?"):
        operator("refesh", TEXTS)
