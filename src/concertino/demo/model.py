"""The demo model behind the port of all models: streaming, usage, and nothing of a language model."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from hashlib import blake2b

from ..messages import (
    AssistantMessage,
    MediaPart,
    Message,
    MessagePart,
    Opaque,
    StopReason,
    Text,
    ToolCall,
    ToolMessage,
)
from ..providers.base import ModelEvent, ModelRequest, Reply, TextChunk, ToolCallChunk, ToolCallReady
from ..usage import Tokens
from .decisions import decide, is_decision
from .roles import plan
from .transcript import PlannedCall


class DemoModel:
    """A `Model` that plays supervisor, researcher, worker and chat by fixed rules, and answers in quotes from sources.

    It is deterministic and keeps nothing between requests. Its part follows from the tools of the request. *count*
    counts tokens for its usage.
    """

    provider = "demo"
    name = "quotes"

    def __init__(self, count: Callable[[str], int]) -> None:
        self._count = count

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """Answer *request*: text paragraph by paragraph, or tool calls, then the reply."""
        # In a thread: long pages take time that other runs need.
        text, calls = await asyncio.to_thread(_decision if is_decision(request) else plan, request)
        text, stop = self._within(text, request.max_output_tokens)
        parts: list[MessagePart] = [Text(text)] if text else []
        for piece in _pieces(text):
            yield TextChunk(piece)
            await asyncio.sleep(0)
        for call in _with_ids(calls, request.messages):
            yield ToolCallChunk(call.id, call.name, call.arguments)
            yield ToolCallReady(call)
            parts.append(call)
            stop = "tool_calls"
        tokens = Tokens(prompt=self._prompt_tokens(request), completion=sum(self._count(_text(part)) for part in parts))
        yield Reply(AssistantMessage(tuple(parts), stop, self.name), tokens)

    async def close(self) -> None:
        """Do nothing: there are no connections."""

    def _within(self, text: str, limit: int | None) -> tuple[str, StopReason]:
        """Return as many whole paragraphs of *text* as fit into *limit* tokens."""
        if limit is None or self._count(text) <= limit:
            return text, "end"
        kept = ""
        for piece in _pieces(text):
            if self._count(kept + piece) > limit:
                break
            kept += piece
        return kept, "length"

    def _prompt_tokens(self, request: ModelRequest) -> int:
        tools = (f"{spec.name}\n{spec.description}\n{json.dumps(spec.parameters)}" for spec in request.tools)
        return sum(map(self._count, [request.system, *tools, *map(_message_text, request.messages)]))


def _decision(request: ModelRequest) -> tuple[str, Sequence[PlannedCall]]:
    return decide(request), ()


def _with_ids(calls: Sequence[PlannedCall], messages: Sequence[Message]) -> Iterator[ToolCall]:
    """Yield the calls with ids that are the same each time and unique within a conversation."""
    for index, call in enumerate(calls):
        arguments = json.dumps(call.arguments, ensure_ascii=False)
        seed = f"{len(messages)}\n{index}\n{call.name}\n{arguments}".encode(errors="surrogatepass")
        yield ToolCall("call_" + blake2b(seed, digest_size=10).hexdigest(), call.name, arguments)


def _pieces(text: str) -> Iterator[str]:
    yield from re.findall(r".+?(?:\n{2,}|\Z)", text, re.DOTALL)


def _message_text(message: Message) -> str:
    if isinstance(message, AssistantMessage):
        return "\n".join(map(_text, message.parts))
    return message.content if isinstance(message, ToolMessage) else message.text


def _text(part: MessagePart) -> str:
    if isinstance(part, MediaPart | Opaque):
        return ""
    return f"{part.name}\n{part.arguments}" if isinstance(part, ToolCall) else part.text
