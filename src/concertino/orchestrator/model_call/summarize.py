"""Summaries of older messages, written by the run's own model through its cached prefix while the run continues.

A summary that fails changes nothing: the messages stay, or are left out where they no longer fit.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from typing import Any

from ...errors import HookError
from ...messages import AssistantMessage, UserMessage
from ...providers.base import Model, ModelRequest
from ...token_engine.planner import SummaryJob
from ..hooks import Hooks
from ..recorder import record_summary
from ..run import RunSession
from .call import SideCall

log = logging.getLogger("concertino")

ASKS = "[Context summary]"
"""The beginning of the engine's request for a summary, by which a scripted model recognizes it."""
PATIENCE = 10.0
"""Seconds that a run's end waits for a summary in progress, since it is paid for."""
_LIMIT = 120.0
"""Seconds that a summary may take."""
_SUMMARIZE = ASKS + (
    " The engine asks, not the user. Summarize the conversation above for yourself{upto}.{earlier} Keep the task and "
    "what the user asked for or ruled out; decisions and their reasons; facts, names, numbers, ids and places exactly "
    "as they were; what was done and what it led to; what failed; what is still open. Leave out what no longer matters."
    " Write plain notes of at most {words} words. Call no tools, and write nothing but the summary."
)
_UPTO = (
    ", up to its last {kept} messages, which stay as they are: your summary will stand in the place of what came "
    "before them"
)
_EARLIER = (
    " So do the earlier summaries in it: summarize what came after the last of them, and do not repeat what they say."
)
_MERGE = ASKS + (
    " These are summaries of successive parts of one conversation. Write one that can stand for all of them, of at "
    "most {words} words. Keep facts, names, numbers and ids exactly as they are.\n\n{summaries}"
)


class Summaries:
    """The summaries of one run, made one at a time."""

    def __init__(self, run: RunSession, hooks: Hooks) -> None:
        self._run = run
        self._hooks = hooks
        self._task: asyncio.Task[None] | None = None

    def start(self, job: SummaryJob, model: Model, request: ModelRequest) -> None:
        """Start the summary of *job* while the run continues; the provider has cached the prefix of *request*."""
        task, self._task = self._task, None
        if task is not None and not task.cancelled() and (error := task.exception()) is not None:
            raise error  # raised by a hook during the previous summary
        self._task = asyncio.create_task(self._make(job, model, request, self._request_for(job, request)))

    async def make(self, job: SummaryJob, model: Model, request: ModelRequest) -> None:
        """Make the summary of *job* before anything else."""
        await self._make(job, model, request, self._request_for(job, request))

    async def settle(self, seconds: float = _LIMIT) -> None:
        """Wait for the summary in progress and give up after *seconds*. Raises what a hook raised meanwhile."""
        if self._task is None:
            return
        task, self._task = self._task, None
        if not task.done():
            await asyncio.wait([task], timeout=seconds)
        task.cancel()
        await asyncio.wait([task])
        if not task.cancelled() and (error := task.exception()) is not None:
            raise error

    async def stop(self) -> None:
        """Give up the summary in progress."""
        with suppress(HookError):
            await self.settle(0.0)

    async def _make(self, job: SummaryJob, model: Model, request: ModelRequest, asked: ModelRequest) -> None:
        window = self._run.window
        text: str | None = None
        merged: str | None = None
        try:
            async with asyncio.timeout(_LIMIT):
                if job.merges:
                    merged = await self._ask(model, self._merging(job, request))
                text = await self._ask(model, asked)
        except (asyncio.CancelledError, HookError):
            window.complete(job, None)
            raise
        except Exception as error:  # noqa: BLE001 - a failing adapter must not end the run
            log.warning("run %s: a summary failed: %s", self._run.id, type(error).__name__)
        if window.complete(job, text, merged):
            await record_summary(self._run, window.prepared)
        else:
            self._run.notify("summary_failed", "a summary of older messages failed, and changes nothing")

    def _request_for(self, job: SummaryJob, request: ModelRequest) -> ModelRequest:
        kept = max(len(request.messages) - self._run.window.position_of(job.end), 1)
        upto = ": your summary will stand in its place" if job.prefix_only else _UPTO.format(kept=kept)
        earlier = _EARLIER if job.follows_summary else ""
        asked = UserMessage(_SUMMARIZE.format(upto=upto, words=_words(job.tokens), earlier=earlier))
        return _summary_request(request, (*request.messages, asked), job.tokens)

    def _merging(self, job: SummaryJob, request: ModelRequest) -> ModelRequest:
        texts = [segment.text for segment in job.merges]
        tokens = sum(map(self._run.resources.counter.count, texts))
        asked = _MERGE.format(words=_words(tokens * 4), summaries="\n\n".join(texts))
        return ModelRequest(
            model=request.model, system="", messages=(UserMessage(asked),), max_output_tokens=max(tokens, 256)
        )

    async def _ask(self, model: Model, request: ModelRequest) -> str | None:
        """Return the answer; None if it is not a complete text."""
        attempt = await SideCall(self._run, self._hooks, audience=None, last=False).answer(model, request)
        report = self._run.window.report
        report.summaries += 1
        report.summary_tokens += attempt.record.tokens.total
        return _text(attempt.message)


def _text(message: AssistantMessage) -> str | None:
    whole = message.stop_reason == "end" and not message.tool_calls
    return message.text if whole else None


def _words(tokens: int) -> int:
    """Return the length of a summary of *tokens*: about a tenth."""
    return min(max(tokens // 14, 60), 1_500)


def _summary_request(request: ModelRequest, messages: Any, tokens: int) -> ModelRequest:
    """Return *request* with a short answer and the same prefix, which the provider reads from its cache."""
    return ModelRequest(
        model=request.model,
        system=request.system,
        messages=messages,
        tools=request.tools,
        tool_choice=request.tool_choice if isinstance(request.tool_choice, str) else "auto",
        parallel_tool_calls=request.parallel_tool_calls,
        max_output_tokens=min(max(tokens // 2, 512), request.max_output_tokens or 8_192),
        extra=request.extra,
        effort=request.effort,
        temperature=request.temperature,
        breakpoints=request.breakpoints,
        cache_key=request.cache_key,
    )
