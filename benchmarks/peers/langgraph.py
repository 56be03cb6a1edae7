"""langchain's `create_agent` on langgraph, with a subclass of `BaseChatModel`; a conversation is its messages.

A checkpointer would keep every step's state besides; usage is the sum of what its messages carry.
"""

from __future__ import annotations

import json
import os

os.environ["LANGSMITH_TRACING"] = "false"

from langchain.agents import create_agent
from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult

from benchmarks.common import COMPLETION_TOKENS, PROMPT_TOKENS, QUESTION, SCRIPT, Outcome

DISTRIBUTIONS = ("langgraph", "langchain")
NO_LIMIT = {"recursion_limit": 1_000_000}


def usage():
    return {
        "input_tokens": PROMPT_TOKENS,
        "output_tokens": COMPLETION_TOKENS,
        "total_tokens": PROMPT_TOKENS + COMPLETION_TOKENS,
    }


def booked(messages):
    rows = [message.usage_metadata for message in messages if message.type == "ai"]
    return sum(row["input_tokens"] for row in rows), sum(row["output_tokens"] for row in rows)


class ScriptedChatModel(BaseChatModel):
    @property
    def _llm_type(self):
        return "scripted"

    def bind_tools(self, tools, **kwargs):
        return self

    def _generate(self, messages, stop=None, run_manager=None, **kwargs):
        raise NotImplementedError

    async def _agenerate(self, messages, stop=None, run_manager=None, **kwargs):
        turn = await SCRIPT.get().next(len(messages))
        calls = [
            {"name": call.name, "args": json.loads(call.arguments), "id": call.id, "type": "tool_call"}
            for call in turn.calls
        ]
        message = AIMessage(content=turn.text, tool_calls=calls, usage_metadata=usage())
        return ChatResult(generations=[ChatGeneration(message=message)])

    async def _astream(self, messages, stop=None, run_manager=None, **kwargs):
        turn = await SCRIPT.get().next(len(messages))
        for delta in turn.deltas:
            yield ChatGenerationChunk(message=AIMessageChunk(content=delta))
        yield ChatGenerationChunk(message=AIMessageChunk(content="", usage_metadata=usage(), chunk_position="last"))


class LangGraph:
    def __init__(self, tool):
        self.agent = create_agent(ScriptedChatModel(), [tool])

    async def run(self, conversation=None, *, keep=False):
        asked = [*(conversation or []), {"role": "user", "content": QUESTION}]
        state = await self.agent.ainvoke({"messages": asked}, NO_LIMIT)
        messages = state["messages"]
        return Outcome(messages[-1].content, lambda: booked(messages[len(asked) :]), messages if keep else None)

    async def stream(self):
        asked = {"messages": [{"role": "user", "content": QUESTION}]}
        async for chunk, _metadata in self.agent.astream(asked, NO_LIMIT, stream_mode="messages"):
            if chunk.content:
                yield chunk.content


build = LangGraph
