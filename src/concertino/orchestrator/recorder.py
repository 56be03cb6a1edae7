"""The recorder: the one place where a run's happenings go to the store, and where the data policy is applied."""

from __future__ import annotations

import asyncio
import dataclasses
import time
from collections.abc import Sequence
from typing import Any

from ..events import RunStatus
from ..messages import AssistantMessage, Message, SystemMessage, ToolMessage, UserMessage
from ..storage.port import Batch, RunEnd, RunStart, Store, StoredMessage
from ..token_engine.port import TokenCounter
from ..token_engine.window import message_text
from ..usage import UsageRecord
from .outcome import DataPolicy

_REDUCED = "[a result of {name}, used and not kept]"


class Recorder:
    """Gathers what a step produced and appends it to the store in one write."""

    __slots__ = (
        "_begun",
        "_counter",
        "_messages",
        "_progress",
        "_store",
        "_unsure",
        "_usage",
        "_written",
        "policy",
        "run_id",
    )

    def __init__(self, store: Store | None, run_id: str, counter: TokenCounter) -> None:
        self._store = store
        self._counter = counter
        self.run_id = run_id
        self.policy = DataPolicy()
        self._begun = False
        self._written = 0
        self._unsure: tuple[int, int, Batch] | None = None
        self._messages: list[Message] = []
        self._usage: list[UsageRecord] = []
        self._progress: dict[str, list[dict[str, Any]]] = {}

    async def begin(self, start: RunStart) -> None:
        """Note that the run has begun."""
        if self._store is not None:
            task = start.task if self.policy.store_text else ""
            self._begun = True  # also if this is cancelled or fails: the store may have it all the same
            await self._store.begin(dataclasses.replace(start, task=task))

    def add(self, message: Message) -> None:
        """A message, for the next append."""
        if self._store is not None:
            self._messages.append(message)

    def book(self, record: UsageRecord) -> None:
        """A usage record, for the next append."""
        if self._store is not None:
            self._usage.append(record)

    def progress(self, call_id: str, steps: list[dict[str, Any]]) -> None:
        """The steps that a tool showed, to be stored beside its result."""
        if self._store is not None:
            self._progress[call_id] = steps

    async def append(self) -> None:
        """Write what has been gathered, atomically. What could not be written is kept for the next try."""
        if self._store is not None and (self._messages or self._usage):
            await self._write(self._store, None)

    async def end(self, status: RunStatus, answer: str, error: str | None) -> None:
        """Write what has been gathered and how the run ended, unless the run had not even begun."""
        if self._store is not None and self._begun:
            kept = answer if self.policy.store_text else ""
            await self._write(self._store, RunEnd(status=status, answer=kept, error=error, ended=time.time()))

    async def has_ended(self) -> bool:
        """Whether the end is stored already. Ask before `end` where a write may have been cancelled.

        The store may have carried that write out or not: it is looked up, so that nothing is written twice.
        """
        if self._store is None or self._unsure is None:
            return False
        messages, usage, batch = self._unsure
        if batch.end is not None:
            run = await self._store.run(self.run_id)
            return run is not None and run.end is not None
        if batch.messages and len(await self._store.messages(self.run_id)) > self._written:
            self._forget(messages, usage, batch)
        return False

    async def _write(self, store: Store, end: RunEnd | None) -> None:
        messages, usage = len(self._messages), len(self._usage)
        stored = [kept for message in self._messages if (kept := self._filtered(message)) is not None]
        batch = Batch(run_id=self.run_id, messages=stored, usage=tuple(self._usage), end=end)
        try:
            await store.append(batch)
        except asyncio.CancelledError:
            self._unsure = (messages, usage, batch)
            raise
        self._forget(messages, usage, batch)

    def _forget(self, messages: int, usage: int, batch: Batch) -> None:
        del self._messages[:messages], self._usage[:usage]
        self._progress.clear()
        self._written += len(batch.messages)
        self._unsure = None

    def _filtered(self, message: Message) -> StoredMessage | None:
        """*message* as the policy allows it; None: not at all."""
        policy = self.policy
        match message:
            case AssistantMessage(parts):
                kept = tuple(
                    part
                    for part in parts
                    if (policy.stores_call(part.name) if part.kind == "tool_call" else policy.store_text)
                )
                return self._counted(dataclasses.replace(message, parts=kept)) if kept else None
            case ToolMessage():
                if not policy.stores_result(message.name):
                    return None
                return self._counted(self._reduced(message), self._progress.get(message.call_id, ()))
            case UserMessage() | SystemMessage():
                return self._counted(message) if policy.store_text else None

    def _counted(self, message: Message, progress: Sequence[dict[str, Any]] = ()) -> StoredMessage:
        tokens = self._counter.count(message_text(message))
        return StoredMessage(message=message, tokens=tokens, progress=progress)

    def _reduced(self, message: ToolMessage) -> ToolMessage:
        if message.summary is None or self.policy.keep_whole_results:
            return message
        summary = message.summary or _REDUCED.format(name=message.name)
        return dataclasses.replace(message, content=summary, whole=None, summary=None)
