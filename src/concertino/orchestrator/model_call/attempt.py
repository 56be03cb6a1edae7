"""Asking a model once: its pieces become events, and the attempt is booked, however it ends."""

from __future__ import annotations

import dataclasses
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any

from ...errors import BrokenStreamError, ProviderError, RateLimitError
from ...events import Notice, ReasoningDelta, RunEvent, TextDelta, ToolCallDelta, UsageRecorded
from ...ids import new_call_id
from ...messages import AssistantMessage, Part, Text, ToolCall
from ...providers.base import (
    Dropped,
    Model,
    ModelEvent,
    ModelRequest,
    ReasoningChunk,
    Reply,
    TextChunk,
    ToolCallChunk,
    ToolCallReady,
)
from ...providers.rate_limit import RateLimit
from ...token_engine.counting.sizes import message_text
from ...usage import Tokens, UsageRecord, UsageSource
from ..hooks import Hooks
from ..run import Run
from .budget import tokens_of
from .retry import not_billed


class Asking:
    """One attempt at a model. Afterwards `message` is its answer, or what came of it before it broke.

    asking = Asking(run, hooks, model, request, attempt)
    try:
        async for chunk in asking.chunks:
            if (event := asking.take(chunk)) is not None:
                yield event
        yield await asking.settle()
    finally:
        await asking.close()
    """

    __slots__ = (
        "_arguments",
        "_chunks",
        "_gate",
        "_hooks",
        "_model",
        "_reasoning",
        "_renamed",
        "_reply",
        "_request",
        "_run",
        "_sent",
        "_settled",
        "_text",
        "_usage",
        "message",
        "ready",
    )

    def __init__(self, run: Run[Any], hooks: Hooks, model: Model, request: ModelRequest, usage: str) -> None:
        self._run = run
        self._hooks = hooks
        self._model = model
        self._request = request
        self._usage = usage
        self._text: list[str] = []
        self._reasoning: list[str] = []
        self._arguments: list[str] = []
        self._renamed: dict[str, str] = {}
        self._reply: Reply | None = None
        self._settled = False
        self.ready: list[ToolCall] = []
        """The calls whose arguments are complete, in order."""
        self.message = AssistantMessage((), "broken", model.name)
        self._sent = False
        self._gate = gate = run.chat.gates.get(model.provider) if run.chat.gates else None
        self._chunks = model.stream(request) if gate is None else self._admitted(gate)

    @property
    def chunks(self) -> AsyncIterator[ModelEvent]:
        """The pieces of the answer: whoever iterates them sends the request."""
        self._sent = self._gate is None
        return self._chunks

    async def _admitted(self, gate: RateLimit) -> AsyncIterator[ModelEvent]:
        """The stream, behind the gate of the provider's key. A rate limit that one meets holds for all."""
        run, longest = self._run, self._run.chat.retry.longest
        tokens = run.reserve.prompt(self._request) + (self._request.max_output_tokens or run.limits.output)
        place = gate.admit(run.chat.session.user_id, tokens, model=self.model_id, longest=longest)
        async with place, aclosing(self._model.stream(self._request)) as chunks:  # type: ignore[type-var]  # all streams are generators
            self._sent = True
            try:
                async for chunk in chunks:
                    yield chunk
            except RateLimitError as error:
                delay = error.retry_after or min(1.0, longest)
                gate.pause(delay, self.model_id if delay > longest else "")
                raise

    @property
    def model_id(self) -> str:
        """The id of the model that is asked."""
        return f"{self._model.provider}:{self._model.name}"

    @property
    def tokens(self) -> Tokens | None:
        """What the provider has measured; None: nothing."""
        return self._reply.tokens if self._reply is not None and self._reply.source == "measured" else None

    @property
    def answered(self) -> bool:
        """Whether the whole answer has come."""
        return self._reply is not None

    def take(self, chunk: ModelEvent) -> RunEvent | None:
        """The event that a piece of the answer is for the consumer; None for what is none."""
        run = self._run
        if isinstance(chunk, TextChunk):
            self._text.append(chunk.text)
            return TextDelta(run.id, run.path, run.index.value, chunk.text)
        if isinstance(chunk, ReasoningChunk):
            self._reasoning.append(chunk.text)
            return ReasoningDelta(run.id, run.path, run.index.value, chunk.text)
        if isinstance(chunk, ToolCallChunk):
            self._arguments.append(chunk.arguments)
            call_id = chunk.id if chunk.id and chunk.id not in run.call_ids else self._own_id(chunk.id)
            return ToolCallDelta(run.id, run.path, run.index.value, call_id, chunk.name, chunk.arguments)
        if isinstance(chunk, ToolCallReady):
            self.ready.append(self._own_call(chunk.call))
            return None
        if isinstance(chunk, Dropped):
            told = f"not sent to {self.model_id}: {'; '.join(chunk.what)}"
            return Notice(run.id, run.path, run.index.value, "not_sent", told)
        self._reply = dataclasses.replace(chunk, message=message) if (message := self._own(chunk.message)) else chunk
        return None

    def _own_id(self, call_id: str) -> str:
        """Another id in place of *call_id*: some servers count from 0 in each answer, and no provider takes the same id
        twice in a conversation."""
        return self._renamed.setdefault(call_id, new_call_id())

    def _own_call(self, call: ToolCall) -> ToolCall:
        if call.id and call.id not in self._run.call_ids:
            return call
        return dataclasses.replace(call, id=self._own_id(call.id))

    def _own(self, message: AssistantMessage) -> AssistantMessage | None:
        """*message* with ids that are its calls' own; None if they are."""
        calls = message.tool_calls
        ids = {call.id for call in calls}
        if len(ids) == len(calls) and "" not in ids and ids.isdisjoint(self._run.call_ids):
            return None
        parts: list[Part] = []
        seen: set[str] = set()
        for part in message.parts:
            if part.kind == "tool_call":
                part = self._own_call(part)  # noqa: PLW2901
                if part.id in seen:
                    part = dataclasses.replace(part, id=new_call_id())  # noqa: PLW2901
                seen.add(part.id)
            parts.append(part)
        return dataclasses.replace(message, parts=tuple(parts))

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

    @property
    def seen(self) -> bool:
        """Whether the consumer has seen a part of the answer."""
        return bool(self._text or self._reasoning or self._arguments or self.ready)

    async def close(self, error: BaseException | None = None) -> None:
        """End the attempt, however far it came; *error* is what ended it.

        If it broke off, the text that came is kept as `message`, and an estimate is booked: a provider bills an
        answer that nobody read to its end, but nothing that it refused or never got. If the whole answer was there
        already, it counts as it is.
        """
        if not self._settled:
            self.message = self._broken(error) if self._reply is None else self._reply.message
            counted = isinstance(error, ProviderError) and error.tokens is not None
            free = (not self._sent or (not_billed(error) and not counted)) and not self.seen and self._reply is None
            self._book(self._free(error) if free else self._record(self._reply, error))
        if (aclose := getattr(self._chunks, "aclose", None)) is not None:
            await aclose()

    def _broken(self, error: BaseException | None) -> AssistantMessage:
        """What came of the answer: its reasoning and complete calls too, where the provider's adapter can tell."""
        if isinstance(error, ProviderError) and error.partial is not None:
            return self._own(error.partial) or error.partial
        text = "".join(self._text)
        return AssistantMessage((Text(text),) if text else (), "broken", self._model.name)

    def _book(self, record: UsageRecord) -> None:
        self._settled = True
        self._run.book(record)

    def _record(self, reply: Reply | None, error: BaseException | None = None) -> UsageRecord:
        """What the provider has counted, also of an answer that ended in *error*; what it has not is estimated."""
        model = self._model
        served = self.message.model or model.name if reply is None else reply.message.model or model.name
        tools = tuple([call.name for call in self.message.tool_calls])
        source: UsageSource
        if reply is not None and reply.tokens is not None:
            tokens, source, how = reply.tokens, reply.source, reply.how
        elif reply is None and isinstance(error, ProviderError) and error.tokens is not None:
            tokens, source, how = error.tokens, "measured", ""
            if not error.final:
                how = f"output {self._how}, input as reported" if tokens.prompt else self._how
                tokens, source = self._to_here(tokens), "estimated"
        else:
            tokens, source, how = self._estimate(reply), "estimated", self._how
        return self._run.record(self._usage, model.provider, served, tokens, tools, source=source, how=how)

    @property
    def _how(self) -> str:
        return f"counted with {self._run.chat.counter.name}"

    def _to_here(self, told: Tokens) -> Tokens:
        """What the provider had *told* before an answer broke off, and what had come of it since."""
        seen = self._estimate(None)
        return dataclasses.replace(
            told,
            prompt=told.prompt or seen.prompt,
            completion=max(told.completion, seen.completion),
            reasoning=max(told.reasoning, seen.reasoning),
        )

    def _free(self, error: BaseException | None) -> UsageRecord:
        how = f"not {'answered' if self._sent else 'sent'}, so not billed"
        how = how if error is None else f"{how}: {type(error).__name__}"
        model = self._model
        return self._run.record(self._usage, model.provider, model.name, Tokens(), (), how=how)

    def _estimate(self, reply: Reply | None) -> Tokens:
        count, prompt = self._run.chat.counter.count, tokens_of(self._request, self._run.chat.counter)
        written = "".join(self._text + self._arguments) if reply is None else message_text(reply.message)
        reasoning = count("".join(self._reasoning))
        completion = count(written) + (reasoning if reply is None else 0)
        return Tokens(prompt=prompt, completion=completion, reasoning=reasoning)
