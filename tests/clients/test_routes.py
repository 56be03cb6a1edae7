"""The routes of the AI SDK and of AG-UI, as their clients call them. The same on any process of one store."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from concertino import Conversation, Runtime, Scope, SqliteStore
from concertino.testing import conformance
from concertino.testing.conformance import WORDS

from .app import runtime_on, served

Json = dict[str, Any]
RESUMED = " ".join(f"word{number}" for number in range(WORDS))


class Browser:
    """A client of one address."""

    def __init__(self, base: str, user: str = "ann") -> None:
        self.http = httpx2.AsyncClient(base_url=base, headers={"authorization": f"Bearer {user}"}, timeout=600)

    async def frames(self, method: str, path: str, **settings: Any) -> list[Any]:
        """Return the frames of a stream; each ends with LF alone."""
        answer = await self.http.request(method, path, **settings)
        assert answer.status_code == 200, answer.text
        assert answer.headers["content-type"].startswith("text/event-stream")
        assert "\r" not in answer.text
        return frames_of(answer.text)

    async def say(self, chat: str, text: str, id: str = "m1", **body: Any) -> list[Any]:
        message = {"id": id, "role": "user", "parts": [{"type": "text", "text": text}]}
        return await self.frames("POST", "/api/chat/", json={"id": chat, "message": message, **body})

    async def run(self, thread: str, text: str, run: str = "r1", **body: Any) -> list[Any]:
        messages = [{"id": "m1", "role": "user", "content": text}] if text else []
        sent = {"threadId": thread, "runId": run, "messages": messages, **body}
        return await self.frames("POST", "/agui/", json=sent)


def frames_of(text: str) -> list[Any]:
    """Return the frames of a stream's body, without comments."""
    return [_frame(frame) for frame in text.split("\n\n") if frame and not frame.startswith(":")]


def _frame(frame: str) -> Any:
    data = frame.removeprefix("data: ")
    return data if data == "[DONE]" else json.loads(data)


def text_of(chunks: list[Any], kind: str = "text-delta") -> str:
    return "".join(chunk["delta"] for chunk in chunks if isinstance(chunk, dict) and chunk["type"] == kind)


@pytest.fixture
async def browser(base: str) -> AsyncIterator[Browser]:
    opened = Browser(base)
    async with opened.http:
        yield opened


@pytest.fixture
async def two(tmp_path: Path) -> AsyncIterator[tuple[Browser, Browser, Runtime]]:
    """Return clients of two processes, and the first one's runtime."""
    path = tmp_path / "server.db"
    async with await SqliteStore.open(path) as store, await SqliteStore.open(path) as other:
        runtime = runtime_on(store)
        async with served(runtime) as base, served(runtime_on(other)) as again:
            first, second = Browser(base), Browser(again)
            async with first.http, second.http:
                yield first, second, runtime


async def conversation(runtime: Runtime, id: str) -> Conversation:
    return await runtime.conversation(Scope("acme", "ann"), id)


async def test_a_stream_of_the_ai_sdk(browser: Browser) -> None:
    chunks = await browser.say("c", "conform:text")
    assert [chunk["type"] for chunk in chunks[:-1] if chunk["type"] != "text-delta"] == [
        *("start", "start-step", "text-start", "text-end", "finish-step", "finish"),
    ]
    assert chunks[-1] == "[DONE]"
    assert text_of(chunks) == "Hello from the conformance model."


async def test_the_same_message_again_is_the_same_turn(browser: Browser) -> None:
    first = await browser.say("c", "conform:approval")
    again = await browser.say("c", "conform:approval")
    assert again[0] == first[0]
    assert "tool-approval-request" in [chunk["type"] for chunk in again[:-1]]
    assert again[-2]["messageMetadata"]["status"] == "suspended"


async def test_a_new_message_ends_a_turn_that_waits(browser: Browser) -> None:
    await browser.say("c", "conform:approval")
    assert text_of(await browser.say("c", "never mind", "m2")) == "You said: never mind"
    messages = (await browser.http.get("/api/chat/c")).json()["messages"]
    assert messages[1]["metadata"]["status"] == "cancelled"
    assert {part["state"] for part in messages[1]["parts"] if part["type"] == "tool-refund"} <= {
        "output-error",
        "output-denied",
    }


async def test_approvals_are_answered_at_another_process(two: tuple[Browser, Browser, Runtime]) -> None:
    first, second, _ = two
    chunks = await first.say("c", "conform:sub-agent approval")
    (request,) = {json.dumps(chunk) for chunk in chunks[:-1] if chunk["type"] == "tool-approval-request"}
    approval = json.loads(request)
    part = {"type": "tool-helper", "toolCallId": approval["toolCallId"], "state": "approval-responded"}
    part |= {"approval": {"id": approval["approvalId"], "approved": True}, "input": {"query": "forged"}}
    message = {"id": chunks[0]["messageId"], "role": "assistant", "parts": [part]}
    rest = await second.frames("POST", "/api/chat/", json={"id": "c", "messages": [message]})
    assert rest[0]["messageId"] == chunks[0]["messageId"]
    assert not [chunk for chunk in rest[:-1] if chunk["type"] == "tool-input-start"]  # the client has the call
    assert text_of(rest) == "40 euros for order A1 are paid back; found A1"
    again = await first.frames("POST", "/api/chat/", json={"id": "c", "messages": [message]})
    assert text_of(again) == text_of(rest)
    assert [chunk["type"] for chunk in again[:-1]].count("finish") == 1
    assert again[-2] == rest[-2]
    assert (await first.http.get("/api/chat/c")).json() == (await second.http.get("/api/chat/c")).json()


async def test_another_process_resumes_a_stream_and_stops_it(
    two: tuple[Browser, Browser, Runtime], monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second, runtime = two
    monkeypatch.setattr(conformance, "PAUSE", 0.2)  # the answer goes on until there is a second reader
    message = {"id": "m1", "role": "user", "parts": [{"type": "text", "text": "conform:resume"}]}
    async with first.http.stream("POST", "/api/chat/", json={"id": "c", "messages": [message]}) as stream:
        async for line in stream.aiter_lines():
            if "text-delta" in line:
                break  # the connection is dropped
    async with second.http.stream("GET", "/api/chat/c/stream") as stream:
        assert stream.status_code == 200
        monkeypatch.setattr(conformance, "PAUSE", 0.0)
        chunks = frames_of("".join([piece async for piece in stream.aiter_text()]))
    assert text_of(chunks) == RESUMED
    monkeypatch.undo()
    turn = (await (await conversation(runtime, "c")).turns())[0]
    assert chunks[0]["messageId"] == turn.run_id
    assert (await second.http.get("/api/chat/c/stream")).status_code == 204
    assert (await second.http.post("/api/chat/c/stop")).json() == {"success": False}
    message |= {"id": "m2", "parts": [{"type": "text", "text": "conform:stop"}]}
    async with first.http.stream("POST", "/api/chat/", json={"id": "c", "messages": [message]}) as stream:
        stopped, lines = False, []
        async for line in stream.aiter_lines():
            if "text-delta" in line and not stopped:
                stopped = (await second.http.post("/api/chat/c/stop")).json()["success"]
            lines += [line] if line else []
    assert lines[-1] == "data: [DONE]"
    assert [json.loads(line[6:])["type"] for line in lines[-4:-1]] == ["finish-step", "abort", "finish"]


async def test_edits_without_the_history_of_the_client(browser: Browser) -> None:
    first = await browser.say("c", "one")
    await browser.say("c", "two", "m2")
    turn = first[0]["messageId"]
    assert text_of(await browser.say("c", "three", "m3", messageId=f"{turn}:user")) == "You said: three"
    page = (await browser.http.get("/api/chat/c")).json()
    assert [message["parts"][-1]["text"] for message in page["messages"]] == ["three", "You said: three"]
    regenerated = await browser.say("c", "", trigger="regenerate-message", messageId=page["messages"][1]["id"])
    assert text_of(regenerated) == "You said: three"
    assert regenerated[0]["messageId"] != page["messages"][1]["id"]


async def test_another_answer_stops_the_turn_in_progress(browser: Browser) -> None:
    message = {"id": "m1", "role": "user", "parts": [{"type": "text", "text": "conform:stop"}]}
    turn = ""
    async with browser.http.stream("POST", "/api/chat/", json={"id": "c", "messages": [message]}) as stream:
        async for line in stream.aiter_lines():
            turn = json.loads(line[6:])["messageId"] if '"start"' in line else turn
            if "text-delta" in line:
                break
    assert text_of(await browser.say("c", "instead", "m2", messageId=f"{turn}:user")) == "You said: instead"


@pytest.mark.parametrize(
    ("body", "status", "error"),
    [
        (b"{", 400, "the body is not JSON"),
        (b"[]", 400, "the body is not a JSON object"),
        (b'{"id": "c"}', 400, "'messages' is missing"),
        (b'{"id": 1, "messages": []}', 400, "'id' is missing, or is not text"),
        (b'{"id": "c", "messages": [1]}', 400, "'messages' is not an array of objects"),
        (b'{"id": "c", "message": {"role": "system"}}', 400, "the last message must be the user's"),
        (b'{"id": "c", "message": {"role": "assistant", "id": "x"}}', 404, "there is no conversation 'c'"),
        (
            b'{"id": "c", "messageId": "x", "message": {"role": "user", "id": "x", "parts": []}}',
            400,
            "there is no message 'x' to edit",
        ),
    ],
)
async def test_bad_requests_of_the_ai_sdk(body: bytes, status: int, error: str, browser: Browser) -> None:
    answer = await browser.http.post("/api/chat/", content=body, headers={"content-type": "application/json"})
    assert (answer.status_code, answer.text.partition(":")[0]) == (status, error)


async def test_an_answer_to_no_call_is_refused(browser: Browser) -> None:
    turn = (await browser.say("c", "conform:text"))[0]["messageId"]
    message = {
        "id": turn,
        "role": "assistant",
        "parts": [{"type": "tool-x", "toolCallId": "1", "state": "output-error"}],
    }
    answer = await browser.http.post("/api/chat/", json={"id": "c", "message": message})
    assert (answer.status_code, answer.text) == (400, "the message answers no call that waits")


async def test_a_chat_belongs_to_its_user(base: str, browser: Browser) -> None:
    await browser.say("c", "conform:text")
    other = Browser(base, "bob")
    async with other.http:
        for method, path in (("GET", "/api/chat/c"), ("GET", "/api/chat/c/stream"), ("POST", "/api/chat/c/stop")):
            assert (await other.http.request(method, path)).status_code == 404


async def test_ag_ui_resumes_at_another_process(two: tuple[Browser, Browser, Runtime]) -> None:
    first, second, _ = two
    events = await first.run("t", "conform:sub-agent approval")
    (interrupt,) = events[-1]["outcome"]["interrupts"]
    assert events[-2]["type"] == "MESSAGES_SNAPSHOT"
    assert events[-2]["messages"][0] == {"id": "m1", "role": "user", "content": "conform:sub-agent approval"}
    entry = {"interruptId": interrupt["id"], "status": "resolved", "payload": {"approved": True}}
    rest = await second.run("t", "", "r2", resume=[entry])
    assert [rest[0]["runId"], rest[-1]["outcome"]] == ["r2", {"type": "success"}]
    assert text_of(rest, "TEXT_MESSAGE_CONTENT").endswith("40 euros for order A1 are paid back; found A1")
    cancelled = await first.run("t2", "conform:denial")
    entry = {"interruptId": cancelled[-1]["outcome"]["interrupts"][0]["id"], "status": "cancelled"}
    rest = await second.run("t2", "", "r2", resume=[entry])
    assert text_of(rest, "TEXT_MESSAGE_CONTENT") == "not allowed by ann: no reason was given"


async def test_ag_ui_runs_of_one_id_are_one_turn(browser: Browser) -> None:
    first, again = await browser.run("t", "conform:text"), await browser.run("t", "conform:text")
    assert [event["messageId"] for event in first if event["type"] == "TEXT_MESSAGE_END"] == [
        event["messageId"] for event in again if event["type"] == "TEXT_MESSAGE_END"
    ]


def held_by_a_client(events: list[Any]) -> list[Json]:
    """Return the text messages that a client of AG-UI has after *events*."""
    held: dict[str, Json] = {}
    for event in events:
        match event["type"]:
            case "MESSAGES_SNAPSHOT":
                held = {each["id"]: each for each in event["messages"]}
            case "TEXT_MESSAGE_CONTENT":
                made = {"id": event["messageId"], "role": "assistant", "content": ""}
                held.setdefault(made["id"], made)["content"] += event["delta"]
            case _:
                pass
    return list(held.values())


@pytest.mark.parametrize("run_id", ["r1", "r2"])
async def test_an_ag_ui_client_that_has_a_part_of_the_answer_continues(run_id: str, browser: Browser) -> None:
    """A process was killed: the client still has a text that the log has no more, and a part of the answer."""
    question = {"id": "m1", "role": "user", "content": "conform:reasoning"}
    first = await browser.run("t", "", messages=[question])
    (whole,) = held_by_a_client(first)
    turn = whole["id"].partition(":")[0]
    part = {**whole, "content": "Part of"}
    void = {"id": f"{turn}:9:9", "role": "assistant", "content": "void"}
    thought = {"id": f"{turn}:9:8", "role": "reasoning", "content": "void"}
    note = {"id": "n1", "role": "assistant", "content": "made by the client itself"}
    rest = await browser.run("t", "", run_id, messages=[question, note, thought, void, part])
    assert [event["type"] for event in rest[:2]] == ["RUN_STARTED", "MESSAGES_SNAPSHOT"]
    # Clients keep reasoning that a snapshot does not have.
    assert held_by_a_client(rest) == [question, note, {**thought, "content": ""}, whole]
    assert rest[-1]["outcome"] == {"type": "success"}


async def test_an_ag_ui_client_continues_after_its_answer_to_an_interrupt(browser: Browser) -> None:
    question = {"id": "m1", "role": "user", "content": "conform:approval"}
    events = await browser.run("t", "", messages=[question])
    before = events[-2]["messages"]
    entry = {"interruptId": events[-1]["outcome"]["interrupts"][0]["id"], "status": "resolved"}
    answered = {"resume": [{**entry, "payload": {"approved": True}}]}
    rest = await browser.run("t", "", "r2", messages=before, **answered)
    assert "MESSAGES_SNAPSHOT" not in [event["type"] for event in rest]
    (text,) = held_by_a_client(rest)
    again = await browser.run("t", "", "r2", messages=[*before, {**text, "content": "Part"}], **answered)
    assert again[1] == {"type": "MESSAGES_SNAPSHOT", "messages": before}
    pieces = "TEXT_MESSAGE_CONTENT"  # stored together
    others = [[each for each in found if each["type"] != pieces] for found in (again[2:], rest[1:])]
    assert others[0] == others[1]
    assert text_of(again, pieces) == text_of(rest, pieces)


async def test_ag_ui_media_tools_of_the_client_and_stops(base: str, browser: Browser) -> None:
    image = {"type": "image", "source": {"type": "data", "value": "AAAA", "mimeType": "image/png"}}
    message = {"id": "m", "role": "user", "content": [{"type": "text", "text": "conform:media"}, image]}
    events = await browser.run("t", "", messages=[message])
    assert text_of(events, "TEXT_MESSAGE_CONTENT") == "Received: image image/png"
    events = await browser.run("t2", "conform:client-tool")
    result = {"id": "x", "role": "tool", "content": "no signal", "error": "no signal"}
    result["toolCallId"] = events[-1]["outcome"]["pendingToolCallIds"][0]
    rest = await browser.run("t2", "", "r2", messages=[result])
    assert text_of(rest, "TEXT_MESSAGE_CONTENT") == "no signal"
    stopped, last = False, ""
    body = {"threadId": "t3", "runId": "r", "messages": [{"id": "m", "role": "user", "content": "conform:stop"}]}
    async with browser.http.stream("POST", "/agui/", json=body) as stream:
        async for line in stream.aiter_lines():
            if "TEXT_MESSAGE_CONTENT" in line and not stopped:
                stopped = (await browser.http.post("/api/chat/t3/stop")).json()["success"]
            last = line or last
    assert json.loads(last[6:])["outcome"] == {"type": "cancelled"}


@pytest.mark.parametrize(
    ("body", "status", "error"),
    [
        ({"threadId": "t"}, 400, "'runId' is missing, or is not text"),
        ({"threadId": "t", "runId": "r", "messages": []}, 400, "the last message must be the user's"),
        (
            {"threadId": "t", "runId": "r", "messages": [{"role": "tool", "toolCallId": "1"}]},
            404,
            "the conversation has no turn ''",
        ),
        (
            {"threadId": "t", "runId": "r", "messages": [], "resume": [{"interruptId": "x", "status": "resolved"}]},
            404,
            "the conversation has no turn ''",
        ),
    ],
)
async def test_bad_requests_of_ag_ui(body: Any, status: int, error: str, browser: Browser) -> None:
    answer = await browser.http.post("/agui/", json=body)
    assert (answer.status_code, answer.json()["message"].partition(":")[0]) == (status, error)


async def test_typed_answers(browser: Browser) -> None:
    message = {"id": "m", "role": "user", "parts": [{"type": "text", "text": "a city"}]}
    chunks = await browser.frames("POST", "/api/typed/", json={"id": "c", "messages": [message]})
    outputs = [chunk["data"] for chunk in chunks[:-1] if chunk["type"] == "data-output"]
    assert outputs[-1] == {"name": "Lyon", "people": 520_000}
    sent = {"threadId": "t", "runId": "r", "messages": [{"id": "m", "role": "user", "content": "a city"}]}
    events = await browser.frames("POST", "/agui/conformance_typed", json=sent)
    (delta,) = [event["delta"] for event in events if event["type"] == "STATE_DELTA"][-1]
    assert delta == {"op": "add", "path": "/output", "value": {"name": "Lyon", "people": 520_000}}
