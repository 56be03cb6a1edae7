"""`RecordedModel`: a model that repeats the recorded answers of a run, and finds where the requests diverge."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import AsyncIterator
from contextlib import suppress

from ..errors import BadRequestError
from ..messages import AssistantMessage, Text
from ..orchestrator.model_call.ask import question_digest
from ..orchestrator.model_call.summarize import ASKS
from ..orchestrator.resources import Resources
from ..providers.base import Model, ModelEvent, ModelRequest, OutputSchema, Reply, ToolCallReady
from ..records import record
from ..storage.codec import encode_message
from ..usage import Tokens, UsageRecord
from .differences import FIELDS, added_tokens, are_equal, difference
from .recorded_run import RecordedExchange, RecordedRun
from .recorded_tools import ToolResults

_PATIENCE = 5.0
"""Seconds for which a summary is held back at most."""


@record(kw_only=True)
class Divergence:
    """The first difference between a run and its replay."""

    step: int
    where: str
    """The path in the request, such as `messages[2].content`; or `answer`, `status`, `requests`, `question`."""
    recorded: str
    replayed: str


class Playback:
    """The answers of one replay, in the order of its requests.

    After the first divergence, a *live* model answers; without one, the recorded answers continue in their order.
    """

    def __init__(self, run: RecordedRun, results: ToolResults, resources: Resources, live: Model | None) -> None:
        self.run = run
        self.divergence: Divergence | None = None
        self.usage: list[UsageRecord] = []
        """What the requests of the replay would be billed."""
        self.position = 0
        self._results = results
        self._resources = resources
        self._live = live
        self._summaries = list(run.summaries)
        self._sent = asyncio.Event()
        self._questions = {digest: list(answers) for digest, answers in run.questions.items()}
        below = run.journal.run.start.parent_id is not None  # its cache key names the path of the sub-agent
        self._compared = [name for name in FIELDS if not (below and name == "cache_key")]

    def diverge(self, step: int, where: str, recorded: str, replayed: str) -> None:
        """Note a difference, if it is the first one."""
        if self.divergence is None:
            self.divergence = Divergence(step=step, where=where, recorded=recorded, replayed=replayed)

    async def answer(self, request: ModelRequest) -> Reply:
        """Return the reply to *request*."""
        last = request.messages[-1] if request.messages else None
        if last is not None and last.role == "user" and last.text.startswith(ASKS):
            return await self._summary(request)
        if not request.cache_key:
            return await self._question(request)
        return await self._turn(request)

    async def _summary(self, request: ModelRequest) -> Reply:
        """Return the next recorded summary. It is ready when it was then: the requests before it must be sent."""
        if self.divergence is not None and self._live is not None:
            return await self._ask(request)
        if not self._summaries:
            raise BadRequestError("the journal has no further summary")
        sent, text = self._summaries.pop(0)
        with suppress(TimeoutError):  # changed code may wait for the summary before these requests
            async with asyncio.timeout(_PATIENCE):
                while self.position < sent and self.divergence is None:
                    self._sent.clear()
                    await self._sent.wait()
        return Reply(AssistantMessage((Text(text),)), None)

    async def _question(self, request: ModelRequest) -> Reply:
        if known := self._questions.get(question_digest(request)):
            return Reply(AssistantMessage((Text(known.pop(0)),)), None)
        self.diverge(self._step, "question", "nothing", encode_message(request.messages[-1]))
        if self._live is not None:
            return await self._ask(request)
        left = next((answers for answers in self._questions.values() if answers), None)
        if left is None:
            raise BadRequestError("the journal has no answer to this question")
        return Reply(AssistantMessage((Text(left.pop(0)),)), None)

    @property
    def _step(self) -> int:
        exchanges = self.run.exchanges
        return exchanges[min(self.position, len(exchanges) - 1)].step if exchanges else 1

    async def _turn(self, request: ModelRequest) -> Reply:
        exchanges = self.run.exchanges
        exchange = exchanges[self.position] if self.position < len(exchanges) else None
        same = exchange is not None and self._is_same(exchange, request)
        self.position += 1
        self._sent.set()
        if exchange is None:
            self.diverge(self._step, "requests", f"{len(exchanges)}", f"{self.position} or more")
        if self._live is not None and self.divergence is not None:
            reply = await self._ask(request)
            self._results.expect(reply.message)
            return reply
        if exchange is None or exchange.message is None:
            if exchange is not None:
                self.usage += exchange.usage
            raise BadRequestError(self.run.error or "the journal has no further answer")
        answered = exchange.answered
        tokens = None if answered is None else answered.tokens
        booked = exchange.usage
        if answered is not None and tokens is not None and not same:
            tokens = self._changed(tokens, exchange.request, request)
            booked = [self._priced(one, tokens) if one is answered else one for one in booked]
        self.usage += booked
        return Reply(exchange.message, tokens, receipt=None if answered is None else answered.receipt)

    def _is_same(self, exchange: RecordedExchange, request: ModelRequest) -> bool:
        before = exchange.request
        if are_equal(before, request, self._compared):
            return True
        found = difference(before, request, self._compared) if self.divergence is None else None
        if found is not None:
            self.diverge(exchange.step, *found)
        return self.divergence is None

    async def _ask(self, request: ModelRequest) -> Reply:
        assert self._live is not None
        live = self._live
        async for event in live.stream(dataclasses.replace(request, model=live.name)):
            if isinstance(event, Reply):
                served, tokens = event.message.model or live.name, event.tokens
                cost = None if tokens is None else self._resources.cost_of(live.provider, served, tokens, event.receipt)
                self.usage.append(
                    UsageRecord(
                        id=f"replay:{len(self.usage)}",
                        run_id=self.run.journal.run.start.run_id,
                        agent_path=self.run.journal.run.start.agent_path,
                        provider=live.provider,
                        model=served,
                        tokens=tokens or Tokens(),
                        source="unknown" if tokens is None else "measured",
                        cost=None if cost is None else cost[0],
                        price_version="" if cost is None else cost[1],
                    )
                )
                return event
        raise BadRequestError(f"{live.provider}:{live.name} did not answer")

    def _changed(self, tokens: Tokens, before: ModelRequest, after: ModelRequest) -> Tokens:
        """Return the tokens of a changed request: the measured ones, and the counted difference."""
        more = added_tokens(before, after, self._compared, self._resources.counter)
        prompt = max(tokens.prompt + more, 1)
        cached = min(tokens.cached, prompt)
        return dataclasses.replace(
            tokens, prompt=prompt, cached=cached, cache_write=min(tokens.cache_write, prompt - cached)
        )

    def _priced(self, recorded: UsageRecord, tokens: Tokens) -> UsageRecord:
        cost, version, _ = self._resources.cost_of(recorded.provider, recorded.model, tokens, recorded.receipt)
        how = "the recorded count, and the counted difference of the request"
        return dataclasses.replace(
            recorded, tokens=tokens, cost=cost, price_version=version, source="estimated", how=how
        )


class RecordedModel:
    """The model of a replay, under the name of the recorded one."""

    def __init__(self, spec: str, playback: Playback) -> None:
        self.provider, _, self.name = spec.partition(":")
        self.summarizes = bool(playback.run.summaries)
        self._playback = playback
        self._schemas = any(exchange.request.output_schema is not None for exchange in playback.run.exchanges)

    def takes_schema(self, schema: OutputSchema, *, tools: bool) -> bool:
        """Return whether the recorded model was sent schemas."""
        return self._schemas

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """Stream the recorded answer, or that of the live model."""
        reply = await self._playback.answer(request)
        for call in reply.message.tool_calls:
            yield ToolCallReady(call)
        yield reply

    async def close(self) -> None:
        """Do nothing: there are no connections to close."""
