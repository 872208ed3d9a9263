"""What the harness asks of an agent: messages in, text out, and an identity that can be hashed."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from pydantic import BaseModel, ConfigDict


@dataclass(frozen=True, slots=True)
class Message:
    """One message of the transcript; `role` is `system`, `user` or `assistant`."""

    role: str
    content: str


@dataclass(frozen=True, slots=True)
class Completion:
    """One turn of an agent. Token counts are None where the agent has no tokens."""

    text: str
    prompt_tokens: int | None = None
    completion_tokens: int | None = None


class AgentParameters(BaseModel):
    """Base of the parameters of each kind of agent: an unknown one is an error, values are not coerced."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, protected_namespaces=())


class ContextLimit(Exception):
    """The messages no longer fit the agent's context: the episode ends with the exit `context-limit`."""


class InfrastructureError(Exception):
    """The agent could not be asked (server gone, timeout, malformed reply): the exit `infrastructure`, no outcome."""


class Agent(Protocol):
    """A text agent. Its reply may depend on the messages alone, so that an episode can be forked by copying them."""

    @property
    def identity(self) -> Mapping[str, Any]:
        """JSON-able: `kind`, `parameters` (defaults filled in), `code` (sha256), `model_revision` (or None)."""
        ...

    def complete(self, messages: Sequence[Message]) -> Completion:
        """The next turn. `messages` are system rules, observation 0, then assistant and user in turn.

        Raises ContextLimit or InfrastructureError; anything else is a fault of ours.
        """
        ...
