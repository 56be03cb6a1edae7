"""concertino's token engine alone: it keeps its counts, and takes each message once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from benchmarks.trim import Shown
from concertino.messages import AssistantMessage, Message, Messages, Text, ToolCall, ToolMessage, UserMessage
from concertino.token_engine import EstimatingCounter, Retention, TokenEngine
from concertino.usage import Tokens

DISTRIBUTIONS: tuple[str, ...] = ("concertino",)
MODEL = "anthropic:claude-sonnet-4-5"
RESERVE = 2_000
"""Tokens reserved for the answer."""
FIXED = {"system prompt": "", "tools": ""}


class _Conversation:
    """An engine, and the usage of its last request."""

    def __init__(self, budget: int) -> None:
        self.engine = TokenEngine(EstimatingCounter(), budget + RESERVE, Retention(summaries=False))
        self.billed = 0
        self.edited = False


class _Trim:
    keeps = True

    def open(self, budget: int) -> _Conversation:
        return _Conversation(budget)

    def question(self, text: str) -> Message:
        return UserMessage(text)

    def step(self, id: str, said: str, found: str) -> Sequence[Message]:
        return AssistantMessage((Text(said), ToolCall(id, "t", "{}"))), ToolMessage(id, "t", found)

    async def fit(self, conversation: _Conversation, new: Sequence[Message]) -> Messages:
        engine, billed = conversation.engine, conversation.billed
        if billed:
            engine.observe(Tokens(prompt=billed, cached=billed))
        for message in new:
            engine.append(message)
        engine.plan(FIXED, RESERVE, MODEL)
        conversation.edited = bool(engine.fit())
        return engine.view()

    def answered(self, conversation: _Conversation, new: Sequence[Message], sent: Messages) -> None:
        before = 0 if conversation.edited else conversation.billed
        conversation.billed = before + _tokens(sent if conversation.edited else new)

    def shown(self, sent: Messages) -> Iterable[Shown]:
        return map(_shown, sent)


def _tokens(messages: Iterable[Message]) -> int:
    return sum(_shown(message).characters for message in messages) // 4


def _shown(message: Message) -> Shown:
    if isinstance(message, AssistantMessage):
        calls = tuple(part.id for part in message.parts if isinstance(part, ToolCall))
        return Shown(calls=calls, characters=sum(len(part.text) for part in message.parts if isinstance(part, Text)))
    if isinstance(message, ToolMessage):
        return Shown(results=(message.call_id,), characters=len(message.content))
    return Shown(characters=len(message.text))


def build(_tool: Callable[..., Any] | None) -> _Trim:
    """Return the factory of conversations; the engine needs no tool."""
    return _Trim()
