"""The `openai` package for Node reads the server's Chat Completions and Responses."""

from __future__ import annotations

from typing import Any

import pytest

from concertino.testing.conformance import UNICODE

from .conftest import Drive

pytestmark = pytest.mark.node
ANSWERS = {
    "text": "Hello from the conformance model.",
    "reasoning": "Then I answer.",
    "parallel": "Looking. \n\nfound tea; found cake",
    "tool-error": "ValueError: no such item",
    "sub-agent": "found tea; found cake",
    "sources": "two sources about tea",
    "data": "three",
    "long": " ".join(f"word{number}" for number in range(2_000)),
    "unicode": UNICODE,
    "approval": '`refund({"euros": 40, "order": "A1"})` waits for an approval.',
}


@pytest.fixture
async def shown(drive: Drive) -> dict[str, Any]:
    return await drive("openai_client.mjs")


def statuses(found: dict[str, Any]) -> list[tuple[str, bool]]:
    events = [chunk["event"] for chunk in found["chunks"] if "event" in chunk]
    return [(e["data"]["description"], e["data"]["done"]) for e in events if e["type"] == "status"]


async def test_models(shown: dict[str, Any]) -> None:
    assert shown["models"] == ["conformance", "conformance_typed", "tasks"]
    assert (shown["unknown"]["status"], shown["unknown"]["kind"]) == (404, "NotFoundError")
    assert shown["title"]["choices"][0]["message"]["content"] == "You said: A title?"


@pytest.mark.parametrize("scenario", ANSWERS)
async def test_answers(scenario: str, shown: dict[str, Any]) -> None:
    for way in ("chat", "stream"):
        found = shown[way][scenario]
        assert (found["message"]["content"], found["reason"]) == (ANSWERS[scenario], "stop"), way
        assert not found["message"].get("tool_calls")
        assert found["usage"]["total_tokens"] >= 15
    whole, streamed = shown["response"][scenario], shown["responseStream"][scenario]["final"]
    assert whole["output_text"].replace("Looking. ", "Looking. \n\n") == ANSWERS[scenario]
    assert streamed["output_text"] == whole["output_text"]
    assert [item["type"] for item in streamed["output"]] == [item["type"] for item in whole["output"]]
    assert "function_call" not in {item["type"] for item in whole["output"]}


async def test_reasoning(shown: dict[str, Any]) -> None:
    assert shown["stream"]["reasoning"]["message"]["reasoning_content"] == "First I think. "
    assert shown["response"]["reasoning"]["output"][0]["content"][0]["text"] == "First I think. "


async def test_calls_are_progress_and_not_to_be_executed(shown: dict[str, Any]) -> None:
    assert statuses(shown["stream"]["parallel"]) == [("lookup", False)] * 2 + [("lookup", True)] * 2
    assert ("survey: Counting", True) in statuses(shown["stream"]["data"])
    calls = [item for item in shown["response"]["parallel"]["output"] if item["type"] == "mcp_call"]
    assert [(call["name"], call["output"], call["status"]) for call in calls] == [
        ("lookup", "found tea", "completed"),
        ("lookup", "found cake", "completed"),
    ]
    (failed,) = [item for item in shown["response"]["tool-error"]["output"] if item["type"] == "mcp_call"]
    assert (failed["error"]["content"][0]["text"], failed["status"]) == ("ValueError: no such item", "failed")


async def test_errors(shown: dict[str, Any]) -> None:
    for name in ("error-before", "error-during"):
        assert shown["chat"][name]["error"]["status"] == 500
        assert shown["stream"][name]["error"]["message"].startswith("the run failed: run_")
        assert shown["response"][name]["status"] == "failed"
        assert shown["responseStream"][name]["events"][-1]["type"] == "response.failed"


async def test_media_and_sources(shown: dict[str, Any]) -> None:
    assert shown["files"]["message"]["content"].startswith(
        "Received: image image/png\n\n![image](data:image/png;base64,"
    )
    assert shown["response"]["media"]["output"][1]["type"] == "image_generation_call"
    for way in ("chat", "stream"):
        (cited,) = shown[way]["sources"]["message"]["annotations"]
        assert cited["url_citation"]["url"] == "https://example.com/page"
    message = shown["response"]["sources"]["output"][-1]
    assert [each["url"] for each in message["content"][0]["annotations"]] == ["https://example.com/page"]


async def test_responses_are_retrieved_and_cancelled(shown: dict[str, Any]) -> None:
    assert shown["retrieved"]["output_text"] == "Hello from the conformance model."
    assert shown["otherUser"]["status"] == 404
    assert shown["cancelled"]["status"] == "cancelled"
    assert shown["cancelledStream"]["response"]["status"] == "cancelled"
