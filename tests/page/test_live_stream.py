"""The stream of an open page: parts of the turn in progress, and the word that something has changed."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from .kit import desk
from .server import listening
from .test_views import check

Frame = dict[str, Any]


class Reader:
    """A browser that has a conversation open, and keeps what it shows."""

    def __init__(self, http: httpx2.AsyncClient, path: str) -> None:
        self.http = http
        self.path = path
        self.shown: dict[str, str] = {}
        self.status = ""
        self.changes = 0

    async def send(self, text: str) -> str:
        answer = await self.http.post(f"/api{self.path}/turns", json={"text": text})
        assert answer.is_success, answer.text
        return str(answer.json()["id"])

    async def read(self, until: Any, seen: str = "") -> None:
        """Apply frames until one satisfies *until*."""
        path = self.path.replace("/conversations/", "/c/")
        async with self.http.stream("GET", f"{path}/live?seen={seen}") as answer:
            assert answer.status_code == 200
            async for line in answer.aiter_lines():
                if line.startswith("data: ") and until(self.apply(json.loads(line[6:]))):
                    return
        raise AssertionError("the stream has ended")

    def apply(self, frame: Frame) -> Frame:
        if frame.get("changed"):
            self.changes += 1
            return {"over": False, "status": "", "turn": "", **frame}
        if frame["whole"]:
            self.shown = {id: html for id, html in self.shown.items() if not id.startswith(frame["turn"])}
        for id, _, html in frame["parts"]:
            self.shown[id] = check(html)
        for id in frame["removed"]:
            del self.shown[id]
        self.status = frame["status"]
        return frame

    @property
    def text(self) -> str:
        return "\n".join(self.shown.values())


@pytest.fixture
async def reader(tmp_path: Path) -> AsyncIterator[Reader]:
    async with opened(tmp_path) as made:
        yield made


@asynccontextmanager
async def opened(folder: Path) -> AsyncIterator[Reader]:
    async with desk(folder) as app, listening(app) as address:
        async with httpx2.AsyncClient(base_url=address, trust_env=False, timeout=600) as http:
            made = (await http.post("/api/conversations", json={})).json()
            reader = Reader(http, f"/conversations/{made['id']}")
            reader.http.app = app  # type: ignore[attr-defined]
            yield reader


async def test_a_text_is_shown_while_it_is_written(reader: Reader) -> None:
    await reader.send("slow")
    await reader.read(lambda frame: "The beginning" in reader.text)
    assert reader.status == "Writing"
    reader.http.app.state.model.gate.set()  # type: ignore[attr-defined]
    await reader.read(lambda frame: frame["over"])
    assert "The beginning of an answer." in reader.text


async def test_all_parts_of_a_turn_arrive(reader: Reader) -> None:
    await reader.send("markdown")
    await reader.read(lambda frame: frame["over"])
    assert "<strong>how</strong>" in reader.text
    assert "Thoughts" in reader.text
    blocks = [id for id in reader.shown if "-text-" in id and id[-1].isdigit()]
    assert len(blocks) >= 4


async def test_hostile_parts_are_text(reader: Reader) -> None:
    for text in ("hostile", "noisy"):
        await reader.send(text)
        await reader.read(lambda frame: frame["over"])
        assert "&lt;script&gt;" in reader.text


async def test_an_approval_is_shown_until_it_is_answered(reader: Reader) -> None:
    await reader.send("refund")
    await reader.read(lambda frame: frame["status"] == "Waiting for your approval")
    (card,) = [html for id, html in reader.shown.items() if id.endswith("-approval")]
    assert "&#34;order&#34;: &#34;A-17 &lt;b&gt;&#34;" in card
    (waiting,) = (await reader.http.get("/api/approvals")).json()["items"]
    assert f'data-key="{waiting["key"]}"' in card
    given = {"decision": "approve", "arguments": {"order": "A-17", "euros": 20}}
    await reader.http.post(f"/api/approvals/{waiting['key']}", json=given)
    await reader.read(lambda frame: frame["over"])
    assert not [id for id in reader.shown if id.endswith("-approval")]
    assert "20 euros for order A-17" in reader.text


async def test_sub_agents_are_a_tree(reader: Reader) -> None:
    await reader.send("research")
    await reader.read(lambda frame: frame["over"])
    (tree,) = [html for id, html in reader.shown.items() if id.endswith("-agents")]
    assert tree.count('class="agent completed"') == 3
    assert "And processes?" in tree
    inner = [id for id in reader.shown if "-text-" in id]
    assert len(inner) >= 3


async def test_a_worker_reports_its_passes(reader: Reader) -> None:
    goal = (await reader.http.post("/api/workers/analyst/goals", json={"text": "Check"})).json()
    reader.path = f"/conversations/{goal['conversation_id']}"
    await reader.read(lambda frame: frame.get("changed"))
    await reader.http.get(f"/api{reader.path}/turns/{goal['id']}/events")
    assert "Pass 1 of" in (await reader.http.get(f"/c/{goal['conversation_id']}")).text


async def test_a_change_is_reported_once(reader: Reader) -> None:
    turn = await reader.send("hello")
    await reader.http.get(f"/api{reader.path}/turns/{turn}/events")
    page = (await reader.http.get(reader.path.replace("/conversations/", "/c/"))).text
    seen = page.partition('data-seen="')[2].partition('"')[0]
    await reader.http.patch(f"/api{reader.path}", json={"title": "Other"})
    await reader.read(lambda frame: frame.get("title") == "Other", seen)
    assert reader.changes == 1


async def test_a_text_of_a_failed_attempt_disappears(reader: Reader) -> None:
    """The model breaks in mid-answer and is asked again: the first text is void."""
    await reader.send("broken")
    await reader.read(lambda frame: frame["over"])
    assert "half an" not in reader.text
    assert "tried again" in reader.text
    assert "a whole answer" in reader.text


async def test_the_stream_ends_when_the_conversation_is_deleted(reader: Reader) -> None:
    await reader.send("hello")
    await reader.read(lambda frame: frame["over"])
    await reader.http.delete(f"/api{reader.path}")
    answer = await reader.http.get(f"{reader.path.replace('/conversations/', '/c/')}/live")
    assert answer.status_code == 404
