"""What the protocols make of work that a retry or a crash undid, and of a sub-agent's long text."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from concertino import AssistantMessage, Text, ToolCall
from concertino.events import (
    CallWaiting,
    Notice,
    RunEnded,
    RunEvent,
    RunProgress,
    RunResult,
    RunStarted,
    Steered,
    TextDelta,
    ToolDone,
    ToolStarted,
    ToolStreamed,
    TurnCompleted,
    Voided,
)
from concertino.server.protocols.ag_ui_stream import AGUIStream
from concertino.server.protocols.ai_sdk_stream import LEAST_GROWTH, AISDKStream
from concertino.server.protocols.openai_chat import ChatStream
from concertino.server.protocols.openai_responses import ResponseStream

BASE = ("r", "agent", 0)
CHILD = ("s", "agent/helper-1", 0)


def ended(status: Any = "completed", error: str | None = None, base: tuple[str, str, int] = BASE) -> RunEnded:
    counts: dict[str, Any] = {"content_index": 0, "steps": 1, "tool_calls": {}, "usage": (), "data": {}}
    result = RunResult(run_id=base[0], agent_path=base[1], status=status, text="", messages=(), error=error, **counts)
    return RunEnded(*base, result)


def turn(*parts: Any, attempt: str = "r:1:2") -> TurnCompleted:
    return TurnCompleted(*BASE, AssistantMessage(parts), attempt=attempt)


VOID: tuple[RunEvent, ...] = (
    TextDelta(*BASE, "Half", attempt="r:1:1"),
    turn(Text("Half"), ToolCall("c1", "add", "{}"), attempt="r:1:1"),
    Voided(*BASE, 1, 2),
    turn(Text("Whole")),
    ended(),
)


def mapped(stream: Any, events: Sequence[RunEvent]) -> Iterator[Any]:
    """Yield the frames of a stream as a client gets them: a later change does not change them."""
    for number, event in enumerate(events, 1):
        for frame in stream.take(number, event):
            yield json.loads(json.dumps(frame))


def test_the_ai_sdk_names_void_parts() -> None:
    chunks = list(mapped(AISDKStream("r"), VOID))
    assert [chunk["data"] for chunk in chunks if chunk["type"] == "data-void"] == [{"part": "r:1:1"}]
    assert [chunk["errorText"] for chunk in chunks if chunk["type"] == "tool-output-error"] == [
        "the call was discarded"
    ]
    assert [chunk["id"] for chunk in chunks if chunk["type"] == "text-start"] == ["r:1:1", "r:1:2"]


def test_ag_ui_replaces_the_messages() -> None:
    events = list(mapped(AGUIStream("r", "t", "x", [{"id": "m", "role": "user", "content": "?"}]), VOID))
    snapshots = [event["messages"] for event in events if event["type"] == "MESSAGES_SNAPSHOT"]
    assert [message["id"] for message in snapshots[-1]] == ["m"]
    assert events[-1]["type"] == "RUN_FINISHED"


def test_chat_completions_tell_that_the_answer_starts_again() -> None:
    chunks = list(mapped(ChatStream("r", "m", 0, usage=False), VOID))
    assert "The answer starts again" in [chunk["event"]["data"]["description"] for chunk in chunks if "event" in chunk]
    assert "".join(c["delta"].get("content", "") for chunk in chunks for c in chunk["choices"]) == "Half\n\nWhole"


def test_a_response_has_no_void_items() -> None:
    stream = ResponseStream("r", "m", 0)
    events = list(mapped(stream, VOID))
    assert [event["type"] for event in events].count("response.output_item.done") == 3
    assert [item["content"][0]["text"] for item in stream.response["output"]] == ["Whole"]


def test_the_previews_of_a_sub_agent_cost_a_multiple_of_its_text() -> None:
    words = [TextDelta(*CHILD, "word ", "draft", attempt="s:1:1") for _ in range(4_000)]
    events: list[RunEvent] = [
        turn(ToolCall("c1", "helper", "{}")),
        ToolStarted(*BASE, "c1", "helper", "{}"),
        RunStarted(*CHILD, "helper", "work", "c1"),
        *words,
        ended(base=CHILD),
        ToolDone(*BASE, "c1", "helper", "done"),
    ]
    sent = [chunk for chunk in mapped(AISDKStream("r"), events) if chunk["type"] == "tool-output-available"]
    assert not sent[-1].get("preliminary")
    assert sent[-1]["output"]["metadata"]["content"] == "done"
    previews = [chunk["output"]["parts"][-1].get("text", "") for chunk in sent if chunk.get("preliminary")]
    assert len(previews) > 10
    assert sum(map(len, previews)) < 10 * 5 * len(words)


def test_a_tool_that_streams_has_preliminary_output() -> None:
    pieces = [ToolStreamed(*BASE, "c1", "report", "x" * LEAST_GROWTH) for _ in range(3)]
    events: list[RunEvent] = [turn(ToolCall("c1", "report", "{}")), ToolStarted(*BASE, "c1", "report", "{}"), *pieces]
    chunks = list(mapped(AISDKStream("r"), events))
    assert [len(chunk["output"]) for chunk in chunks if chunk.get("preliminary")] == [80, 160, 240]
    deltas = [
        event["value"]["delta"] for event in mapped(AGUIStream("r", "t", "x"), events) if event["type"] == "CUSTOM"
    ]
    assert "".join(deltas) == "x" * 240


def test_a_page_that_a_tool_asks_to_open_is_a_link() -> None:
    def asked(tool: str, url: str) -> CallWaiting:
        return CallWaiting(*BASE, "c1", tool, f"k:{url}", "result", json.dumps({"url": url}), note="Log in.")

    urls = ["https://login.example/", "javascript:alert(1)", ""]
    events = [*[asked("ask_person", url) for url in urls], asked("fetch", urls[0])]
    links = [chunk for chunk in mapped(AISDKStream("r"), events) if chunk["type"] == "data-link"]
    data = {"key": f"k:{urls[0]}", "note": "Log in.", "url": urls[0]}
    assert links == [{"type": "data-link", "id": data["key"], "data": data}]


def test_notices_steps_and_steering() -> None:
    step = {"id": 1, "name": "Looking", "ended": True}
    events: list[RunEvent] = [
        Notice(*BASE, "limit_reached", "too many"),
        RunProgress(*BASE, step),
        Steered(*BASE, "faster"),
    ]
    data = {chunk["type"]: chunk["data"] for chunk in mapped(AISDKStream("r"), events)}
    notice = {"code": "limit_reached", "text": "too many"}
    assert data == {"data-notice": notice, "data-progress": step, "data-steering": {"text": "faster"}}
    values = {event.get("name", "PROGRESS"): event for event in mapped(AGUIStream("r", "t", "x"), events)}
    assert values["notice"]["value"] == notice
    assert values["PROGRESS"]["content"] == step
    assert values["steering"]["value"] == {"text": "faster"}


def test_a_limit_is_named_and_a_failure_is_not() -> None:
    for status, text in (("limited", "too many steps"), ("failed", "the run failed: r")):
        end = [ended(status, "too many steps" if status == "limited" else "BadRequestError: secret")]
        sent = [
            json.dumps(list(mapped(stream, end)))
            for stream in (AISDKStream("r"), AGUIStream("r", "t", "x"), ChatStream("r", "m", 0, usage=True))
        ]
        response = ResponseStream("r", "m", 0)
        sent.append(json.dumps(list(mapped(response, end))))
        assert "secret" not in "".join(sent)
        assert all(text in each for each in sent[:3])
        assert response.response["status"] == {"limited": "incomplete", "failed": "failed"}[status]


def test_the_calls_of_two_sub_agents_have_different_ids() -> None:
    other = ("u", "agent/helper-2", 0)
    events: list[RunEvent] = [
        RunStarted(*CHILD, "helper", "one", None),
        RunStarted(*other, "helper", "two", None),
        ToolStarted(*CHILD, "c1", "add", "{}"),
        ToolStarted(*other, "c1", "add", "{}"),
    ]
    calls = [e["toolCallId"] for e in mapped(AGUIStream("r", "t", "x"), events) if e["type"] == "TOOL_CALL_START"]
    assert calls == ["s:c1", "u:c1"]
    starts = [c for c in mapped(AISDKStream("r"), events) if c["type"] == "tool-input-start"]
    assert [chunk["toolCallId"] for chunk in starts] == ["s", "u"]
