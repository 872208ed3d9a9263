"""One running episode: the only place where budgets, messages, steps and exits are kept (protocol.md sections 1 and 2).

Factual runs, trunks and branches all go through `Session`. A prefix is rebuilt by feeding the recorded outputs to the
same `advance` that took them first, so a replayed prefix cannot differ from its origin except through the environment,
and that is what the hashes at the fork check.
"""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, replace

from pipeline.agents.protocol import Agent, Completion, ContextLimit, InfrastructureError, Message
from pipeline.config.models import Harness
from pipeline.environment.interface import TextEnvironment
from pipeline.harness.conditions import Condition
from pipeline.harness.operators import Operator
from pipeline.harness.parse import parse_turn
from pipeline.harness.prompt import agent_digest, opening, room_text
from pipeline.records.episodes import Episode, Step


@dataclass(frozen=True)
class Altered:
    """Replies to the agent's actions k … k + length - 1 are shown as the condition has them."""

    condition: Condition
    k: int
    length: int = 1

    def covers(self, number: int) -> bool:
        """Whether the reply to the agent's action `number` is altered."""
        return self.k <= number < self.k + self.length


class Session:
    """A task being played: feed it outputs (`advance`), apply a recovery (`intervene`), read `exit` when it has ended."""

    def __init__(self, task: str, environment: TextEnvironment, harness: Harness, altered: Altered | None = None):
        """Reset the environment and show observation 0."""
        self.task = task
        self.environment = environment
        self.harness = harness
        self.altered = altered
        self.exit: str | None = None
        self.turns = 0
        self.actions = 0
        self.agent_actions = 0
        self.prompt_tokens: int | None = None
        self.completion_tokens: int | None = None
        self.messages: list[Message] = []
        self.steps: list[Step] = []
        self._hash = hashlib.sha256()
        observation = environment.reset()
        # texts[n] belongs to the agent's action n; stale texts are taken from here, so they are always true ones.
        self._texts = [self._with_admissible(room_text(observation))]
        rules, first = opening(observation, environment.verb, harness)
        first = Message(first.role, self._with_admissible(first.content))
        self._say(rules)
        self._say(first)
        self._record("reset", None, None, observation, first.content)

    def run(self, agent: Agent) -> Episode:
        """Let the agent play until the episode ends; the trajectory so far is kept however it ends.

        An agent's context limit and failing infrastructure are exits, not exceptions; anything else is a fault of ours
        and propagates.
        """
        while self.exit is None:
            try:
                completion = agent.complete(self.messages)
            except ContextLimit:
                self.exit = "context-limit"
            except InfrastructureError:
                self.exit = "infrastructure"
            else:
                self.advance(completion.text)
                self._count_tokens(completion)
        return self.episode(agent)

    def advance(self, output: str) -> None:
        """One turn of the agent: parse, act, observe. Raises RuntimeError where the episode has ended."""
        if self.exit is not None:
            raise RuntimeError(f"{self.task}: the episode has ended ({self.exit})")
        self.turns += 1
        turn = parse_turn(output)
        self._say(Message("assistant", output))
        if turn.gives_up:
            self._record("give-up", output, None, None, None)
            self.exit = "gave-up"
        elif turn.action is not None:
            self._act(output, turn.action)
        elif turn.problem is None:
            self._reply("think", output, self.harness.thought_reply)
        else:
            self._reply("unparseable", output, self.harness.unparseable_reply)
        if self.exit is None and self.turns >= self.harness.turns:
            self.exit = "turn-limit"

    def replay(self, outputs: Iterable[str]) -> bool:
        """Feed recorded outputs; nothing is generated, no tokens are counted. False: the episode ended before the last."""
        for output in outputs:
            if self.exit is not None:
                return False
            self.advance(output)
        return True

    def intervene(self, operator: Operator) -> None:
        """Apply a recovery before the next turn. Raises RuntimeError where the episode has ended."""
        if self.exit is not None:
            raise RuntimeError(f"{self.task}: the episode has ended ({self.exit}); there is nothing to recover")
        if not operator.applies:
            return
        self._say(Message("assistant", operator.line))
        reply = None
        if operator.action is not None:
            reply = self.environment.step(operator.action)
            self.actions += self.harness.recovery_counts_action
        self.turns += self.harness.recovery_counts_turn
        shown = self._with_admissible(reply) if operator.reply is None else operator.reply
        self._say(Message("user", shown))
        self._record("recover", operator.line, operator.action, reply, shown)
        if self.actions >= self.harness.actions:
            self.exit = "action-limit"
        elif self.turns >= self.harness.turns:
            self.exit = "turn-limit"

    def episode(self, agent: Agent) -> Episode:
        """The episode so far as a record of that agent's."""
        return Episode(
            task=self.task,
            condition=self.altered.condition.name if self.altered else "clean",
            agent=agent_digest(agent, self.harness),
            success=self.exit == "success",
            exit=self.exit or "infrastructure",
            turns=self.turns,
            actions=self.actions,
            altered_at=self.altered.k if self.altered else None,
            steps=self.steps,
            transcript_hash=self.transcript_hash,
            prompt_tokens=self.prompt_tokens,
            completion_tokens=self.completion_tokens,
        )

    @property
    def transcript_hash(self) -> str:
        """Running sha256 over role and content of every message so far, in hex."""
        return self._hash.hexdigest()

    def _act(self, output: str, action: str) -> None:
        reply = self.environment.step(action)
        self.actions += 1
        self.agent_actions += 1
        self._texts.append(self._with_admissible(reply))
        altered = self.altered is not None and self.altered.covers(self.agent_actions)
        shown = self.altered.condition.shown(self._texts) if altered else self._texts[-1]
        self._say(Message("user", shown))
        self._record("act", output, action, reply, shown)
        if self.environment.won:
            self.exit = "success"
        elif self.actions >= self.harness.actions:
            self.exit = "action-limit"

    def _reply(self, kind: str, output: str, reply: str) -> None:
        self._say(Message("user", reply))
        self._record(kind, output, None, None, reply)

    def _with_admissible(self, text: str) -> str:
        # The list comes from the same step as the text: a stale text brings its own stale list, else it would leak the
        # true state (protocol.md section 1, [D]).
        if not self.harness.admissible_in_prompt:
            return text
        return f"{text}\nAdmissible actions: {', '.join(self.environment.admissible())}"

    def _say(self, message: Message) -> None:
        self.messages.append(message)
        self._hash.update(f"{message.role}\0{message.content}\0".encode())

    def _record(self, kind: str, output: str | None, action: str | None, true: str | None, shown: str | None) -> None:
        self.steps.append(
            Step(
                index=len(self.steps),
                kind=kind,
                output=output,
                action=action,
                observation_true=true,
                observation_shown=shown,
                state_hash=self.environment.state_hash(),
                transcript_hash=self.transcript_hash,
                rejection=self.environment.last_rejection if kind == "act" else None,
            )
        )

    def _count_tokens(self, completion: Completion) -> None:
        """Add a call's tokens to the episode's and note them with the step that the call made."""
        spent = {name: getattr(completion, name) for name in ("prompt_tokens", "completion_tokens")}
        self.steps[-1] = replace(self.steps[-1], **spent)
        for name, count in spent.items():
            if count is not None:
                setattr(self, name, (getattr(self, name) or 0) + count)
