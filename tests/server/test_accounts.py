"""Uploads, workers, and the erasure of a user."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path
from typing import Any

import pytest

from concertino import Resources, Runtime, Scope, ToolRegistry
from concertino.agents import WorkerAgent, WorkerDefinition
from concertino.errors import ConfigurationError
from concertino.server import FileFolder, create_app
from concertino.testing import Answer, call

from .kit import User, authenticate, shop


def stored(folder: Path) -> list[Path]:
    return list(folder.glob("*/*"))


async def test_an_upload_becomes_part_of_a_message(tmp_path: Path) -> None:
    async with shop("A cat.", files=FileFolder(tmp_path)) as app:
        ann = User(app)
        png = {"content-type": "image/png"}
        made = await ann("POST", "/api/files?name=cat.png", 201, content=b"pixels", headers=png)
        assert (made["name"], made["media_type"], made["size"]) == ("cat.png", "image/png", 6)
        assert (await ann("GET", "/api/files"))["items"] == [made]
        answer = await ann("GET", f"/api/files/{made['id']}")
        assert answer.content == b"pixels"
        assert answer.headers["content-disposition"] == "attachment; filename*=UTF-8''cat.png"
        assert answer.headers["content-security-policy"] == "default-src 'none'; sandbox"
        one = await ann.new_conversation()
        await ann("POST", f"{one}/turns", 202, json={"text": "What is it?", "files": [made["id"]]})
        turn = (await ann("GET", f"{one}/turns"))["items"][0]
        await ann.events(f"{one}/turns/{turn['id']}/events")
        (media,) = app.state.model.requests[0].messages[-1].media
        assert (media.media_type, media.name, media.data) == ("image/png", "cat.png", "cGl4ZWxz")
        refused = await ann(
            "POST", f"{one}/turns", 409, json={"text": "It", "files": [made["id"]], "when_busy": "steer"}
        )
        assert refused["error"]["code"] == "conflict"
        await ann("DELETE", f"/api/files/{made['id']}", 204)
        await ann("GET", f"/api/files/{made['id']}", 404)
        await ann("POST", f"{one}/turns", 404, json={"text": "It", "files": [made["id"]]})
        assert stored(tmp_path) == []


async def test_uploads_have_limits(tmp_path: Path) -> None:
    folder = FileFolder(tmp_path, types=["text/plain"], most_bytes=10, most_files=1)
    async with shop(files=folder) as app:
        ann = User(app)
        text = {"content-type": "text/plain; charset=utf-8"}
        page = {"content-type": "text/html"}
        assert "text/html" in (await ann("POST", "/api/files", 415, content=b"<p>", headers=page))["error"]["message"]
        await ann("POST", "/api/files", 413, content=b"12345678901", headers=text)

        async def chunks() -> Any:
            yield b"123456"
            yield b"78901"

        await ann("POST", "/api/files", 413, content=chunks(), headers=text)
        await ann("POST", "/api/files", 201, content=b"1234567890", headers=text)
        full = await ann("POST", "/api/files", 409, content=b"1", headers=text)
        assert "delete one first" in full["error"]["message"]
        await User(app, "acme/bob")("POST", "/api/files", 201, content=b"1", headers=text)


async def test_an_old_upload_is_gone(tmp_path: Path) -> None:
    async with shop(files=FileFolder(tmp_path)) as app:
        made = await User(app)("POST", "/api/files", 201, content=b"1", headers={"content-type": "text/plain"})
    for path in stored(tmp_path):
        os.utime(path, (0, 0))
        if path.suffix:
            path.write_text(json.dumps(json.loads(path.read_text()) | {"uploaded": 0}))
            os.utime(path, (0, 0))
    async with shop(files=FileFolder(tmp_path)) as app:
        await User(app)("GET", f"/api/files/{made['id']}", 404)
        bob = User(app, "acme/bob")
        new = await bob("POST", "/api/files", 201, content=b"2", headers={"content-type": "text/plain"})
        assert {path.stem for path in stored(tmp_path)} == {new["id"]}


async def test_a_folder_that_cannot_be_used(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    async with shop(files=FileFolder(blocked)) as app:
        text = {"content-type": "text/plain"}
        answer = await User(app)("POST", "/api/files", 503, content=b"1", headers=text)
    assert answer["error"] == {
        "code": "server_error",
        "message": "the server failed: try again later, or ask its operator",
    }
    assert "the folder of uploads cannot be used" in caplog.text


def test_a_folder_needs_limits(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="most_bytes=0"):
        FileFolder(tmp_path, most_bytes=0)


async def test_without_a_folder_there_are_no_uploads() -> None:
    async with shop() as app:
        ann = User(app)
        await ann("GET", "/api/files", 404)
        one = await ann.new_conversation()
        await ann("POST", f"{one}/turns", 404, json={"text": "It", "files": ["file_1"]})


def decision(*calls: tuple[str, dict[str, Any]], **fields: Any) -> str:
    made = [{"tool": name, "params": params} for name, params in calls]
    return json.dumps({"thinking": "", "tool_calls": made, "should_respond": False, "confidence": "medium", **fields})


async def test_a_worker_works_on_a_goal() -> None:
    asks = decision(("refund", {"order": "7", "euros": 5}), document_updates={"findings": "order 7 is late"})
    answers = decision(should_respond=True, response="It is late.", confidence="high")
    async with shop(asks, answers) as app:
        ann = User(app)
        (worker,) = (await ann("GET", "/api/workers"))["items"]
        assert (worker["id"], worker["starter_prompts"]) == ("analyst", ["Which orders are late?"])
        assert await ann("GET", "/api/workers/analyst") == worker
        await ann("GET", "/api/workers/desk", 404)
        key = {"Idempotency-Key": "g1"}
        goal = await ann("POST", "/api/workers/analyst/goals", 202, json={"text": "Order 7?"}, headers=key)
        again = await ann("POST", "/api/workers/analyst/goals", 202, json={"text": "Order 7?"}, headers=key)
        assert goal["id"] == again["id"]
        await ann.events(f"/api/runs/{goal['id']}/events?until=suspended")
        path = f"/api/workers/analyst/goals/{goal['id']}"
        found = await ann("GET", path)
        assert (found["run"]["state"], found["passes"]) == ("suspended", 1)
        assert "order 7 is late" in found["document"]["findings"]
        (wait,) = found["approvals"]
        await ann("POST", f"/api/approvals/{wait['key']}", json={"decision": "approve"})
        events = await ann.events(f"/api/runs/{goal['id']}/events")
        assert events[-1][1]["result"]["text"] == "It is late."
        assert all(event.get("audience") != "internal" for _, event in events)
        found = await ann("GET", path)
        assert (found["ended"], found["approvals"], found["history"][0]["section"]) == ("responded", [], "findings")
        assert [each["id"] for each in (await ann("GET", "/api/workers/analyst/goals"))["items"]] == [goal["id"]]
        await ann("GET", "/api/workers/analyst/goals/run_1", 404)
        desk = (await ann.new_conversation(agent="desk")).rpartition("/")[2]
        wrong = {"text": "Order 8?", "conversation": desk}
        await ann("POST", "/api/workers/analyst/goals", 409, json=wrong)


async def test_everything_of_a_user_is_erased(tmp_path: Path) -> None:
    async with shop(call("refund", order="7", euros=1), "Hello.", files=FileFolder(tmp_path)) as app:
        ann, bob = User(app), User(app, "acme/bob")
        one = await ann.new_conversation()
        await ann.send(one, "My money back!")
        other = await bob.new_conversation()
        await bob.send(other, "Hello")
        await ann("POST", "/api/files", 201, content=b"1", headers={"content-type": "text/plain"})
        assert await ann("DELETE", "/api/data") == {"runs": 1, "memories": 0, "files": 1}
        await ann("GET", one, 404)
        assert (await ann("GET", "/api/files"))["items"] == []
        assert (await bob("GET", other))["busy"] == ""
        await User(app, "acme/")("DELETE", "/api/data", 403)


async def test_an_erasure_stops_what_runs() -> None:
    begun = asyncio.Event()

    async def wait() -> None:
        begun.set()
        await asyncio.Event().wait()

    async with shop(Answer(text="One", before=wait)) as app:
        ann = User(app)
        one = await ann.new_conversation()
        turn = await ann("POST", f"{one}/turns", 202, json={"text": "Hi"})
        await begun.wait()
        live = app.state.server.runtime.live(Scope("acme", "ann"), turn["id"])
        assert (await ann("DELETE", "/api/data"))["runs"] == 1
        assert (await live.result()).status == "cancelled"
        await ann("GET", f"/api/runs/{turn['id']}", 404)


async def test_a_worker_that_is_coming_soon_takes_no_goals() -> None:
    async with shop() as app:
        later = WorkerDefinition(id="later", name="Later", system_prompt="Wait.", status="coming_soon")
        runtime = Runtime([WorkerAgent(later, ToolRegistry([]))], Resources(store=app.state.server.runtime.store))
        ann = User(create_app(runtime, authenticate))
        assert (await ann("GET", "/api/workers/later"))["status"] == "coming_soon"
        refused = await ann("POST", "/api/workers/later/goals", 409, json={"text": "Go"})
        assert "takes no goals yet" in refused["error"]["message"]


async def test_agents() -> None:
    async with shop(agents=["desk"]) as app:
        ann = User(app)
        assert (await ann("GET", "/api/agents"))["items"] == ["desk"]
        assert (await ann("GET", "/api/workers"))["items"] == []
        await ann("POST", "/api/conversations", 404, json={"agent": "analyst"})
    with pytest.raises(ConfigurationError, match="no agent 'cook'"):
        async with shop(agents=["cook"]):
            pass
