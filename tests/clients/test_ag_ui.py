"""`HttpAgent` of AG-UI verifies each stream of the server, and shows what its log has."""

from __future__ import annotations

from typing import Any

import pytest

from concertino.testing.conformance import UNICODE

from .conftest import Drive

pytestmark = pytest.mark.node


@pytest.fixture
async def shown(drive: Drive) -> dict[str, Any]:
    return await drive("ag_ui.mjs")


def messages(found: dict[str, Any], role: str = "assistant") -> list[dict[str, Any]]:
    assert found.get("error") is None
    return [message for message in found["messages"] if message["role"] == role]


def answer(found: dict[str, Any]) -> str:
    content: str = messages(found)[-1]["content"]
    return content


def customs(found: dict[str, Any]) -> dict[str, Any]:
    return {event["name"]: event["value"] for event in found["events"] if event["type"] == "CUSTOM"}


async def test_no_event_is_dropped_with_a_warning(shown: dict[str, Any]) -> None:
    assert shown["warnings"] == []
    answered = {name: found for name, found in shown.items() if name not in ("refused", "again")}
    assert not [name for name, found in answered.items() if "error" in found]
    assert not [found["scenario"] for found in shown["again"] if "error" in found]


async def test_texts(shown: dict[str, Any]) -> None:
    assert answer(shown["text"]) == "Hello from the conformance model."
    assert answer(shown["long"]) == " ".join(f"word{number}" for number in range(2_000))
    assert answer(shown["unicode"]) == UNICODE
    assert messages(shown["reasoning"], "reasoning")[0]["content"] == "First I think. "
    assert [each["content"] for each in messages(shown["twoTurns"])] == [
        "Hello from the conformance model.",
        "You said: and now?",
    ]


async def test_calls(shown: dict[str, Any]) -> None:
    first, last = messages(shown["parallel"])
    assert first["content"] == "Looking. "
    assert [call["function"]["arguments"] for call in first["toolCalls"]] == ['{"item": "tea"}', '{"item": "cake"}']
    assert {each["content"] for each in messages(shown["parallel"], "tool")} == {"found tea", "found cake"}
    assert last["content"] == "found tea; found cake"
    assert messages(shown["tool-error"], "tool")[0]["metadata"] == {"error": True}


async def test_sub_agents(shown: dict[str, Any]) -> None:
    (started,) = [event for event in shown["sub-agent"]["events"] if event["type"] == "SUBAGENT_STARTED"]
    assert (started["name"], started["parentToolCallId"]) == ("helper", "call_1")
    own = [message for message in shown["sub-agent"]["messages"] if message.get("subagentRunId")]
    assert {message["subagentRunId"] for message in own} == {started["subagentRunId"]}
    assert [message["content"] for message in own if message["role"] == "assistant"] == [
        "Looking. ",
        "found tea; found cake",
    ]
    # the calls run at the same time
    assert {message["content"] for message in own if message["role"] == "tool"} == {"found tea", "found cake"}


async def test_a_run_again_shows_its_messages_once(shown: dict[str, Any]) -> None:
    """A client that repeats a run has part of its answer: it would add the same text to the same message."""
    assert {each["events"][1]["type"] for each in shown["again"]} == {"MESSAGES_SNAPSHOT"}
    for each in shown["again"]:
        assert each["messages"] == each["before"], each["scenario"]


async def test_errors_end_with_one(shown: dict[str, Any]) -> None:
    for name in ("error-before", "error-during"):
        last = shown[name]["events"][-1]
        assert (last["type"], last["code"]) == ("RUN_ERROR", "failed")
        assert last["message"].startswith("the run failed: run_")
    assert answer(shown["error-during"]) == "Half of an "
    assert shown["refused"]["error"].startswith("Error: HTTP 400")


async def test_media_sources_data_and_state(shown: dict[str, Any]) -> None:
    assert answer(shown["files"]) == "Received: image image/png"
    assert customs(shown["media"])["media"]["url"].startswith("data:image/png;base64,iVBORw0KGgo")
    assert [source["id"] for source in customs(shown["sources"])["sources"]["sources"]] == ["s1", "s2"]
    assert customs(shown["data"])["weather"] == {"sky": "clear", "celsius": 21}
    (activity,) = messages(shown["data"], "activity")
    assert (activity["content"]["name"], activity["content"]["ended"]) == ("Counting", True)
    assert shown["typed"]["state"] == {"output": {"name": "Lyon", "people": 520_000}}


async def test_usage_is_that_of_each_run(shown: dict[str, Any]) -> None:
    (usage,) = shown["parallel"]["events"][-1]["usage"]
    assert (usage["model"], usage["totalTokens"]) == ("conformance", 30)
    (rest,) = shown["approved"]["events"][-1]["usage"]
    assert rest["totalTokens"] == 15


async def test_interrupts(shown: dict[str, Any]) -> None:
    (asked,) = shown["approved"]["interrupts"]
    assert (asked["reason"], asked["toolCallId"]) == ("tool_call", "call_1")
    assert asked["metadata"]["arguments"] == {"order": "A1", "euros": 40}
    results = [messages(shown[name], "tool")[-1]["content"] for name in ("approved", "edited", "denied")]
    assert results == [
        "40 euros for order A1 are paid back",
        "5 euros for order A1 are paid back",
        "not allowed by ann: no",
    ]
    assert shown["approved"]["types"].count("TOOL_CALL_START") == 0  # the client has it
    (below,) = shown["below"]["interrupts"]
    assert below["subagentRunId"] == shown["below"]["events"][1]["subagentRunId"]
    assert answer(shown["below"]) == "40 euros for order A1 are paid back; found A1"


async def test_tools_of_the_client(shown: dict[str, Any]) -> None:
    assert shown["clientTool"]["outcome"] == {"type": "success", "pendingToolCallIds": ["call_1"]}
    assert [each["content"] for each in messages(shown["clientTool"], "tool")] == ["at home"]
    assert answer(shown["clientTool"]) == "at home"


async def test_a_thread_of_another_user_is_another_thread(shown: dict[str, Any]) -> None:
    assert answer(shown["otherUser"]) == "found tea; found cake"
