"""What the agent believes, built from nothing but the messages it was shown, and taken from them at face value.

So a false observation misleads it until a later one corrects it, and a true but empty one ("you see nothing") does too.
The rules stand in `Belief._observe`; none knows of conditions, operators or budgets.
"""

import re
from collections import Counter
from dataclasses import dataclass, field

from pipeline.agents.protocol import Message
from pipeline.agents.scripted.goals import TASK, Goal, parse_goal

_NAME = r"([a-z]+ \d+)"
_ITEM = re.compile(rf"\ban? {_NAME}")
_THING = re.compile(_NAME)
# One alternative per sentence of ALFWorld's grammar (data/alfred.twl2); the name of the outer group names the event.
_EVENTS = re.compile(
    "|".join(
        f"(?P<{event}>{pattern})"
        for event, pattern in {
            "arrived": rf"You arrive at {_NAME}\.",
            "listed": rf"(?:On the|The) {_NAME}(?:, you see| is open\. In it, you see) ([^.]*)\.",
            "opened": rf"You open the {_NAME}\.",
            "closed": rf"(?:The {_NAME} is closed|You close the {_NAME})\.",
            "took": rf"You pick up the {_NAME} from the {_NAME}\.",
            "placed": rf"You (?:move|put) the {_NAME} (?:to|in/on|in|on) the {_NAME}\.",
            "treated": rf"You (?:heat|clean|cool) the {_NAME} using the {_NAME}\.",
            "lit": rf"You turn on the {_NAME}\.",
            "carries": r"You are carrying: ([^.]*)\.",
            "empty_handed": r"You are not carrying anything\.",
            "faces": r"You are facing the ([^.]*)\. Next to it, you see ([^.]*)\.",
            "midroom": r"You are in the middle of a room\. Looking quickly around you, you see ([^.]*)\.",
            "refused": r"Nothing happens\.",
        }.items()
    )
)
_PLAN_AGAIN = re.compile(r"\b(?:plan again|re-?plan)\b", re.IGNORECASE)
_COMMAND = re.compile(
    rf"(go to|open|close|examine|use) {_NAME}"
    rf"|(take|move|put|heat|clean|cool) {_NAME} (?:from|to|in/on|with) {_NAME}"
    r"|(look|inventory)"
)
_HANDS = ("take", "move", "put", "heat", "clean", "cool")


@dataclass(slots=True)
class Belief:
    """The state of the world as the transcript tells it.

    `here` are the places it faces (more than one where receptacles share a spot), `contents` the newest list of each
    place, `shut` the places seen closed, `reads` how often a place's own list was read, `refused` how often going there
    was refused, `failed` how often a command was. `treated` are the things cleaned, heated or cooled, `unconfirmed` the
    places it put something whose list it has not read since. `check_hands` asks for an inventory after a command that
    needs the hands was refused. `action` is the last command while its reply is outstanding, `orders` a cache.
    """

    goal: Goal | None = None
    verb: str = "move"
    places: list[str] = field(default_factory=list)
    here: tuple[str, ...] = ()
    holding: str | None = None
    contents: dict[str, list[str]] = field(default_factory=dict)
    shut: set[str] = field(default_factory=set)
    reads: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    failed: Counter[str] = field(default_factory=Counter)
    treated: set[str] = field(default_factory=set)
    unconfirmed: set[str] = field(default_factory=set)
    check_hands: bool = False
    thought: str | None = None
    action: str | None = None
    orders: dict[str, list[str]] = field(default_factory=dict, compare=False)

    def read(self, message: Message) -> None:
        """Take in the next message of the transcript."""
        if message.role == "assistant":
            self._own(message.content)
        elif message.role == "user":
            self._observe(message.content)
        elif re.search(r"^\s*put \(object\)", message.content, re.MULTILINE):
            self.verb = "put"

    def _own(self, output: str) -> None:
        self.action = None
        for line in output.splitlines():
            if line.startswith("think:"):
                self.thought = line.removeprefix("think:").strip()
            elif line.strip():
                self.action = line.strip()

    def _observe(self, text: str) -> None:
        if self.goal is None and (task := TASK.search(text)):
            self.goal = parse_goal(task.group(1))
        read_something = False
        for match in _EVENTS.finditer(text):
            read_something = True
            _, *details = (group for group in match.groups() if group is not None)
            getattr(self, f"_{match.lastgroup}")(*details)
        if not read_something:
            if _PLAN_AGAIN.search(text):
                self.refused.clear()
                self.failed.clear()
            self._assume_worked()
        self.action = None

    # --- what the texts say -------------------------------------------------------------------------------------------

    def _stand(self, place: str) -> None:
        # The last text decides where it is; at a shared spot it goes on facing the others.
        if place not in self.here:
            self.here = (place,)

    def _arrived(self, place: str) -> None:
        self.here = (place,)
        self.refused.pop(place, None)

    def _listed(self, place: str, things: str) -> None:
        self._stand(place)
        self.shut.discard(place)
        self.contents[place] = _ITEM.findall(things)
        self.reads[place] += 1
        self.unconfirmed.discard(place)
        if self.holding in self.contents[place]:
            self.holding = None

    def _opened(self, place: str) -> None:
        self._stand(place)
        self.shut.discard(place)

    def _closed(self, place: str) -> None:
        self._stand(place)
        self.shut.add(place)

    def _took(self, thing: str, place: str) -> None:
        self._stand(place)
        self._hold(thing)

    def _placed(self, thing: str, place: str) -> None:
        self._stand(place)
        self._remove(thing)
        self.contents.setdefault(place, []).append(thing)
        self.unconfirmed.add(place)
        self.holding = None

    def _treated(self, thing: str, place: str) -> None:
        self._stand(place)
        self.treated.add(thing)

    def _lit(self, lamp: str) -> None:
        # It lights a lamp only to look at what it holds; since it was asked for another turn, that may be nothing.
        self.check_hands = True

    def _carries(self, things: str) -> None:
        self.check_hands = False
        carried = _ITEM.findall(things)
        if carried:
            self._hold(carried[0])

    def _empty_handed(self) -> None:
        self.check_hands = False
        self.holding = None

    def _faces(self, places: str, things: str) -> None:
        faced = _THING.findall(places)
        self.here = tuple(faced)
        for place in faced:
            self.contents[place] = []
            self.refused.pop(place, None)
        if faced:
            self.contents[faced[0]] = _ITEM.findall(things)

    def _midroom(self, things: str) -> None:
        self.here = ()
        # "You see nothing" in mid-room cannot mean that the furniture is gone.
        if places := _ITEM.findall(things):
            self.places = places
            self.orders.clear()

    def _refused(self) -> None:
        command = self.action
        if command is None:
            return
        if command.startswith("go to "):
            self.refused[command.removeprefix("go to ")] += 1
            return
        self.failed[command] += 1
        self.check_hands = command.startswith(_HANDS)

    # --- what it supposes ---------------------------------------------------------------------------------------------

    def _assume_worked(self) -> None:
        """After a reply that tells nothing: the last action had its usual effect."""
        match = _COMMAND.fullmatch(self.action or "")
        if match is None:
            return
        simple, place, verb, thing, other, bare = match.groups()
        if simple == "go to":
            self._arrived(place)
        elif simple == "open":
            self._opened(place)
        elif simple == "close":
            self._closed(place)
        elif simple == "use":
            self._lit(place)
        elif verb == "take":
            self._took(thing, other)
        elif verb in ("move", "put"):
            self._placed(thing, other)
        elif verb is not None:
            self._treated(thing, other)
        elif bare == "inventory":
            self.check_hands = False

    def _hold(self, thing: str) -> None:
        self._remove(thing)
        self.holding = thing
        self.check_hands = False

    def _remove(self, thing: str) -> None:
        for things in self.contents.values():
            if thing in things:
                things.remove(thing)
