"""Conversations over HTTP: messages, branches, approvals, streams."""

from __future__ import annotations

import asyncio
import json
import re
from typing import Any

from concertino.server import ServerLimits
from concertino.testing import Answer, call

from .kit import User, shop


async def test_a_conversation() -> None:
    async with shop("Hello Ann.", "Green.") as app:
        ann = User(app)
        one = await ann.new_conversation()
        turn = await ann.send(one, "Hello")
        assert (turn["state"], turn["answer"]) == ("completed", "Hello Ann.")
        await ann.send(one, "A color?")
        shown = await ann("GET", f"{one}/turns?limit=1")
        assert [each["answer"] for each in shown["items"]] == ["Green."]
        older = await ann("GET", f"{one}/turns?limit=1&before={shown['next']}")
        assert [each["answer"] for each in older["items"]] == ["Hello Ann."]
        assert (await ann("GET", f"{one}/turns?limit=5"))["next"] is None
        exported = await ann("GET", f"{one}/export")
        assert (exported["format"], len(exported["turns"])) == ("concertino-conversation", 2)
        messages = await ann("GET", f"{one}/turns/{turn['id']}/messages")
        assert [each["role"] for each in messages["items"]] == ["user", "assistant"]
        await app.state.server.runtime.look()
        assert [each["answer"] for each in (await ann("GET", "/api/search?text=color"))["items"]] == ["Green."]


async def test_lists_titles_and_deletion() -> None:
    async with shop("Hello.", "A Greeting") as app:
        ann = User(app)
        one, two = await ann.new_conversation(agent="desk"), await ann.new_conversation(agent="analyst")
        await ann("PATCH", one, json={"title": "Mine"})
        assert (await ann("GET", one))["title"] == "Mine"
        first = await ann("GET", "/api/conversations?limit=1")
        second = await ann("GET", f"/api/conversations?limit=1&before={first['next']}")
        assert {first["items"][0]["agent"], second["items"][0]["agent"]} == {"desk", "analyst"}
        await ann("DELETE", two, 204)
        missing = await ann("GET", two, 404)
        assert missing["error"]["code"] == "unknown_conversation"
        three = await ann.new_conversation()
        await ann.send(three, "Hi")
        assert (await ann("POST", f"{three}/title"))["title"] == "A Greeting"


async def test_the_same_key_is_the_same_turn() -> None:
    async with shop("Hello.") as app:
        ann = User(app)
        one = await ann.new_conversation()
        key = {"Idempotency-Key": "k1"}
        turn = await ann.send(one, "Hello", headers=key)
        again = await ann.send(one, "Hello", headers=key)
        assert again["id"] == turn["id"]
        assert len((await ann("GET", f"{one}/turns"))["items"]) == 1


async def test_branches() -> None:
    async with shop("Blue.", "Green.", "Four.") as app:
        ann = User(app)
        one = await ann.new_conversation()
        first = await ann.send(one, "A color?")
        second = await ann("POST", f"{one}/turns/{first['id']}/regenerate", 202, json={})
        await ann.events(f"{one}/turns/{second['id']}/events")
        edited = await ann("POST", f"{one}/turns/{first['id']}/edit", 202, json={"text": "A number?"})
        await ann.events(f"{one}/turns/{edited['id']}/events")
        switched = await ann("POST", f"{one}/turns/{first['id']}/switch")
        assert switched == {"leaf": first["id"]}
        (shown,) = (await ann("GET", f"{one}/turns"))["items"]
        assert (shown["answer"], shown["siblings"]) == ("Blue.", [first["id"], second["id"], edited["id"]])
        assert await ann("POST", f"{one}/turns/{edited['id']}/branch") == {"leaf": edited["id"]}
        rated = await ann("PUT", f"{one}/turns/{edited['id']}/feedback", json={"rating": "up", "text": "Quick."})
        assert rated["feedback"] == {"rating": "up", "text": "Quick."}


async def test_messages_during_a_turn() -> None:
    begun, free = asyncio.Event(), asyncio.Event()

    async def wait() -> None:
        begun.set()
        await free.wait()

    async with shop(Answer(text="One.", before=wait), "Steered.", "Two.") as app:
        ann = User(app)
        one = await ann.new_conversation()
        first = await ann("POST", f"{one}/turns", 202, json={"text": "1"})
        await begun.wait()
        queued = await ann("POST", f"{one}/turns", 202, json={"text": "2"})
        gone = await ann("POST", f"{one}/turns", 202, json={"text": "3"})
        assert [each["message"] for each in (await ann("GET", f"{one}/queue"))["items"]] == ["2", "3"]
        await ann("DELETE", f"{one}/queue/{gone['id']}", 204)
        busy = await ann("POST", f"{one}/turns", 409, json={"text": "4", "when_busy": "refuse"})
        assert busy["error"]["code"] == "conversation_busy"
        steered = await ann("POST", f"{one}/turns", 202, json={"text": "5", "when_busy": "steer"})
        assert steered["id"] == first["id"]
        await ann("POST", f"/api/runs/{first['id']}/steer", 204, json={"text": "6"})
        following = asyncio.create_task(ann.events(f"{one}/turns/{queued['id']}/events"))
        free.set()
        assert (await following)[-1][1]["result"]["text"] == "Two."
        await ann("DELETE", f"{one}/queue/{queued['id']}", 409)


async def test_a_stream_continues_after_the_last_event() -> None:
    async with shop("One two three.") as app:
        ann = User(app)
        one = await ann.new_conversation()
        turn = await ann.send(one, "Count")
        for path in (f"{one}/turns/{turn['id']}/events", f"/api/runs/{turn['id']}/events"):
            events = await ann.events(path)
            numbers = [number for number, _ in events]
            assert numbers == sorted(set(numbers))
            assert (events[0][1]["type"], events[-1][1]["type"]) == ("run_started", "run_ended")
            middle = numbers[2]
            assert await ann.events(path, headers={"Last-Event-ID": str(middle)}) == events[3:]
            assert await ann.events(f"{path}?after={middle}") == events[3:]
            await ann("GET", f"{path}?after={numbers[-1]}", 204)


async def test_an_approval_with_other_arguments() -> None:
    async with shop(call("refund", order="7", euros=90), "Paid.") as app:
        ann = User(app)
        one = await ann.new_conversation()
        turn = await ann.send(one, "My money back!")
        assert turn["state"] == "waiting"
        (wait,) = (await ann("GET", "/api/approvals"))["items"]
        assert (wait["tool"], wait["arguments"], wait["note"]) == ("refund", '{"euros": 90, "order": "7"}', "a refund")
        answer = {"decision": "approve", "arguments": {"order": "7", "euros": 50}}
        assert await ann("POST", f"/api/approvals/{wait['key']}", json=answer) == {
            "won": True,
            "verdict": "approved",
            "by": "ann",
        }
        second = await ann("POST", f"/api/approvals/{wait['key']}", json={"decision": "deny", "reason": "late"})
        assert (second["won"], second["verdict"]) == (False, "approved")
        events = await ann.events(f"{one}/turns/{turn['id']}/events")
        (done,) = [event for _, event in events if event["type"] == "tool_done"]
        assert done["content"] == "50 euros for order 7"


async def test_an_approval_of_named_people() -> None:
    async with shop(call("refund", order="7", euros=500), "No.") as app:
        ann, lead = User(app), User(app, "acme/lead")
        one = await ann.new_conversation()
        turn = await ann.send(one, "My money back!")
        assert (await ann("GET", "/api/approvals"))["items"] == []
        (wait,) = (await lead("GET", "/api/approvals"))["items"]
        refused = await ann("POST", f"/api/approvals/{wait['key']}", 403, json={"decision": "approve"})
        assert refused["error"]["code"] == "not_allowed"
        await User(app, "acme/eve")("POST", f"/api/approvals/{wait['key']}", 404, json={"decision": "approve"})
        await User(app, "globex/lead")("POST", f"/api/approvals/{wait['key']}", 404, json={"decision": "approve"})
        await lead("POST", f"/api/approvals/{wait['key']}", json={"decision": "deny", "reason": "too much"})
        events = await ann.events(f"{one}/turns/{turn['id']}/events")
        assert events[-1][1]["result"]["text"] == "No."


async def test_a_run_is_read_and_stopped() -> None:
    begun = asyncio.Event()

    async def wait() -> None:
        begun.set()
        await asyncio.Event().wait()

    async with shop(Answer(text="Part of it", midway=wait), "All.") as app:
        ann = User(app)
        one = await ann.new_conversation()
        turn = await ann("POST", f"{one}/turns", 202, json={"text": "Go"})
        await begun.wait()
        run = f"/api/runs/{turn['id']}"
        assert (await ann("GET", run))["state"] == "running"
        refused = await ann("GET", f"{run}/receipt", 409)
        assert "was not stopped" in refused["error"]["message"]
        receipt = await ann("POST", f"{run}/stop")
        assert [each["what"] for each in receipt["stopped"]] == ["model"]
        assert await ann("GET", f"{run}/receipt") == receipt
        await ann("POST", f"{run}/stop", 409)
        stopped = await ann("GET", f"{one}/turns/{turn['id']}")
        assert (stopped["state"], stopped["answer"]) == ("cancelled", "Part of it")
        assert [each["id"] for each in (await ann("GET", "/api/runs"))["items"]] == [turn["id"]]
        assert [each["id"] for each in (await ann("GET", f"{run}/tree"))["items"]] == [turn["id"]]


async def test_timeline_and_usage() -> None:
    async with shop(call("refund", order="7", euros=1), "Paid.") as app:
        ann = User(app)
        one = await ann.new_conversation()
        turn = await ann.send(one, "My money back!")
        (wait,) = (await ann("GET", "/api/approvals"))["items"]
        await ann("POST", f"/api/approvals/{wait['key']}", json={"decision": "approve"})
        await ann.events(f"{one}/turns/{turn['id']}/events")
        run = f"/api/runs/{turn['id']}"
        steps = (await ann("GET", f"{run}/timeline"))["steps"]
        assert [[(each["name"], each["state"]) for each in step["calls"]] for step in steps] == [
            [("refund", "done")],
            [],
        ]
        records = (await ann("GET", f"{run}/usage"))["items"]
        assert [each["tokens"]["prompt"] for each in records] == [10, 10]
        (total,) = (await ann("GET", "/api/usage?by=model"))["items"]
        assert (total["attempts"], total["tokens"]["completion"], total["unknown"]) == (2, 10, 0)
        assert (await ann("GET", "/api/usage?since=1&until=2"))["items"] == []


async def test_a_stream_of_a_conversation() -> None:
    async with shop("One.", "Two.", limits=ServerLimits(stream_seconds=0.3)) as app:
        ann = User(app)
        one = await ann.new_conversation()
        turns = [await ann.send(one, text) for text in ("1", "2")]
        path, first = f"{one}/events", turns[0]["id"]
        (state,) = (await ann("GET", path)).text.split("\n\n")[:-1]
        assert state.startswith("event: conversation\ndata: {")
        assert json.loads(state.partition("data: ")[2]) == await ann("GET", one)
        asked: list[dict[str, Any]] = [
            {"headers": {"Last-Event-ID": f"{first}:1"}},
            {"params": {"after": f"{first}:1"}},
        ]
        for options in asked:
            got = (await ann("GET", path, **options)).text
            ids = re.findall("^id: (.*)$", got, re.MULTILINE)
            logs = {each["id"]: await ann.events(f"{one}/turns/{each['id']}/events") for each in turns}
            assert ids == [f"{id}:{number}" for id, log in logs.items() for number, _ in log][1:]
        for bad in ("x", f"{first}:", f"{first}:-1", f"{first}:{10**20}", "a b:1"):
            await ann("GET", path, 422, params={"after": bad})
        await ann("GET", path, 404, params={"after": "x:1"})
