"""What the harness needs of a text environment: the one seam behind which another environment can be put.

Everything above (harness, forks) talks to this protocol only; `AlfworldEnvironment` is its implementation here.
"""

from collections.abc import Iterable
from typing import Any, Literal, Protocol

Rejection = Literal["shared-place", "rejected"]


class TextEnvironment(Protocol):
    """A deterministic text world: the same actions after `reset` give byte-identical texts, states and hashes.

    An environment goes on stepping after the goal was reached; budgets and exits belong to the harness.
    """

    @property
    def task(self) -> str:
        """The task sentence, without its "Your task is to: " lead."""

    @property
    def verb(self) -> str:
        """The game's own verb for placing an object: `move` or `put` (protocol.md section 5)."""

    @property
    def won(self) -> bool:
        """Whether the goal holds now."""

    @property
    def last_rejection(self) -> Rejection | None:
        """Why the last action changed nothing: None where it was taken, or after a reset.

        `shared-place`: the action goes to a place where the agent already stands, under another name; no fault of the
        agent, so it is counted apart. `rejected`: any other action that the game doesn't know or doesn't allow now.
        """

    def reset(self) -> str:
        """Back to the start; returns observation 0."""

    def step(self, action: str) -> str:
        """Take an action and return the observation. An action the game doesn't take answers a fixed text."""

    def admissible(self) -> tuple[str, ...]:
        """Every command the game takes now, sorted, without doubles."""

    def facts_digest(self) -> str:
        """sha256-sized hex digest of the facts that hold now, independent of their order."""

    def state_hash(self) -> str:
        """sha256 hex over the last true observation, the facts digest and the admissible commands."""

    def snapshot(self) -> Any:
        """An opaque copy of the state, valid until another game is loaded."""

    def restore(self, snapshot: Any) -> None:
        """Go back to a snapshot of the same game. Raises ValueError for one of another load."""

    def replay(self, actions: Iterable[str]) -> list[str]:
        """Reset, take the actions, and return observation 0 and every later one."""

    def close(self) -> None:
        """Give back what the environment holds; it can't be used afterwards."""
