"""`useChat` of the AI SDK 5, 6 and 7 shows what the server's log has."""

from __future__ import annotations

from typing import Any

import pytest

from concertino.testing.conformance import UNICODE, WORDS

from .conftest import Drive

pytestmark = pytest.mark.node
LONG = " ".join(f"word{number}" for number in range(2_000))
VERSIONS = ("5", "6", "7")


@pytest.fixture(params=VERSIONS)
async def shown(request: pytest.FixtureRequest, drive: Drive) -> dict[str, Any]:
    return await drive("ai_sdk.mjs", request.param)


def parts(found: dict[str, Any], *kinds: str) -> list[dict[str, Any]]:
    """Return the parts of the last message of some types; all without one."""
    assert found["errors"] == []
    assert found["status"] == "ready"
    return [part for part in found["messages"][-1]["parts"] if not kinds or part["type"] in kinds]


def texts(found: dict[str, Any]) -> list[str]:
    return [part["text"] for part in parts(found, "text")]


async def test_texts(shown: dict[str, Any]) -> None:
    assert texts(shown["text"]) == ["Hello from the conformance model."]
    assert texts(shown["long"]) == [LONG]
    assert texts(shown["unicode"]) == [UNICODE]
    assert [part["text"] for part in parts(shown["reasoning"], "reasoning", "text")] == [
        "First I think. ",
        "Then I answer.",
    ]


async def test_every_part_is_done(shown: dict[str, Any]) -> None:
    for name in ("text", "reasoning", "parallel", "long", "stop", "resume"):
        assert {part.get("state") for part in parts(shown[name], "text", "reasoning")} == {"done"}, name


async def test_calls(shown: dict[str, Any]) -> None:
    first, second = parts(shown["parallel"], "tool-lookup")
    assert (first["input"], first["output"], second["output"]) == ({"item": "tea"}, "found tea", "found cake")
    assert texts(shown["parallel"]) == ["Looking. ", "found tea; found cake"]
    (failed,) = parts(shown["tool-error"], "tool-fail")
    assert (failed["state"], failed["errorText"]) == ("output-error", "ValueError: no such item")


async def test_the_work_of_a_sub_agent_is_the_output_of_its_call(shown: dict[str, Any]) -> None:
    (call,) = parts(shown["sub-agent"], "tool-helper")
    assert call["state"] == "output-available"
    assert not call.get("preliminary")
    inner = call["output"]["parts"]
    assert inner[0]["data"] == {
        "agent": "helper",
        "path": "conformance/helper-1",
        "task": "conform:parallel",
        "status": "completed",
    }
    assert [part["output"] for part in inner if part["type"] == "tool-lookup"] == ["found tea", "found cake"]
    assert [part["text"] for part in inner if part["type"] == "text"] == ["Looking. ", "found tea; found cake"]


async def test_errors(shown: dict[str, Any]) -> None:
    for name in ("error-before", "error-during"):
        assert shown[name]["status"] == "error"
        assert [error.split(": run_")[0] for error in shown[name]["errors"]] == ["the run failed"]
    assert [part.get("text") for part in shown["error-during"]["messages"][-1]["parts"]] == [None, "Half of an "]


async def test_media_in_both_directions(shown: dict[str, Any]) -> None:
    assert texts(shown["files"]) == ["Received: image image/png"]
    (made,) = parts(shown["files"], "file")
    assert made["mediaType"] == "image/png"
    assert made["url"].startswith("data:image/png;base64,iVBORw0KGgo")


async def test_sources_and_data(shown: dict[str, Any]) -> None:
    (web,) = parts(shown["sources"], "source-url")
    (document,) = parts(shown["sources"], "source-document")
    assert (web["url"], web["title"]) == ("https://example.com/page", "A page")
    assert (document["filename"], document["title"]) == ("files/notes.txt", "A file")
    (weather,) = parts(shown["data"], "data-weather")
    assert weather["data"] == {"sky": "clear", "celsius": 21}
    (progress,) = parts(shown["data"], "data-progress")
    assert (progress["data"]["name"], progress["data"]["ended"]) == ("Counting", True)
    (output,) = parts(shown["typed"], "data-output")
    assert output["data"] == {"name": "Lyon", "people": 520_000}


async def test_usage_is_the_metadata(shown: dict[str, Any]) -> None:
    metadata = shown["parallel"]["messages"][-1]["metadata"]
    assert (metadata["status"], metadata["usage"]["totalTokens"]) == ("completed", 30)


async def test_a_client_that_comes_back_gets_the_same_messages(shown: dict[str, Any]) -> None:
    for name in ("text", "parallel", "tool-error", "sub-agent", "media", "sources", "data", "long", "unicode", "typed"):
        assert shown[name]["history"][-1]["parts"] == shown[name]["messages"][-1]["parts"], name


async def test_stop(shown: dict[str, Any]) -> None:
    assert shown["stop"]["answer"] == {"success": True}
    assert shown["stop"]["messages"][-1]["metadata"]["status"] == "cancelled"
    assert texts(shown["stop"])[0].startswith("word0 word1 ")


async def test_a_dropped_connection_stops_nothing_and_resume_shows_all(shown: dict[str, Any]) -> None:
    whole = " ".join(f"word{number}" for number in range(WORDS))
    dropped = shown["resume"]["dropped"]["messages"][-1]["parts"][-1]["text"]
    assert dropped != whole
    assert whole.startswith(dropped)
    assert texts(shown["resume"]) == [whole]
    assert len(shown["resume"]["messages"]) == 2
    assert texts(shown["resumeNothing"]) == [whole]


async def test_regenerate_and_edit(shown: dict[str, Any]) -> None:
    edit = shown["edit"]
    assert texts(edit) == ["You said: instead"]
    assert [message["id"] for message in edit["history"]["messages"]][1] == edit["first"]
    assert edit["regenerated"] not in [message["id"] for message in edit["history"]["messages"]]
    again = shown["editStored"]["history"]["messages"]
    assert [message["parts"][-1]["text"] for message in again] == ["again", "You said: again"]


async def test_a_chat_of_another_user_is_another_chat(shown: dict[str, Any]) -> None:
    assert texts(shown["otherUser"]) == ["Hello from the conformance model."]
    assert len(shown["otherUser"]["history"]["messages"]) == 2


async def test_tools_of_the_client(shown: dict[str, Any]) -> None:
    (call,) = parts(shown["clientTool"], "tool-locate")
    assert (call["state"], call["output"]) == ("output-available", "at home")
    assert texts(shown["clientTool"]) == ["at home"]
    assert len(shown["clientTool"]["messages"]) == 2


async def test_approvals_are_data_for_every_version(shown: dict[str, Any]) -> None:
    (asked,) = parts(shown["approval"], "data-approval")
    assert asked["data"]["tool"] == "refund"
    assert asked["data"]["input"] == {"order": "A1", "euros": 40}


@pytest.mark.parametrize("version", VERSIONS[1:])
async def test_approvals(version: str, drive: Drive) -> None:
    shown = await drive("ai_sdk.mjs", version)
    (before,) = [part for part in shown["approved"]["before"][-1]["parts"] if part["type"] == "tool-refund"]
    assert before["state"] == "approval-requested"
    (approved,) = parts(shown["approved"], "tool-refund")
    assert (approved["state"], approved["output"]) == ("output-available", "40 euros for order A1 are paid back")
    (denied,) = parts(shown["denied"], "tool-refund")
    assert denied["state"] == "output-denied"
    assert texts(shown["denied"]) == ["not allowed by ann: no"]
    (below,) = parts(shown["below"], "tool-helper")
    assert below["output"]["parts"][-1]["text"] == "40 euros for order A1 are paid back; found A1"
    for name in ("approved", "denied", "below"):
        assert len(shown[name]["messages"]) == 2  # the answer continues in the same message
        assert shown[name]["history"]["messages"][-1]["parts"][-1] == shown[name]["messages"][-1]["parts"][-1]
