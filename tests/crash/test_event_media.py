"""A process that is killed after it has stored the event with a model's picture, and before the journal has it."""

from __future__ import annotations

import asyncio
import base64
import os
import random
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from concertino import AgentConfig, Chat, Resources, Scope, SqliteStore
from concertino.events import TurnCompleted, Voided
from concertino.messages import Media
from concertino.runtime import Runtime
from concertino.storage import Entry, EventBatch
from concertino.testing import Answer, ScriptedModel

PROGRAM = """
import asyncio, sys
from tests.crash.test_event_media import paint_and_die

asyncio.run(paint_and_die(sys.argv[1]))
"""
FIRST, SECOND = (
    Media("image/png", base64.b64encode(random.Random(seed).randbytes(5_000)).decode()) for seed in range(2)
)


class Painter(AgentConfig):
    """Paints."""

    name = "painter"


class Dying(SqliteStore):
    """Kills its process once it has stored an event with media; until then, no answer reaches the journal."""

    async def add_events(self, batches: Sequence[EventBatch]) -> Sequence[BaseException | None]:
        """Store the batches."""
        errors = await super().add_events(batches)
        if any(row.contents for batch in batches for row in batch.rows):
            os.kill(os.getpid(), signal.SIGKILL)
        return errors

    async def append(self, entry: Entry) -> Any:
        """Append the entry, unless it is an answer."""
        if entry.kind == "model_answered":
            await asyncio.Event().wait()
        return await super().append(entry)


def scripted(media: Media) -> ScriptedModel:
    """Return a model that answers with *media*."""
    return ScriptedModel(Answer(text="A cat.", media=(media,)))


async def paint_and_die(path: str) -> None:
    """Run in the process that is killed."""
    store, model = await Dying.open(path), scripted(FIRST)
    runtime = Runtime([Painter()], Resources(store=store, models=lambda _: model))
    run = await runtime.start(Chat("Paint.", model=model), "painter", run_id="run_1")
    await run.result()


async def test_a_picture_whose_answer_a_crash_undid_is_void_and_is_erased_with_the_run(tmp_path: Path) -> None:
    path, second = tmp_path / "r.db", scripted(SECOND)
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", PROGRAM, str(path), env=env)
    assert await process.wait() == -signal.SIGKILL
    async with await SqliteStore.open(path) as store:
        async with Runtime([Painter()], Resources(store=store, models=lambda _: second)) as runtime:
            before = [e async for e in first_answer(runtime)]
            await (await runtime.resume(Scope(), "run_1")).result()
            found = [event async for _, event in runtime.events(Scope(), "run_1")]
        assert before == [(FIRST,)], "a reader in another process saw it"
        assert any(isinstance(event, Voided) for event in found)
        assert [e.message.media for e in found if isinstance(e, TurnCompleted)] == [(SECOND,)]
        await store.erase(Scope())
    content = content_of(tmp_path)
    for media in (FIRST, SECOND):
        assert (media.data or "").encode() not in content


def content_of(folder: Path) -> bytes:
    """Return the content of all files of a store."""
    return b"".join(file.read_bytes() for file in folder.iterdir())


async def first_answer(runtime: Runtime) -> Any:
    """Yield the media of the first answer in the log."""
    async for _, event in runtime.events(Scope(), "run_1"):
        if isinstance(event, TurnCompleted):
            yield event.message.media
            return
