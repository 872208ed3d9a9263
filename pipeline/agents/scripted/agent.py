"""The embedded agent: reads the transcript into a belief and writes the next turn; a pure function of the messages."""

from collections.abc import Mapping, Sequence
from operator import is_
from typing import Any

from pipeline.agents.protocol import Completion, Message
from pipeline.agents.scripted.belief import Belief
from pipeline.agents.scripted.policy import Parameters, next_turn


class ScriptedAgent:
    """A deterministic ALFWorld agent. It never sees admissible actions, facts or walkthroughs, only messages."""

    def __init__(self, parameters: Parameters, code: str):
        """`code` is the digest of the agent's modules, part of its identity."""
        self.parameters = parameters
        self._code = code
        self._read: list[Message] = []
        self._belief = Belief()

    @property
    def identity(self) -> Mapping[str, Any]:
        """JSON-able identity: kind, parameters, code digest; it has no model, hence no revision."""
        return {
            "kind": "scripted",
            "parameters": self.parameters.model_dump(),
            "code": self._code,
            "model_revision": None,
        }

    def complete(self, messages: Sequence[Message]) -> Completion:
        """The next turn: one line, a thought or a command. Never raises, whatever the messages say."""
        return Completion(next_turn(self._believe(messages), self.parameters))

    def _believe(self, messages: Sequence[Message]) -> Belief:
        # Reading is a fold over the messages, so a belief may be carried on where the very same messages come first;
        # any other transcript is read from its beginning.
        read = self._read
        if len(messages) < len(read) or not all(map(is_, read, messages)):
            read = self._read = []
            self._belief = Belief()
        for message in messages[len(read) :]:
            self._belief.read(message)
            read.append(message)
        return self._belief
