"""langchain's `trim_messages`, on all messages for each request, without state between requests."""

from __future__ import annotations

from langchain_core.messages import AIMessage, HumanMessage, ToolMessage, trim_messages
from langchain_core.messages.utils import count_tokens_approximately

from benchmarks.trim import Shown

DISTRIBUTIONS = ("langchain", "langchain-core")


class Conversation:
    """All messages, as in the state of a graph."""

    def __init__(self, budget):
        self.budget = budget
        self.messages = []


class Trim:
    keeps = False

    def open(self, budget):
        return Conversation(budget)

    def question(self, text):
        return HumanMessage(text)

    def step(self, id, said, found):
        return AIMessage(said, tool_calls=[{"id": id, "name": "t", "args": {}}]), ToolMessage(found, tool_call_id=id)

    async def fit(self, conversation, new):
        conversation.messages += new
        return trim_messages(
            conversation.messages,
            max_tokens=conversation.budget,
            token_counter=count_tokens_approximately,
            strategy="last",
        )

    def answered(self, conversation, new, sent):
        """Ignore the answer."""

    def shown(self, sent):
        return map(shown, sent)


def shown(message):
    calls = tuple(call["id"] for call in message.tool_calls) if isinstance(message, AIMessage) else ()
    results = (message.tool_call_id,) if isinstance(message, ToolMessage) else ()
    return Shown(calls, results, len(message.content))


def build(_tool):
    return Trim()
