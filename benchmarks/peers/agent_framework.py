"""agent-framework with a chat client of the usual layers; a conversation is an `AgentSession`."""

from __future__ import annotations

from agent_framework import (
    Agent,
    BaseChatClient,
    ChatMiddlewareLayer,
    ChatResponse,
    ChatResponseUpdate,
    Content,
    FunctionInvocationLayer,
    Message,
)
from agent_framework.observability import ChatTelemetryLayer

from benchmarks.common import COMPLETION_TOKENS, PROMPT_TOKENS, QUESTION, SCRIPT, Outcome

DISTRIBUTIONS = ("agent-framework-core",)


def usage():
    return {
        "input_token_count": PROMPT_TOKENS,
        "output_token_count": COMPLETION_TOKENS,
        "total_token_count": PROMPT_TOKENS + COMPLETION_TOKENS,
    }


class ScriptedClient(FunctionInvocationLayer, ChatMiddlewareLayer, ChatTelemetryLayer, BaseChatClient):
    def _inner_get_response(self, *, messages, stream, options, **kwargs):
        if stream:
            return self._build_response_stream(self._pieces(messages))
        return self._whole(messages)

    async def _whole(self, messages):
        turn = await SCRIPT.get().next(len(messages))
        contents = [Content.from_function_call(c.id, c.name, arguments=c.arguments) for c in turn.calls]
        if turn.deltas:
            contents.append(Content.from_text(turn.text))
        return ChatResponse(messages=[Message("assistant", contents)], usage_details=usage())

    async def _pieces(self, messages):
        turn = await SCRIPT.get().next(len(messages))
        for delta in turn.deltas:
            yield ChatResponseUpdate(role="assistant", contents=[Content.from_text(delta)])
        yield ChatResponseUpdate(role="assistant", contents=[Content.from_usage(usage())])


class AgentFramework:
    def __init__(self, tool):
        client = ScriptedClient(function_invocation_configuration={"max_iterations": 1_000_000})
        self.agent = Agent(client=client, name="bench", tools=[tool])

    async def run(self, conversation=None, *, keep=False):
        session = conversation or (self.agent.create_session() if keep else None)
        response = await self.agent.run(QUESTION, session=session)
        used = response.usage_details
        return Outcome(response.text, lambda: (used["input_token_count"], used["output_token_count"]), session)

    async def stream(self):
        async for update in self.agent.run(QUESTION, stream=True):
            if update.text:
                yield update.text


build = AgentFramework
