"""An episode as plain records: its steps, how it ended, and where it can be forked (protocol.md sections 1 and 2)."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

KINDS = ("reset", "act", "think", "unparseable", "recover", "give-up")
EXITS = ("success", "turn-limit", "action-limit", "context-limit", "gave-up", "infrastructure")


@dataclass(frozen=True, slots=True)
class Step:
    """One entry of an episode; step 0 is the reset that shows observation 0.

    `output` is the agent's text of that turn (of a `recover` step: the harness's line), `action` what was sent to the
    environment (None where nothing was), `observation_true` the environment's reply to it, `observation_shown` the text
    that the agent was shown. `state_hash` identifies the environment after the step, `transcript_hash` all messages up
    to and including this step's reply; both are sha256 in hex. The tokens are those of the model call that made the step:
    None where there was none (reset, a recovery, a replayed prefix) or the agent counts none.
    """

    index: int
    kind: str
    output: str | None
    action: str | None
    observation_true: str | None
    observation_shown: str | None
    state_hash: str
    transcript_hash: str
    rejection: str | None = None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None


@dataclass(slots=True)
class Episode:
    """One finished run of an agent on one task: a row of the trajectories or forks table (contracts.md)."""

    task: str
    condition: str
    agent: str
    success: bool
    exit: str
    turns: int
    actions: int
    altered_at: int | None
    steps: list[Step] = field(default_factory=list)
    transcript_hash: str = ""
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    excluded: str | None = None

    def row(self) -> dict[str, Any]:
        """The episode as a table row: plain values, steps as a list of dicts."""
        return asdict(self)


def step_of_action(steps: Sequence[Step], number: int) -> int | None:
    """Position in `steps` of the agent's action `number` (1-based), or None where there were fewer."""
    seen = 0
    for position, step in enumerate(steps):
        if step.kind == "act":
            seen += 1
            if seen == number:
                return position
    return None


def is_live(steps: Sequence[Step], number: int) -> bool:
    """Whether a trunk was still going after its action `number`: only then can it be forked there.

    protocol.md section 1: a task that ended before d is carried forward, no recovery is applied.
    """
    position = step_of_action(steps, number)
    return position is not None and position + 1 < len(steps)


def steps_of(rows: Sequence[dict[str, Any]]) -> list[Step]:
    """Steps from the `steps` column of a table."""
    return [Step(**row) for row in rows]
