"""An agent behind any OpenAI-compatible chat endpoint (vLLM, a hosted model), greedy and seeded.

The model sees the transcript as it is; the reply's first choice is the turn. Whatever goes wrong between here and the
server is InfrastructureError after the client library's own bounded retries with back-off, and never an outcome.
"""

import os
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import Field

from pipeline.agents.protocol import AgentParameters, Completion, ContextLimit, InfrastructureError, Message


class OpenAIParameters(AgentParameters):
    """Parameters of the kind `openai`."""

    model: str = Field(description="Model name as the server knows it.")
    base_url: str = Field(description="The endpoint, with its /v1.")
    revision: str | None = Field(None, description="The weights' revision; recorded in the agent's identity.")
    api_key_variable: str = Field("OPENAI_API_KEY", description="Environment variable that holds the key; unset: none.")
    temperature: float = Field(0.0, ge=0, description="0 = greedy.")
    seed: int = Field(0, ge=0, description="Sampling seed sent with every request.")
    max_tokens: int = Field(200, ge=1, description="Limit of one completion, in tokens.")
    stop: list[str] = Field(["\n\n", "\nObservation:"], description="Stop sequences.")
    timeout: float = Field(120.0, gt=0, description="Seconds for one request.")
    retries: int = Field(4, ge=0, description="Retries of one request, with back-off.")
    chat_template_kwargs: dict[str, Any] = Field({}, description="Passed to the server's chat template.")


class OpenAIAgent:
    """See the module; implements `pipeline.agents.protocol.Agent`."""

    def __init__(self, parameters: OpenAIParameters, code: str):
        """`code` is the digest of this module's code, part of the identity."""
        from openai import OpenAI

        self.parameters = parameters
        self._code = code
        self._client = OpenAI(
            base_url=parameters.base_url,
            # The library insists on a key; servers of one's own ask for none.
            api_key=os.environ.get(parameters.api_key_variable) or "none",
            timeout=parameters.timeout,
            max_retries=parameters.retries,
        )

    @property
    def identity(self) -> Mapping[str, Any]:
        """What determines the replies: kind, parameters but for address, key and patience, code, model revision."""
        plain = self.parameters.model_dump(exclude={"base_url", "api_key_variable", "timeout", "retries"})
        return {"kind": "openai", "parameters": plain, "code": self._code, "model_revision": self.parameters.revision}

    def complete(self, messages: Sequence[Message]) -> Completion:
        """Ask for one turn. Raises ContextLimit where the server says the prompt is too long, else InfrastructureError."""
        from openai import BadRequestError, OpenAIError

        asked = self.parameters
        try:
            reply = self._client.chat.completions.create(
                model=asked.model,
                messages=[{"role": message.role, "content": message.content} for message in messages],
                temperature=asked.temperature,
                seed=asked.seed,
                max_tokens=asked.max_tokens,
                stop=asked.stop,
                extra_body={"chat_template_kwargs": asked.chat_template_kwargs} if asked.chat_template_kwargs else None,
            )
        except BadRequestError as error:
            if "context" in str(error).lower() and "length" in str(error).lower():
                raise ContextLimit(str(error)) from error
            raise InfrastructureError(str(error)) from error
        except OpenAIError as error:
            raise InfrastructureError(str(error)) from error
        except ValueError as error:
            raise InfrastructureError(f"the server's reply is no JSON: {error}") from error
        choices = getattr(reply, "choices", None)
        if not choices or choices[0].message is None:
            raise InfrastructureError("the server's reply holds no choice")
        usage = reply.usage
        return Completion(
            choices[0].message.content or "",
            usage.prompt_tokens if usage else None,
            usage.completion_tokens if usage else None,
        )
