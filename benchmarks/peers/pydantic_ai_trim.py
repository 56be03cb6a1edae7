"""pydantic-ai's `ProcessHistory` with the processor of its documentation, which keeps the last messages.

The library counts no tokens and ships no trimming of its own; what is measured is the hook, called as the agent calls
it. It writes the messages that are left back into the conversation.
"""

from __future__ import annotations

from pydantic_ai import RunContext
from pydantic_ai.capabilities import ProcessHistory
from pydantic_ai.messages import ModelRequest, ModelResponse, TextPart, ToolCallPart, ToolReturnPart, UserPromptPart
from pydantic_ai.models import ModelRequestContext, ModelRequestParameters
from pydantic_ai.models.function import FunctionModel
from pydantic_ai.usage import RunUsage

from benchmarks.trim import FOUND, SAID, WORD, Shown

DISTRIBUTIONS = ("pydantic-ai-slim",)
STEP = len(WORD) * (SAID + FOUND) // 4
"""Tokens of a call and its result. The user of the library must derive the number of messages from it."""
PARAMETERS = ModelRequestParameters()


def model():
    async def answer(_messages, _info):
        return ModelResponse([TextPart("")])

    return FunctionModel(answer)


def keep_recent(count):
    async def keep(messages: list) -> list:
        return messages[-count:] if len(messages) > count else messages

    return keep


class Conversation:
    """The messages of a run, and the hook."""

    def __init__(self, budget):
        self.history = ProcessHistory(keep_recent(2 * (budget // STEP)))
        self.context = RunContext(deps=None, model=model(), usage=RunUsage())


class Trim:
    keeps = True

    def open(self, budget):
        return Conversation(budget)

    def question(self, text):
        return ModelRequest([UserPromptPart(text)])

    def step(self, id, said, found):
        call = ModelResponse([TextPart(said), ToolCallPart("t", "{}", id)])
        return call, ModelRequest([ToolReturnPart("t", found, id)])

    async def fit(self, conversation, new):
        context = conversation.context
        context.messages += new
        request = ModelRequestContext(
            model=context.model,
            messages=list(context.messages),
            model_settings=None,
            model_request_parameters=PARAMETERS,
        )
        return (await conversation.history.before_model_request(context, request)).messages

    def answered(self, conversation, new, sent):
        """Ignore the answer."""

    def shown(self, sent):
        return map(shown, sent)


def shown(message):
    calls = tuple(part.tool_call_id for part in message.parts if isinstance(part, ToolCallPart))
    results = tuple(part.tool_call_id for part in message.parts if isinstance(part, ToolReturnPart))
    texts = [part.content for part in message.parts if not isinstance(part, ToolCallPart)]
    return Shown(calls, results, sum(map(len, texts)))


def build(_tool):
    return Trim()
