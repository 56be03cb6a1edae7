"""The extractive model: rules behind the port of a model, for a demo without a key."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Sequence
from hashlib import blake2b

from ...messages import AssistantMessage, Message, Part, StopReason, Text, ToolCall, ToolMessage, ToolSpec
from ...usage import Tokens
from ..base import ModelEvent, ModelRequest, Reply, TextChunk, ToolCallChunk, ToolCallReady
from .roles import plan
from .splitting import split_pieces
from .turn import Turn

_PIECE = 400
_COUNTED = "extractive-count"


class ExtractiveModel:
    """A `Model` without weights: it splits questions, searches, and answers in sentences quoted from what it opened.

    It is deterministic and keeps nothing between requests: the same request always gives the same answer. What it
    does follows from the tools that it is offered; see `roles`. *count* is what usage is counted with.
    """

    provider = "extractive"
    name = "rules-1"

    def __init__(self, count: Callable[[str], int]) -> None:
        self._count = count

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """Answer *request*: text sentence by sentence, calls in pieces, then the reply. Raises nothing of its own."""
        # Reading long pages takes tens of milliseconds, which other conversations must not wait for.
        turn = await asyncio.to_thread(plan, request)
        prompt = self._prompt_tokens(request)
        parts: list[Part] = []
        text, stop = self._within(turn.text, request.max_output_tokens)
        for piece in split_pieces(text):
            yield TextChunk(piece)
            await asyncio.sleep(0)
        if text:
            parts.append(Text(text))
        for call in _identified(turn, request.messages):
            yield ToolCallChunk(call.id, call.name, "")
            for start in range(0, len(call.arguments), _PIECE):
                yield ToolCallChunk(call.id, call.name, call.arguments[start : start + _PIECE])
                await asyncio.sleep(0)
            yield ToolCallReady(call)
            parts.append(call)
            stop = "tool_calls"
        message = AssistantMessage(tuple(parts), stop, self.name)
        tokens = Tokens(prompt=prompt, completion=self._count_parts(parts))
        yield Reply(message, tokens)

    async def close(self) -> None:
        """There is nothing to release."""

    def _within(self, text: str, limit: int | None) -> tuple[str, StopReason]:
        """*text*, cut after the last sentence that fits into *limit* tokens."""
        if limit is None or self._count(text) <= limit:
            return text, "end"
        kept = ""
        for piece in split_pieces(text):
            if self._count(kept + piece) > limit:
                break
            kept += piece
        return kept, "length"

    def _prompt_tokens(self, request: ModelRequest) -> int:
        tools = sum(self._count(_tool_text(spec)) for spec in request.tools)
        return self._count(request.system) + tools + sum(self._message_tokens(one) for one in request.messages)

    def _message_tokens(self, message: Message) -> int:
        """Each message is counted once; with another counter in between it is counted again."""
        counter, tokens = message.wire(_COUNTED, lambda one: (self._count, self._count(_message_text(one))))
        return tokens if counter is self._count else self._count(_message_text(message))

    def _count_parts(self, parts: Sequence[Part]) -> int:
        return sum(self._count(_part_text(part)) for part in parts)


def _identified(turn: Turn, messages: Sequence[Message]) -> list[ToolCall]:
    """The calls with ids that are the same each time and occur once in a conversation."""
    found: list[ToolCall] = []
    for place, call in enumerate(turn.calls):
        arguments = call.text
        seed = f"{len(messages)}\n{place}\n{call.name}\n{arguments}".encode(errors="surrogatepass")
        found.append(ToolCall("call_" + blake2b(seed, digest_size=10).hexdigest(), call.name, arguments))
    return found


def _tool_text(spec: ToolSpec) -> str:
    return f"{spec.name}\n{spec.description}\n{json.dumps(spec.parameters, ensure_ascii=False, default=str)}"


def _message_text(message: Message) -> str:
    if isinstance(message, AssistantMessage):
        return "\n".join(_part_text(part) for part in message.parts)
    return message.content if isinstance(message, ToolMessage) else message.text


def _part_text(part: Part) -> str:
    if part.kind == "opaque":
        return ""
    return f"{part.name}\n{part.arguments}" if isinstance(part, ToolCall) else part.text
