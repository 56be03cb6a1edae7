"""Both protocols of chats show the same answer to every scenario, and close what they open."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from concertino.server import event_source
from concertino.testing import SCENARIOS

from .test_routes import Browser, text_of

FAILING = ("error-before", "error-during", "broken")
PAIRS = {
    "TEXT_MESSAGE_START": "TEXT_MESSAGE_END",
    "REASONING_START": "REASONING_END",
    "REASONING_MESSAGE_START": "REASONING_MESSAGE_END",
    "TOOL_CALL_START": "TOOL_CALL_END",
    "STEP_STARTED": "STEP_FINISHED",
    "SUBAGENT_STARTED": "SUBAGENT_FINISHED",
}
IMAGE = "data:image/png;base64,iVBORw0KGgo="


@pytest.fixture
async def browser(base: str) -> AsyncIterator[Browser]:
    opened = Browser(base)
    async with opened.http:
        yield opened


def closed(events: list[dict[str, Any]]) -> bool:
    """Return whether every start has its end, in order."""
    still_open: list[tuple[Any, ...]] = []
    for event in events:
        id = event.get("messageId") or event.get("toolCallId") or event.get("stepName"), event.get("subagentRunId")
        if event["type"] in PAIRS:
            assert (PAIRS[event["type"]], *id) not in still_open
            still_open.append((PAIRS[event["type"]], *id))
        elif event["type"] in PAIRS.values():
            still_open.remove((event["type"], *id))
    return not still_open


@pytest.mark.parametrize("scenario", [*(each for each in SCENARIOS if each != "stop"), "sub-agent approval"])
async def test_the_protocols_agree(scenario: str, browser: Browser) -> None:
    chunks = await browser.say("c", f"conform:{scenario}")
    events = await browser.run("t", f"conform:{scenario}")
    root = [event for event in events if "subagentRunId" not in event]
    assert text_of(chunks) == text_of(root, "TEXT_MESSAGE_CONTENT")
    assert text_of(chunks, "reasoning-delta") == text_of(root, "REASONING_MESSAGE_CONTENT")
    assert closed(events)
    assert events[-1]["type"] == ("RUN_ERROR" if scenario in FAILING else "RUN_FINISHED")
    assert chunks[-2]["type"] == ("error" if scenario in FAILING else "finish")
    page = (await browser.http.get("/api/chat/c")).json()
    texts = [part["text"] for part in page["messages"][1]["parts"] if part["type"] == "text"]
    assert "".join(texts) == text_of(chunks)
    assert not page["more"]


async def test_a_sub_agent_is_a_message_of_its_own(browser: Browser) -> None:
    chunks = await browser.say("c", "conform:sub-agent long")
    outputs = [chunk for chunk in chunks[:-1] if chunk["type"] == "tool-output-available"]
    assert len(outputs[-1]["output"]["parts"][-1]["text"].split()) == 2_000
    events = await browser.run("t", "conform:sub-agent long")
    own = [event for event in events if event.get("subagentRunId") and event["type"] == "TEXT_MESSAGE_CONTENT"]
    assert len(text_of(own, "TEXT_MESSAGE_CONTENT").split()) == 2_000


async def test_a_tool_of_the_client_succeeds_or_fails(browser: Browser) -> None:
    for chat, state, given in (("a", "output-available", {"at": "home"}), ("b", "output-error", "no signal")):
        turn = (await browser.say(chat, "conform:client-tool"))[0]["messageId"]
        part = {"type": "tool-locate", "toolCallId": "call_1", "state": state, "output": given, "errorText": given}
        message = {"id": turn, "role": "assistant", "parts": [{"type": "step-start"}, part]}
        rest = await browser.frames("POST", "/api/chat/", json={"id": chat, "messages": [message]})
        assert text_of(rest) == ('{"at": "home"}' if chat == "a" else "no signal")


async def test_an_edit_is_found_by_the_answer_before_it(browser: Browser) -> None:
    first = (await browser.say("c", "one"))[0]["messageId"]
    await browser.say("c", "two", "m2")
    history = [{"id": "m1", "role": "user", "parts": []}, {"id": first, "role": "assistant", "parts": []}]
    edited = {"id": "m2", "role": "user", "parts": [{"type": "text", "text": "three"}]}
    body = {"id": "c", "messages": [*history, edited], "messageId": "m2"}
    chunks = await browser.frames("POST", "/api/chat/", json=body)
    assert text_of(chunks) == "You said: three"
    again = await browser.frames("POST", "/api/chat/", json=body)
    assert again[0] == chunks[0]
    page = (await browser.http.get("/api/chat/c")).json()
    assert [message["id"] for message in page["messages"]][1::2] == [first, chunks[0]["messageId"]]
    before = (await browser.http.get("/api/chat/c", params={"before": chunks[0]["messageId"]})).json()
    assert [message["id"] for message in before["messages"]] == [f"{first}:user", first]


async def test_files_come_back_with_the_history(browser: Browser) -> None:
    file = {"type": "file", "mediaType": "image/png", "url": IMAGE, "filename": "a.png"}
    message = {"id": "m", "role": "user", "parts": [{"type": "text", "text": "conform:media"}, file]}
    chunks = await browser.frames("POST", "/api/chat/", json={"id": "c", "messages": [message]})
    assert text_of(chunks) == "Received: image image/png"
    page = (await browser.http.get("/api/chat/c")).json()
    assert page["messages"][0]["parts"] == [{"type": "text", "text": "conform:media"}, file]


async def test_version_5_gets_no_chunk_of_approvals(browser: Browser) -> None:
    body = {"id": "c", "message": {"id": "m", "role": "user", "parts": [{"type": "text", "text": "conform:approval"}]}}
    header = {"x-ai-sdk-version": "5"}
    kinds = {chunk["type"] for chunk in (await browser.frames("POST", "/api/chat/", json=body, headers=header))[:-1]}
    assert "data-approval" in kinds
    assert "tool-approval-request" not in kinds


async def test_a_quiet_stream_sends_comments(browser: Browser, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_source, "KEEP_ALIVE", 0.001)
    answer = await browser.http.post(
        "/v1/chat/completions",
        json={"model": "conformance", "messages": [{"role": "user", "content": "conform:resume"}], "stream": True},
    )
    assert "\n\n: keep-alive\n\n" in answer.text


@pytest.mark.parametrize(
    ("entry", "error"),
    [
        ({"interruptId": "other"}, "this thread has no interrupt 'other'"),
        ({"payload": {"approved": True, "editedArgs": 1}}, "'editedArgs' is not an object"),
    ],
)
async def test_bad_answers_of_ag_ui(entry: dict[str, Any], error: str, browser: Browser) -> None:
    events = await browser.run("t", "conform:denial")
    first = {"interruptId": events[-1]["outcome"]["interrupts"][0]["id"], "status": "resolved"}
    entries = [first, {**first, **entry}]
    body = {"threadId": "t", "runId": "r2", "messages": [], "resume": entries}
    answer = await browser.http.post("/agui/", json=body)
    assert (answer.status_code, answer.json()["message"]) == (400, error)
    result = {"id": "x", "role": "tool", "toolCallId": "unknown", "content": "x"}
    answer = await browser.http.post("/agui/", json={**body, "resume": [], "messages": [result]})
    assert answer.json()["message"] == "no call of this thread waits for these results"
