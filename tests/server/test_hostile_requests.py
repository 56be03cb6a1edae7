"""Requests of an attacker: each is refused or answered, and none is a failure of the server."""

from __future__ import annotations

import asyncio
import json
import re
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from concertino import SqliteStore
from concertino.server import FileFolder, ServerLimits
from concertino.testing import Answer, call

from .kit import User, shop
from .test_processes import server
from .test_protocol_streams import ANN, ASKED, MESSAGE, protocols
from .test_serving import Pause, served

JSON = {"content-type": "application/json"}
HALF = "\ud800"
VALUES: list[Any] = [None, 1, True, HALF, "\0", "x" * 10_000, [], {}, [[]], [{}], {"a": HALF}, "../../x", 10**400]
BODIES = [
    *(b"", b"null", b"[]", b"\xff\xfe", "{}".encode("utf-16"), b"[" * 100_000, b'{"a":' * 100_000),
    *(b'{"text":NaN}', b'{"text":' + b"9" * 5000 + b"}", b'{"text":"\\ud800"}', b'{"title":"\\ud800"}'),
]
MORE: list[tuple[str, Any]] = [
    ("/agui", {"threadId": "t", "runId": "r", "messages": [], "resume": [{"interruptId": "x", "status": "resolved"}]}),
    ("/agui", {"threadId": "t", "runId": "r", "messages": [{"id": "m", "role": "tool", "toolCallId": "1"}]}),
    ("/api/chat", {"id": "c", "messageId": "x", "message": MESSAGE}),
]


def replaced(value: Any) -> list[Any]:
    """Return *value* with each of its parts replaced by each hostile value."""
    items = (
        list(value.items()) if isinstance(value, dict) else list(enumerate(value)) if isinstance(value, list) else []
    )
    found = list(VALUES)
    for key, part in items:
        for other in replaced(part):
            copy = value.copy()
            copy[key] = other
            found.append(copy)
    return found


@pytest.mark.slow
@pytest.mark.parametrize(("path", "body"), [*ASKED.values(), *MORE])
async def test_no_body_fails_a_protocol(path: str, body: Any, tmp_path: Path) -> None:
    limits = ServerLimits(requests=10**6)
    async with (
        await SqliteStore.open(tmp_path / "a.db") as store,
        protocols(store, *["Hi."] * 500, limits=limits) as app,
    ):
        ann = User(app)
        for sent in [json.dumps(each).encode() for each in replaced(body)] + BODIES:
            answer = await ann.http.post(path, content=sent, headers=JSON)
            assert answer.status_code < 500, (sent[:200], answer.text)
            assert "goes on elsewhere" not in answer.text


async def test_no_body_fails_the_api() -> None:
    async with shop(*["Hi."] * 50, limits=ServerLimits(requests=10**6)) as app:
        ann = User(app)
        one = await ann.new_conversation()
        turn = await ann.send(one, "Hi")
        ids = {"conversation": one.rpartition("/")[2], "turn": turn["id"], "run": turn["id"], "worker": "analyst"}
        document = await ann("GET", "/api/openapi.json")
        for path, methods in document["paths"].items():
            filled = re.sub(r"{(\w+)}", lambda found: ids.get(found[1], "x"), path)
            for method in methods.keys() & {"post", "put", "patch"}:
                for sent in BODIES:
                    answer = await ann.http.request(method, filled, content=sent, headers=JSON)
                    assert answer.status_code < 500, (method, path, sent[:100])


@pytest.mark.parametrize("number", ["NaN", "-Infinity", "1e999"])
async def test_numbers_that_json_does_not_have_are_refused(number: str, tmp_path: Path) -> None:
    sent = b'{"decision": "approve", "arguments": {"order": "7", "euros": %b}}' % number.encode()
    async with shop(call("refund", order="7", euros=1)) as app:
        ann = User(app)
        await ann.send(await ann.new_conversation(), "My money back!")
        (wait,) = (await ann("GET", "/api/approvals"))["items"]
        await ann("POST", f"/api/approvals/{wait['key']}", 422, content=sent, headers=JSON)
    async with await SqliteStore.open(tmp_path / "a.db") as store, protocols(store) as app:
        for path, _ in ASKED.values():
            answer = await User(app).http.post(path, content=b'{"x": %b}' % number.encode(), headers=JSON)
            assert (answer.status_code, "the body is not JSON" in answer.text) == (400, True)


async def test_headers_and_names_are_data(tmp_path: Path) -> None:
    async with shop(files=FileFolder(tmp_path)) as app:
        ann = User(app)
        for origin in ("http://[::1", "http://a:b:c", "null"):
            await ann("POST", "/api/conversations", 403, json={}, headers={"origin": origin})
        text = {"content-type": "text/plain"}
        for name in ("../../x", "a\r\nSet-Cookie: x=1", '"; x', "a/b\\c"):
            made = await ann("POST", "/api/files", 201, params={"name": name}, content=b"x", headers=text)
            answer = await ann("GET", f"/api/files/{made['id']}")
            assert "set-cookie" not in answer.headers
            assert len(answer.headers["content-disposition"].split("\n")) == 1
        assert {path.parent.parent for path in sorted(tmp_path.glob("*/*"))} == {tmp_path}  # noqa: ASYNC240
        for path in (
            "/api/files/..%2f..%2fa.db",
            "/api/files/%2e%2e",
            "/api/runs/%ff/events",
            "/api/runs/" + "x" * 5000,
        ):
            await ann("GET", path, 404)


async def test_a_body_that_does_not_arrive_is_given_up() -> None:
    async with shop(limits=ServerLimits(body_seconds=0.05)) as app:

        async def body() -> AsyncIterator[bytes]:
            yield b'{"text": '
            await asyncio.Event().wait()

        one = await User(app).new_conversation()
        messages = [{"type": "http.request", "body": b"{", "more_body": True}]
        sent: list[Any] = []

        async def receive() -> Any:
            return messages.pop() if messages else await asyncio.Event().wait()

        async def send(message: Any) -> None:
            sent.append(message)

        headers = [(b"x-session", b"acme/ann"), (b"content-type", b"application/json")]
        scope = {"type": "http", "method": "POST", "path": f"{one}/turns", "raw_path": b"", "query_string": b""}
        await app(scope | {"headers": headers, "root_path": "", "http_version": "1.1"}, receive, send)
        assert sent[0]["status"] == 408


async def test_a_websocket_is_refused() -> None:
    async with shop() as app:
        sent: list[Any] = []

        async def receive() -> Any:
            return {"type": "websocket.connect"}

        async def send(message: Any) -> None:
            sent.append(message)

        scope = {"type": "websocket", "path": "/api/agents", "query_string": b"", "headers": [], "root_path": ""}
        await app(scope | {"subprotocols": [], "extensions": {}}, receive, send)
        assert (sent[0]["type"], sent[0]["status"]) == ("websocket.http.response.start", 403)


async def test_a_question_about_a_stream_opens_none() -> None:
    pause = Pause()
    limits = ServerLimits(streams=1)
    async with shop(Answer(text="One.", midway=pause), limits=limits) as app, served(app) as (client, task):
        one = (await client.post("/api/conversations", json={})).json()["id"]
        for _ in range(3):
            assert (await client.head(f"/api/conversations/{one}/events")).status_code == 200
        signal.raise_signal(signal.SIGTERM)
        await task


async def test_a_reader_that_never_reads_is_not_sent_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("concertino.server.event_source.FLUSH", 0.05)
    async with shop(" ".join(["word"] * 5000)) as app:
        ann = User(app)
        one = await ann.new_conversation()
        turn = await ann.send(one, "Hi")
        sent: list[Any] = []

        async def receive() -> Any:
            return await asyncio.Event().wait()

        async def send(message: Any) -> None:
            sent.append(message)
            if message["type"] == "http.response.body":
                await asyncio.Event().wait()

        path = f"{one}/turns/{turn['id']}/events"
        scope = {"type": "http", "method": "GET", "path": path, "raw_path": b"", "query_string": b"", "root_path": ""}
        reading = app(scope | {"headers": [(b"x-session", b"acme/ann")], "http_version": "1.1"}, receive, send)
        task = asyncio.create_task(reading)
        while len(sent) < 2:  # noqa: ASYNC110 - the answer begins
            await asyncio.sleep(0)
        await app.state.server.drain(0)
        await task
        assert len(sent) == 3, "a start, one frame that was not taken, and the end"


@pytest.mark.slow
async def test_one_key_in_two_processes_at_once_is_one_turn(tmp_path: Path) -> None:
    async with server(tmp_path) as first, server(tmp_path) as second:
        conversation = await first.new_conversation()
        sending = [
            each("POST", f"{conversation}/turns", json={"text": "Hi"}, headers={"Idempotency-Key": "k"})
            for each in (first, second) * 8
        ]
        turns = {each["id"] for each in await asyncio.gather(*sending)}
        assert len(turns) == 1
        goals = [
            each("POST", "/api/workers/analyst/goals", json={"text": "Go"}, headers={"Idempotency-Key": "g"})
            for each in (first, second) * 4
        ]
        assert len({each["id"] for each in await asyncio.gather(*goals)}) == 1


@pytest.mark.parametrize("protocol", ASKED)
async def test_one_message_at_once_is_one_run(protocol: str, tmp_path: Path) -> None:
    path, body = ASKED[protocol]
    async with await SqliteStore.open(tmp_path / "a.db") as store, protocols(store, *["Hi."] * 9) as app:
        ann = User(app)
        await asyncio.gather(*[ann("POST", path, json=body, headers={"idempotency-key": "k"}) for _ in range(8)])
        assert len(await store.runs(ANN, roots=True)) == 1
