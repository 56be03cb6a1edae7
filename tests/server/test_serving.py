"""`serve` in this process: signals, streams that end, readers that leave or do not read."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import pytest

from concertino.server import ServerLimits, serve
from concertino.testing import Answer

from .kit import parsed, shop

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="needs POSIX signals")


@asynccontextmanager
async def served(app: Any, grace: float = 0.0) -> AsyncIterator[tuple[httpx2.AsyncClient, asyncio.Task[None]]]:
    """Yield a client of a served application, and the server's task. The client has time for the last frames."""
    started = asyncio.get_running_loop().create_future()
    headers = {"x-session": "acme/ann"}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("concertino.server.event_source.FLUSH", 600.0)
        patch.setattr("concertino.server.serving._CLOSING", 600)
        task = asyncio.create_task(serve(app, port=0, grace=grace, started=started.set_result))
        async with httpx2.AsyncClient(base_url=await started, headers=headers, trust_env=False, timeout=600) as client:
            yield client, task


class Pause:
    """A point at which a model waits."""

    def __init__(self) -> None:
        self.begun, self.free = asyncio.Event(), asyncio.Event()

    async def __call__(self) -> None:
        self.begun.set()
        await self.free.wait()


async def started_turn(client: httpx2.AsyncClient) -> str:
    """Start a conversation, send a message and return the path of its turn."""
    made = (await client.post("/api/conversations", json={})).json()
    path = f"/api/conversations/{made['id']}/turns"
    return f"{path}/{(await client.post(path, json={'text': 'Hi'})).json()['id']}"


async def test_a_signal_parks_the_run_and_ends_the_streams() -> None:
    pause = Pause()
    async with shop(Answer(text="One two.", midway=pause)) as app, served(app) as (client, task):
        turn = await started_turn(client)
        await pause.begun.wait()
        async with client.stream("GET", f"{turn}/events") as answer:
            assert answer.headers["content-type"].startswith("text/event-stream")
            assert answer.headers["cache-control"] == "no-cache"
            signal.raise_signal(signal.SIGTERM)
            text = "".join([piece async for piece in answer.aiter_text()])
        await task
        assert parsed(text)[-1][1]["type"] != "run_ended"
        stored = await app.state.server.runtime.store.runs(app_scope(), roots=True)
        assert [(each.state, each.owner) for each in stored] == [("running", "")]


async def test_a_second_signal_does_not_wait() -> None:
    pause = Pause()
    async with shop(Answer(text="One two.", midway=pause)) as app, served(app, grace=600) as (client, task):
        await started_turn(client)
        await pause.begun.wait()
        signal.raise_signal(signal.SIGINT)
        while not app.state.server.draining:  # noqa: ASYNC110 - a state of the server
            await asyncio.sleep(0)
        signal.raise_signal(signal.SIGINT)
        await task


async def test_a_stream_of_a_queued_turn_ends_with_the_process() -> None:
    pause = Pause()
    async with shop(Answer(text="One.", midway=pause)) as app, served(app) as (client, task):
        turn = await started_turn(client)
        await pause.begun.wait()
        path = turn.rpartition("/")[0]
        queued = (await client.post(path, json={"text": "Later"})).json()
        async with client.stream("GET", f"{path}/{queued['id']}/events") as answer:
            signal.raise_signal(signal.SIGTERM)
            assert [piece async for piece in answer.aiter_bytes()] == []
        await task


async def test_a_stream_of_a_withdrawn_turn_ends() -> None:
    pause = Pause()
    async with shop(Answer(text="One.", midway=pause)) as app, served(app) as (client, task):
        turn = await started_turn(client)
        await pause.begun.wait()
        path = turn.rpartition("/")[0]
        queued = (await client.post(path, json={"text": "Later"})).json()
        async with client.stream("GET", f"{path}/{queued['id']}/events") as answer:
            await client.delete(f"{path.removesuffix('turns')}queue/{queued['id']}")
            assert [piece async for piece in answer.aiter_bytes()] == []
        signal.raise_signal(signal.SIGTERM)
        await task


async def test_a_reader_that_leaves_stops_nothing_and_frees_its_stream() -> None:
    pause = Pause()
    limits = ServerLimits(streams=1)
    async with shop(Answer(text="One two.", midway=pause), limits=limits) as app, served(app) as (client, task):
        turn = await started_turn(client)
        async with client.stream("GET", f"{turn}/events") as answer:
            async for piece in answer.aiter_text():
                if "text_delta" in piece:
                    break
            refused = await client.get(f"{turn}/events")
            assert (refused.status_code, refused.headers["retry-after"]) == (429, "1")
        while (answer := await client.send(client.build_request("GET", f"{turn}/events"), stream=True)).is_error:
            await answer.aclose()
        pause.free.set()
        text = "".join([piece async for piece in answer.aiter_text()])
        assert parsed(text)[-1][1]["result"]["status"] == "completed"
        signal.raise_signal(signal.SIGTERM)
        await task


async def test_an_idle_stream_gets_comments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("concertino.server.event_source.KEEP_ALIVE", 0.01)
    pause = Pause()
    async with shop(Answer(text="One two.", midway=pause)) as app, served(app) as (client, task):
        turn = await started_turn(client)
        text = ""
        async with client.stream("GET", f"{turn}/events") as answer:
            async for piece in answer.aiter_text():
                text += piece
                if ": keep-alive\n\n" in text:
                    pause.free.set()
        assert parsed(text)[-1][1]["result"]["text"] == "One two."
        signal.raise_signal(signal.SIGTERM)
        await task


def app_scope() -> Any:
    from concertino import Scope

    return Scope("acme", "ann")
