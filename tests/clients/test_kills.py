"""Clients whose server is killed in the middle of an answer, and that go on at another process."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import openai
import pytest

from concertino.testing.conformance import PAUSE

from .test_routes import RESUMED, Browser, frames_of, text_of

pytestmark = pytest.mark.slow


@asynccontextmanager
async def process(database: Path, pause: float = PAUSE) -> AsyncIterator[tuple[asyncio.subprocess.Process, str]]:
    """Yield a server with so many seconds between two words, and its address; kill it afterwards."""
    command = (sys.executable, "-m", "tests.clients.program", str(database), str(pause))
    made = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    assert made.stdout is not None
    try:
        yield made, (await made.stdout.readline()).decode().strip()
    finally:
        if made.returncode is None:
            made.kill()
        await made.wait()


@pytest.fixture
async def two(tmp_path: Path) -> AsyncIterator[tuple[asyncio.subprocess.Process, str, str]]:
    """Return a process to kill, its address, and the address of another process."""
    database = tmp_path / "a.db"
    # A slow answer does not end before its process is killed, however late the client reads it.
    async with process(database, pause=0.2) as (first, one), process(database) as (_, other):
        yield first, one, other


def whole(chunks: list[Any]) -> str:
    """Return the text of a UI message as the client shows it without its void parts."""
    void = {chunk["data"]["part"] for chunk in chunks if isinstance(chunk, dict) and chunk["type"] == "data-void"}
    return text_of([chunk for chunk in chunks if isinstance(chunk, dict) and chunk.get("id") not in void])


def answers(events: list[Any]) -> list[str]:
    """Return the answers of an AG-UI run as the client holds them in the end.

    If the client was there before the text of the killed process became void, a snapshot takes it back.
    """
    held: dict[str, str] = {}
    for event in events:
        match event["type"]:
            case "TEXT_MESSAGE_CONTENT":
                held[event["messageId"]] = held.get(event["messageId"], "") + event["delta"]
            case "MESSAGES_SNAPSHOT":
                held = {each["id"]: each["content"] for each in event["messages"] if each["role"] == "assistant"}
    return list(held.values())


async def test_a_ui_message_is_whole_after_a_kill(two: tuple[asyncio.subprocess.Process, str, str]) -> None:
    first, one, other = two
    message = {"id": "m1", "role": "user", "parts": [{"type": "text", "text": "conform:resume"}]}
    browser, again = Browser(one), Browser(other)
    async with browser.http, again.http:
        with pytest.raises(httpx2.TransportError):
            async with browser.http.stream("POST", "/api/chat/", json={"id": "c", "messages": [message]}) as stream:
                seen = 0
                async for line in stream.aiter_lines():
                    seen += "text-delta" in line
                    if seen == 5:
                        first.kill()
        stream = await again.http.get("/api/chat/c/stream")
        if stream.status_code == 204:  # the answer is complete already: the client shows the stored one
            stored = (await again.http.get("/api/chat/c")).json()["messages"][-1]
            assert "".join(part.get("text", "") for part in stored["parts"]) == RESUMED
        else:
            chunks = frames_of(stream.text)
            assert whole(chunks) == RESUMED
            assert chunks[-2]["type"] == "finish"


async def test_an_ag_ui_run_is_whole_after_a_kill(two: tuple[asyncio.subprocess.Process, str, str]) -> None:
    first, one, other = two
    body = {"threadId": "t", "runId": "r", "messages": [{"id": "m1", "role": "user", "content": "conform:resume"}]}
    browser, again = Browser(one), Browser(other)
    async with browser.http, again.http:
        with pytest.raises(httpx2.TransportError):
            async with browser.http.stream("POST", "/agui/", json=body) as stream:
                seen = 0
                async for line in stream.aiter_lines():
                    seen += "TEXT_MESSAGE_CONTENT" in line
                    if seen == 5:
                        first.kill()
        events = await again.frames("POST", "/agui/", json=body)
        assert answers(events) == [RESUMED]
        assert events[-1]["outcome"] == {"type": "success"}


async def test_a_new_ag_ui_message_after_a_kill_takes_back_the_interrupted_text(
    two: tuple[asyncio.subprocess.Process, str, str],
) -> None:
    first, one, other = two
    question = {"id": "m1", "role": "user", "content": "conform:resume"}
    body: dict[str, Any] = {"threadId": "t", "runId": "r", "messages": [question]}
    browser, again = Browser(one), Browser(other)
    held: dict[str, Any] = {}
    async with browser.http, again.http:
        with pytest.raises(httpx2.TransportError):
            async with browser.http.stream("POST", "/agui/", json=body) as stream:
                async for line in stream.aiter_lines():
                    if "TEXT_MESSAGE_CONTENT" in line:
                        held = {"id": frames_of(line)[0]["messageId"], "role": "assistant", "content": "word0"}
                        first.kill()
        new = {"id": "m2", "role": "user", "content": "conform:text"}
        events = await again.frames(
            "POST", "/agui/", json={"threadId": "t", "runId": "r2", "messages": [question, held, new]}
        )
        snapshot = next(event for event in events if event["type"] != "RUN_STARTED")
        assert snapshot == {"type": "MESSAGES_SNAPSHOT", "messages": [question, new]}
        assert answers(events) == ["Hello from the conformance model."]


async def test_a_client_of_openai_repeats_its_request_after_a_kill(
    two: tuple[asyncio.subprocess.Process, str, str],
) -> None:
    first, one, other = two
    asked: Any = {
        "model": "conformance",
        "messages": [{"role": "user", "content": "conform:resume"}],
        "extra_headers": {"Idempotency-Key": "k"},
    }
    async with (
        openai.AsyncOpenAI(base_url=f"{one}/v1", api_key="ann", max_retries=0) as client,
        openai.AsyncOpenAI(base_url=f"{other}/v1", api_key="ann", max_retries=0) as again,
    ):
        id, seen = "", 0
        # A cut connection in the middle of a stream is an error of the HTTP client.
        with pytest.raises((openai.APIConnectionError, httpx2.TransportError)):
            async for chunk in await client.chat.completions.create(stream=True, **asked):
                id, seen = chunk.id, seen + 1
                if seen == 5:
                    first.kill()
        completion = await again.chat.completions.create(**asked)
        assert completion.id == id, "it is the same run"
        assert (completion.choices[0].message.content or "").endswith(RESUMED)
        response = await again.responses.retrieve(id.replace("chatcmpl-", "resp_"))
        assert response.output_text == RESUMED
