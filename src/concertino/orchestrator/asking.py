"""Asking a model once: its pieces become events, and the attempt is booked, however it ends."""

from __future__ import annotations

import dataclasses
from typing import Any

from ..errors import BrokenStreamError
from ..events import ReasoningDelta, RunEvent, TextDelta, ToolCallDelta, UsageRecorded
from ..messages import AssistantMessage, Text
from ..providers.port import Model, ModelEvent, ModelRequest, ReasoningChunk, Reply, TextChunk, ToolCallChunk
from ..token_engine.window import message_text
from ..usage import Tokens, UsageRecord
from .hooks import Hooks
from .run import Run


class Asking:
    """One attempt at a model. Afterwards `message` is its answer, or what came of it before it broke.

    asking = Asking(run, hooks, model, request)
    try:
        async for chunk in asking.chunks:
            if (event := asking.take(chunk)) is not None:
                yield event
        yield await asking.settle()
    finally:
        await asking.close()
    """

    def __init__(self, run: Run[Any], hooks: Hooks, model: Model, request: ModelRequest) -> None:
        self._run = run
        self._hooks = hooks
        self._model = model
        self._request = request
        self._attempt = run.next_attempt()
        self._text: list[str] = []
        self._reasoning: list[str] = []
        self._reply: Reply | None = None
        self._settled = False
        self.message = AssistantMessage((), "broken", model.name)
        self.chunks = model.stream(request)

    def take(self, chunk: ModelEvent) -> RunEvent | None:
        """The event that a piece of the answer is for the consumer; None for the answer as a whole."""
        run = self._run
        if isinstance(chunk, TextChunk):
            self._text.append(chunk.text)
            return TextDelta(run.id, run.path, run.index.value, chunk.text)
        if isinstance(chunk, ReasoningChunk):
            self._reasoning.append(chunk.text)
            return ReasoningDelta(run.id, run.path, run.index.value, chunk.text)
        if isinstance(chunk, ToolCallChunk):
            return ToolCallDelta(run.id, run.path, run.index.value, chunk.id, chunk.name, chunk.arguments)
        self._reply = chunk
        return None

    async def settle(self) -> UsageRecorded:
        """Book the attempt, as the agent wants it booked. Raises `BrokenStreamError` if no whole answer came."""
        run, reply = self._run, self._reply
        if reply is None:
            raise BrokenStreamError("the answer ended without its end", provider=self._model.provider)
        self.message = reply.message
        record = self._record(reply)
        if self._hooks.has_own("calculate_usage"):
            try:
                changed = await self._hooks.ask("calculate_usage", run, record)
            except BaseException:
                self._book(record)  # as reported: an attempt is never lost
                raise
            record = dataclasses.replace(changed, id=record.id)
        self._book(record)
        return UsageRecorded(run.id, run.path, run.index.value, record)

    async def close(self) -> None:
        """End the attempt, however far it came.

        If it broke off, the text that came is kept as `message`, and an estimate is booked: a provider bills an
        answer that nobody read to its end. If the whole answer was there already, it counts as it is.
        """
        if not self._settled:
            text = "".join(self._text)
            broken = AssistantMessage((Text(text),) if text else (), "broken", self._model.name)
            self.message = broken if self._reply is None else self._reply.message
            self._book(self._record(self._reply))
        if (aclose := getattr(self.chunks, "aclose", None)) is not None:
            await aclose()

    def _book(self, record: UsageRecord) -> None:
        self._settled = True
        self._run.book(record)

    def _record(self, reply: Reply | None) -> UsageRecord:
        model = self._model
        served = self.message.model or model.name if reply is None else reply.message.model or model.name
        if reply is not None and reply.tokens is not None:
            tokens, source, how = reply.tokens, reply.source, reply.how
        else:
            tokens, source = self._estimate(reply), "estimated"
            how = f"counted with {self._run.chat.counter.name}"
        tools = tuple([call.name for call in self.message.tool_calls])
        return self._run.record(self._attempt, model.provider, served, tokens, tools, source=source, how=how)

    def _estimate(self, reply: Reply | None) -> Tokens:
        count = self._run.chat.counter.count
        request = self._request
        prompt = count(request.system) + sum(count(message_text(message)) for message in request.messages)
        prompt += sum(count(tool.text) for tool in request.tools)
        written = "".join(self._text) if reply is None else message_text(reply.message)
        reasoning = count("".join(self._reasoning))
        completion = count(written) + (reasoning if reply is None else 0)
        return Tokens(prompt=prompt, completion=completion, reasoning=reasoning)
