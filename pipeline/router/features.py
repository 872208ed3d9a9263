"""Named features of a prefix (protocol.md section 3: repetition, no-ops, novelty, agreement, progress, context budget).

Everything is read from texts the agent was shown or wrote. Counts are shares or capped, so that features keep their scale
from task to task.
"""

import re
from collections.abc import Callable, Sequence

from pipeline.router.goals import Goal, parse_goal
from pipeline.router.prefix import Entry, Prefix

NO_OP = "Nothing happens."
# "Recent" covers the longest candidate delay of the protocol (4) and the altered reply before it.
RECENT = 5
_SINCE_CAP = 10
_THOUGHT = re.compile(r"^\s*(?:>\s*)?(?:think|thought)\s*:\s*(.*)$", re.IGNORECASE | re.MULTILINE)

# How a reply begins when the action did what it says (both grammars: `move X to Y`, `put X in/on Y`).
_EXPECTED: list[tuple[re.Pattern[str], Callable[[re.Match[str]], str]]] = [
    (re.compile(r"go to (.+)"), lambda m: rf"You arrive at {re.escape(m[1])}\b"),
    (re.compile(r"open (.+)"), lambda m: rf"You open the {re.escape(m[1])}\b"),
    (re.compile(r"close (.+)"), lambda m: rf"You close the {re.escape(m[1])}\b"),
    (re.compile(r"take (.+) from (.+)"), lambda m: rf"You pick up the {re.escape(m[1])}\b"),
    (re.compile(r"(?:move|put) (.+?) (?:to|in/on|in|on) (.+)"), lambda m: rf"You (?:move|put) the {re.escape(m[1])}\b"),
    (re.compile(r"(heat|clean|cool) (.+) with (.+)"), lambda m: rf"You {m[1]} the {re.escape(m[2])}\b"),
    (re.compile(r"slice (.+) with (.+)"), lambda m: rf"You sliced? the {re.escape(m[1])}\b"),
    (re.compile(r"use (.+)"), lambda m: rf"You (?:turn (?:on|off)|don't see any switch on) the {re.escape(m[1])}\b"),
    (re.compile(r"examine (.+)"), lambda m: rf"(?:On |In |This |There's |The ).*\b{re.escape(m[1])}\b"),
    (re.compile(r"look"), lambda m: r"(?:-= Welcome|You are (?:facing|in the middle))"),
    (re.compile(r"inventory"), lambda m: r"You are (?:not )?carrying"),
]


def agrees(action: str, reply: str) -> bool | None:
    """Whether a reply has the form that the action's success has; None where the reply refuses or the verb is unknown."""
    if reply.startswith(NO_OP):
        return None
    for pattern, expected in _EXPECTED:
        if found := pattern.fullmatch(action.strip()):
            return re.match(expected(found), reply) is not None
    return None


def features(prefix: Prefix) -> dict[str, float]:
    """Every feature by name, in the fixed order of `FEATURES`; all finite."""
    acts = [entry for entry in prefix.entries if entry.action is not None]
    values = {
        **_repetition(prefix.entries, acts),
        **_no_ops(prefix.entries, acts),
        **_novelty(prefix.opening, acts),
        **_agreement(acts),
        **_progress(prefix, acts),
        **_budget(prefix),
    }
    return {name: float(values[name]) for name in FEATURES}


def _repetition(entries: Sequence[Entry], acts: Sequence[Entry]) -> dict[str, float]:
    actions = [str(entry.action) for entry in acts]
    repeated = _repeats(actions)
    thoughts = [found.strip() for entry in entries for found in _THOUGHT.findall(entry.output)]
    thought_repeated = _repeats(thoughts)
    run = 0
    while run < len(actions) and actions[-1 - run] == actions[-1]:
        run += 1
    return {
        "x_action_repeats": _share(repeated),
        "x_recent_action_repeats": _share(repeated[-RECENT:]),
        "x_same_action_run": min(max(run - 1, 0), RECENT),
        "x_thought_repeats": _share(thought_repeated),
        "x_recent_thought_repeats": _share(thought_repeated[-RECENT:]),
    }


def _no_ops(entries: Sequence[Entry], acts: Sequence[Entry]) -> dict[str, float]:
    refused = [entry.shown.startswith(NO_OP) for entry in acts]
    return {
        "x_no_ops": _share(refused),
        "x_recent_no_ops": _share(refused[-RECENT:]),
        "x_last_no_op": bool(refused and refused[-1]),
        "x_unparseable": _share([entry.kind == "unparseable" for entry in entries]),
    }


def _novelty(opening: str, acts: Sequence[Entry]) -> dict[str, float]:
    shown = [entry.shown for entry in acts]
    seen_before = _repeats([opening, *shown])[1:]
    novel = [not seen for seen in seen_before]
    known = set(_words(opening))
    new_words = []
    for text in shown:
        words = set(_words(text))
        new_words.append(len(words - known) / len(words) if words else 0.0)
        known |= words
    return {
        "x_novel_replies": _share(novel),
        "x_recent_novel_replies": _share(novel[-RECENT:]),
        "x_recent_new_words": sum(new_words[-RECENT:]) / max(1, len(new_words[-RECENT:])),
    }


def _agreement(acts: Sequence[Entry]) -> dict[str, float]:
    agreement = [agrees(str(entry.action), entry.shown) for entry in acts]
    contradicts = [value is False for value in agreement]
    since = next((age for age, value in enumerate(reversed(contradicts)) if value), _SINCE_CAP)
    # A reply that contradicts its action and was shown before is an old text in the place of the new one.
    seen_before = _repeats([entry.shown for entry in acts])
    return {
        "x_contradictions": _share(contradicts),
        "x_recent_contradictions": _share(contradicts[-RECENT:]),
        "x_last_contradicts": bool(contradicts and contradicts[-1]),
        "x_recent_old_contradictions": _share(
            [c and s for c, s in zip(contradicts, seen_before, strict=True)][-RECENT:]
        ),
        "x_actions_since_contradiction": min(since, _SINCE_CAP) / _SINCE_CAP,
    }


def _progress(prefix: Prefix, acts: Sequence[Entry]) -> dict[str, float]:
    goal = parse_goal(prefix.goal) or Goal(target="")
    texts = [prefix.opening.split("Your task is to:")[0], *(entry.shown for entry in acts)]
    target = rf"{re.escape(goal.target)} \d+" if goal.target else r"(?!)"
    seen = any(re.search(rf"\b{target}\b", text) for text in texts)
    held: str | None = None
    changed = False
    placed: set[str] = set()
    for text in texts:
        if taken := re.match(r"You pick up the (\S+ \d+)", text):
            held = taken[1]
            placed.discard(held)
        elif put := re.match(r"You (?:move|put) the (\S+ \d+) (?:to|in/on|in|on) the (\S+) \d+", text):
            held = None
            if re.fullmatch(target, put[1]) and put[2] == goal.place:
                placed.add(put[1])
        changed = changed or bool(goal.verb and re.match(rf"You {goal.verb} the {target}\b", text))
    visited = {str(entry.action) for entry in acts if str(entry.action).startswith("go to ")}
    return {
        "x_goal_known": bool(goal.target),
        "x_target_seen": seen,
        "x_target_held": bool(held and re.fullmatch(target, held)),
        "x_other_held": bool(held and not re.fullmatch(target, held)),
        "x_target_changed": changed,
        "x_targets_placed": min(1.0, len(placed) / goal.count),
        "x_places_tried": len(visited) / max(1, len(acts)),
    }


def _budget(prefix: Prefix) -> dict[str, float]:
    texts = [prefix.opening, *(text for entry in prefix.entries for text in (entry.output, entry.shown))]
    return {
        "x_turns_left": max(0, prefix.turn_budget - prefix.turns) / prefix.turn_budget,
        "x_actions_left": max(0, prefix.action_budget - prefix.actions) / prefix.action_budget,
        "x_kilo_characters": sum(len(text) for text in texts) / 1000,
    }


def _repeats(texts: Sequence[str]) -> list[bool]:
    """For each text whether it stood earlier."""
    seen: set[str] = set()
    marks = []
    for text in texts:
        marks.append(text in seen)
        seen.add(text)
    return marks


def _share(marks: Sequence[bool]) -> float:
    return sum(marks) / len(marks) if marks else 0.0


def _words(text: str) -> list[str]:
    return re.findall(r"[a-z0-9]+", text.lower())


FEATURES = (
    "x_action_repeats",
    "x_recent_action_repeats",
    "x_same_action_run",
    "x_thought_repeats",
    "x_recent_thought_repeats",
    "x_no_ops",
    "x_recent_no_ops",
    "x_last_no_op",
    "x_unparseable",
    "x_novel_replies",
    "x_recent_novel_replies",
    "x_recent_new_words",
    "x_contradictions",
    "x_recent_contradictions",
    "x_last_contradicts",
    "x_recent_old_contradictions",
    "x_actions_since_contradiction",
    "x_goal_known",
    "x_target_seen",
    "x_target_held",
    "x_other_held",
    "x_target_changed",
    "x_targets_placed",
    "x_places_tried",
    "x_turns_left",
    "x_actions_left",
    "x_kilo_characters",
)
