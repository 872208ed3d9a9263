"""Reading one turn of the agent: a thought, an action, both, or nothing that can be used.

The format is strict, and so is the reading: what isn't an action is never sent to the environment (protocol.md
section 1: an output that can't be parsed costs a turn and gets a fixed reply).
"""

import re
from dataclasses import dataclass

GIVE_UP = "give up"
# What models put before an action although the rules don't ask for it; it carries no meaning.
_LABEL = re.compile(r"^(?:>\s*)?(?:act(?:ion)?\s*:\s*)?", re.IGNORECASE)
_THOUGHT = re.compile(r"^(?:>\s*)?(?:think|thought)\s*:\s*(.*)$", re.IGNORECASE | re.DOTALL)


@dataclass(frozen=True, slots=True)
class Turn:
    """A parsed turn; `problem` says why it can't be used (there is then no action, whatever was thought), or is None."""

    thought: str | None
    action: str | None
    problem: str | None = None

    @property
    def gives_up(self) -> bool:
        """The agent ends the episode."""
        return self.action is not None and self.action.lower() == GIVE_UP


def parse_turn(output: str) -> Turn:
    """Parse an agent's output: any number of `think:` lines, then at most one action line.

    A label before the action (`>`, `Action:`) is dropped. Two action lines are a problem, since which one was meant
    can't be known; an empty text is one too. Nothing else is repaired: case and spelling are the agent's own.
    """
    thoughts: list[str] = []
    actions: list[str] = []
    for line in (line.strip() for line in output.splitlines()):
        if not line:
            continue
        if thought := _THOUGHT.match(line):
            thoughts.append(thought.group(1).strip())
        else:
            actions.append(_LABEL.sub("", line, count=1).strip())
    thought_text = "\n".join(thoughts) if thoughts else None
    if len(actions) > 1:
        return Turn(thought_text, None, "several actions")
    if actions and actions[0]:
        return Turn(thought_text, actions[0])
    if thought_text is not None:
        return Turn(thought_text, None)
    return Turn(None, None, "empty")
