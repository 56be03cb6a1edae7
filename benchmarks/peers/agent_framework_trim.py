"""agent-framework's `ContextWindowCompactionStrategy`: it annotates the messages and their list."""

from __future__ import annotations

from agent_framework import Content, ContextWindowCompactionStrategy, Message, apply_compaction

from benchmarks.trim import Shown

DISTRIBUTIONS = ("agent-framework-core",)
ANSWER = 2_000
"""Tokens reserved for the answer."""


class Conversation:
    """The list that a run's requests share, compacted as in the chat client."""

    def __init__(self, budget):
        self.messages = []
        self.strategy = ContextWindowCompactionStrategy(
            max_context_window_tokens=budget + ANSWER, max_output_tokens=ANSWER
        )


class Trim:
    keeps = True

    def open(self, budget):
        return Conversation(budget)

    def question(self, text):
        return Message("user", [Content.from_text(text)])

    def step(self, id, said, found):
        call = Content.from_function_call(id, "t", arguments="{}")
        result = Content.from_function_result(id, result=found)
        return Message("assistant", [Content.from_text(said), call]), Message("tool", [result])

    async def fit(self, conversation, new):
        conversation.messages += new
        return await apply_compaction(conversation.messages, strategy=conversation.strategy)

    def answered(self, conversation, new, sent):
        """Ignore the answer."""

    def shown(self, sent):
        return map(shown, sent)


def shown(message):
    calls = tuple(content.call_id for content in message.contents if content.type == "function_call")
    results = [content for content in message.contents if content.type == "function_result"]
    characters = len(message.text) + sum(len(content.result) for content in results)
    return Shown(calls, tuple(content.call_id for content in results), characters)


def build(_tool):
    return Trim()
