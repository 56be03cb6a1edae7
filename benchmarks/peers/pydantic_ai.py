"""pydantic-ai with its own `FunctionModel`; a conversation is the list of its messages."""

from __future__ import annotations

from pydantic_ai import Agent, PartDeltaEvent, PartStartEvent, TextPart, TextPartDelta, UsageLimits
from pydantic_ai.messages import ModelResponse, ToolCallPart
from pydantic_ai.models.function import FunctionModel
from pydantic_ai.usage import RequestUsage

from benchmarks.common import COMPLETION_TOKENS, PROMPT_TOKENS, QUESTION, SCRIPT, Outcome

DISTRIBUTIONS = ("pydantic-ai-slim",)
NO_LIMITS = UsageLimits(request_limit=None)


async def answer(messages, _info):
    turn = await SCRIPT.get().next(len(messages))
    usage = RequestUsage(input_tokens=PROMPT_TOKENS, output_tokens=COMPLETION_TOKENS)
    if turn.calls:
        parts = [ToolCallPart(call.name, call.arguments, call.id) for call in turn.calls]
        return ModelResponse(parts, usage=usage)
    return ModelResponse([TextPart(turn.text)], usage=usage)


async def answer_in_pieces(messages, _info):
    turn = await SCRIPT.get().next(len(messages))
    for delta in turn.deltas:
        yield delta


class PydanticAI:
    def __init__(self, tool):
        self.agent = Agent(FunctionModel(answer, stream_function=answer_in_pieces), tools=[tool])

    async def run(self, conversation=None, *, keep=False):
        result = await self.agent.run(QUESTION, message_history=conversation, usage_limits=NO_LIMITS)
        return Outcome(
            result.output,
            lambda: (result.usage.input_tokens, result.usage.output_tokens),
            result.all_messages() if keep else None,
        )

    async def stream(self):
        async with self.agent.run_stream_events(QUESTION, usage_limits=NO_LIMITS) as events:
            async for event in events:
                if isinstance(event, PartDeltaEvent) and isinstance(event.delta, TextPartDelta):
                    yield event.delta.content_delta
                elif isinstance(event, PartStartEvent) and isinstance(event.part, TextPart):
                    yield event.part.content


build = PydanticAI
