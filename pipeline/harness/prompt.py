"""What the agent is shown before its first turn: the rules and observation 0."""

from importlib.resources import files

from pipeline.agents.protocol import Agent, Message
from pipeline.agents.registry import packages_but
from pipeline.config.models import Harness
from pipeline.errors import BadInput
from pipeline.records.canonical import bytes_sha256, digest
from pipeline.records.ledger import note_fact

RULES = files("pipeline.harness").joinpath("rules.txt").read_text()
PLACE = {"move": "move (object) to (receptacle)", "put": "put (object) in/on (receptacle)"}
BANNER = "-= Welcome to TextWorld, ALFRED! =-\n\n"


def opening(observation: str, verb: str, harness: Harness) -> tuple[Message, Message]:
    """System rules and observation 0 as messages.

    `observation` is the environment's reset text, `verb` the game's own verb for placing (protocol.md section 5: it is
    baked into each game's grammar). The welcome banner carries nothing and is dropped. Raises BadInput for another verb.
    """
    if verb not in PLACE:
        raise BadInput(f"verb {verb!r}: the prompt knows {sorted(PLACE)}; index the games again")
    rules = RULES.format(place=PLACE[verb], turns=harness.turns, actions=harness.actions)
    return Message("system", rules.strip()), Message("user", observation.removeprefix(BANNER))


def room_text(observation: str) -> str:
    """Observation 0 without banner and task line: the text that may serve as a stale one (protocol.md section 1, [D])."""
    return observation.removeprefix(BANNER).split("\n\nYour task is to:")[0]


def agent_digest(agent: Agent, harness: Harness) -> str:
    """sha256 of an agent's identity, the rules' template and the harness settings: whose episodes they are."""
    note_fact("agent", dict(agent.identity))
    note_fact("apart", list(packages_but(agent.identity["kind"])))
    return digest({**agent.identity, "prompt": bytes_sha256(RULES.encode()), "harness": harness.model_dump()})
