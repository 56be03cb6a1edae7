"""The stream of an open page: parts of the turn in progress, and the word that something has changed."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import httpx2
import pytest
from starlette.applications import Starlette

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
        self.changes: list[Frame] = []
        self.ended = False
        self.news = asyncio.Event()

    async def send(self, text: str) -> str:
        answer = await self.http.post(f"/api{self.path}/turns", json={"text": text})
        assert answer.is_success, answer.text
        return str(answer.json()["id"])

    async def follow(self, seen: str = "") -> None:
        """Apply frames until the stream ends."""
        path = self.path.replace("/conversations/", "/c/")
        async with self.http.stream("GET", f"{path}/live?seen={seen}") as answer:
            assert answer.status_code == 200
            async for line in answer.aiter_lines():
                if line.startswith("data: "):
                    self.apply(json.loads(line[6:]))
                    self.news.set()

    async def until(self, holds: Callable[[], bool]) -> None:
        """Wait for frames until *holds*."""
        while not holds():
            self.news.clear()
            await self.news.wait()

    async def over(self) -> None:
        """Wait until the turn has ended."""
        await self.until(lambda: self.ended)
        self.ended = False

    def apply(self, frame: Frame) -> None:
        if frame.get("changed"):
            self.changes.append(frame)
            return
        if frame["whole"]:
            self.shown = {id: html for id, html in self.shown.items() if not id.startswith(frame["turn"])}
        for id, _, html in frame["parts"]:
            self.shown[id] = check(html)
        for id in frame["removed"]:
            del self.shown[id]
        self.status, self.ended = frame["status"], frame["over"]

    @property
    def text(self) -> str:
        return "\n".join(self.shown.values())


@pytest.fixture
async def desk_app(tmp_path: Path) -> AsyncIterator[Starlette]:
    async with desk(tmp_path) as app:
        yield app


@pytest.fixture
async def reader(desk_app: Starlette) -> AsyncIterator[Reader]:
    async with listening(desk_app) as address, httpx2.AsyncClient(base_url=address, trust_env=False) as http:
        made = (await http.post("/api/conversations", json={})).json()
        reader = Reader(http, f"/conversations/{made['id']}")
        following = asyncio.create_task(reader.follow())
        await reader.until(lambda: bool(reader.changes))
        yield reader
        following.cancel()
        await asyncio.wait([following])


async def test_a_text_is_shown_while_it_is_written(reader: Reader, desk_app: Starlette) -> None:
    await reader.send("slow")
    await reader.until(lambda: "The beginning" in reader.text)
    assert (reader.status, reader.ended) == ("Writing", False)
    desk_app.state.model.gate.set()
    await reader.over()
    assert "The beginning of an answer." in reader.text


async def test_a_reader_that_comes_later_gets_the_whole_turn(reader: Reader, desk_app: Starlette) -> None:
    await reader.send("slow")
    await reader.until(lambda: "The beginning" in reader.text)
    second = Reader(reader.http, reader.path)
    following = asyncio.create_task(second.follow())
    await second.until(lambda: second.shown == reader.shown)
    desk_app.state.model.gate.set()
    await second.over()
    await reader.over()
    assert second.shown == reader.shown
    following.cancel()
    await asyncio.wait([following])


async def test_all_parts_of_a_turn_arrive(reader: Reader) -> None:
    await reader.send("markdown")
    await reader.over()
    assert "<strong>how</strong>" in reader.text
    assert "Thoughts" in reader.text
    assert len([id for id in reader.shown if "-text-" in id]) >= 4


@pytest.mark.parametrize("text", ["hostile", "noisy"])
async def test_hostile_parts_are_text(reader: Reader, text: str) -> None:
    await reader.send(text)
    await reader.over()
    assert "&lt;script&gt;" in reader.text


async def test_an_approval_is_shown_until_it_is_answered(reader: Reader) -> None:
    await reader.send("refund")
    await reader.until(lambda: reader.status == "Waiting for your approval")
    (card,) = [html for id, html in reader.shown.items() if id.endswith("-approval")]
    assert "&#34;order&#34;: &#34;A-17 &lt;b&gt;&#34;" in card
    (waiting,) = (await reader.http.get("/api/approvals")).json()["items"]
    assert f'data-key="{waiting["key"]}"' in card
    given = {"decision": "approve", "arguments": {"order": "A-17", "euros": 20}}
    await reader.http.post(f"/api/approvals/{waiting['key']}", json=given)
    await reader.over()
    assert not [id for id in reader.shown if id.endswith("-approval")]
    assert "20 euros for order A-17" in reader.text


async def test_a_denied_call_is_shown_as_denied_with_the_reason(reader: Reader) -> None:
    turn = await reader.send("refund")
    await reader.until(lambda: reader.status == "Waiting for your approval")
    (waiting,) = (await reader.http.get("/api/approvals")).json()["items"]
    await reader.http.post(f"/api/approvals/{waiting['key']}", json={"decision": "deny", "reason": "too <late"})
    await reader.over()
    assert '<span class="call-state">denied: too &lt;late</span>' in reader.text
    assert '<p class="field">Denied</p>' in reader.text
    panel = (await reader.http.get(f"/runs/{turn}/panel")).text
    assert '<span class="call-state">denied</span>' in panel


async def test_a_page_that_a_tool_asks_to_open_is_a_link(reader: Reader) -> None:
    await reader.send("visit")
    await reader.until(lambda: any(id.endswith("-approval") for id in reader.shown))
    (card,) = [html for id, html in reader.shown.items() if id.endswith("-approval")]
    assert '<a href="https://login.example/x?a=1&amp;b=&#34;&lt;b&gt;" target="_blank"' in card
    assert ">Open login.example</a>" in card


async def test_a_question_is_a_form_until_it_is_answered(reader: Reader) -> None:
    await reader.send("survey name")
    await reader.until(lambda: reader.status == "Waiting for you")
    (card,) = [html for id, html in reader.shown.items() if id.endswith("-approval")]
    assert "Which name &lt;b&gt;?" in card
    (tree,) = [html for id, html in reader.shown.items() if id.endswith("-agents")]
    assert '<span class="agent-task">Which name &lt;b&gt;?</span>' in tree
    assert '<span class="call-state">waiting for an answer</span>' in reader.text
    key = card.partition('data-key="')[2].partition('"')[0]
    answer = await reader.http.post(f"/api/questions/{key}", json={"answer": "Ann"})
    assert (answer.json()["won"], answer.json()["verdict"]) == (True, "result")
    await reader.over()
    assert not [id for id in reader.shown if id.endswith("-approval")]
    assert "Done: Ann" in reader.text
    late = await reader.http.post(f"/api/questions/{key}", json={"answer": None})
    assert not late.json()["won"]


async def test_a_declined_question_is_not_a_failure(reader: Reader) -> None:
    await reader.send("survey form")
    await reader.until(lambda: reader.status == "Waiting for you")
    (card,) = [html for id, html in reader.shown.items() if id.endswith("-approval")]
    key = card.partition('data-key="')[2].partition('"')[0]
    await reader.http.post(f"/api/questions/{key}", json={"answer": None})
    await reader.over()
    assert '<span class="call-state">denied: the user has declined</span>' in reader.text
    assert "Done: None" in reader.text


async def test_only_questions_take_answers(reader: Reader) -> None:
    await reader.send("refund")
    await reader.until(lambda: reader.status == "Waiting for your approval")
    (waiting,) = (await reader.http.get("/api/approvals")).json()["items"]
    for key in (waiting["key"], "run_x:1.1"):
        assert (await reader.http.post(f"/api/questions/{key}", json={"answer": "yes"})).status_code == 404


async def test_an_address_that_is_no_page_is_no_link(reader: Reader) -> None:
    await reader.send("trap")
    await reader.until(lambda: any(id.endswith("-approval") for id in reader.shown))
    (card,) = [html for id, html in reader.shown.items() if id.endswith("-approval")]
    assert "javascript:" in card, "as the argument that it is"
    assert "<a " not in card


async def test_sub_agents_are_a_tree(reader: Reader) -> None:
    await reader.send("research")
    await reader.over()
    (tree,) = [html for id, html in reader.shown.items() if id.endswith("-agents")]
    assert tree.count('class="agent completed"') == 3
    assert "And processes?" in tree
    assert len([id for id in reader.shown if "-text-" in id]) >= 3


async def test_a_call_in_progress_is_running(reader: Reader, desk_app: Starlette) -> None:
    await reader.send("delegate")
    await reader.until(lambda: "The beginning" in reader.text)
    await reader.until(lambda: '<span class="call-state">running</span>' in reader.text)
    (tree,) = [html for id, html in reader.shown.items() if id.endswith("-agents")]
    assert '<span class="agent-activity">calling helper</span>' in tree
    desk_app.state.model.gate.set()
    await reader.over()
    assert '<span class="call-state">done</span>' in reader.text


async def test_a_worker_reports_its_passes(reader: Reader) -> None:
    goal = (await reader.http.post("/api/workers/analyst/goals", json={"text": "Check"})).json()
    await reader.http.get(f"/api/conversations/{goal['conversation_id']}/turns/{goal['id']}/events")
    page = (await reader.http.get(f"/c/{goal['conversation_id']}")).text
    assert "Pass 1 of" in page
    assert page.count("Two orders are <strong>late</strong> &lt;script&gt;") == 2, "in the note and in the document"


async def test_a_change_is_reported_once(reader: Reader) -> None:
    await reader.send("hello")
    await reader.over()
    page = (await reader.http.get(reader.path.replace("/conversations/", "/c/"))).text
    second = Reader(reader.http, reader.path)
    following = asyncio.create_task(second.follow(page.partition('data-seen="')[2].partition('"')[0]))
    await reader.http.patch(f"/api{reader.path}", json={"title": "Other"})
    await second.until(lambda: bool(second.changes))
    assert [frame["title"] for frame in second.changes] == ["Other"]
    following.cancel()
    await asyncio.wait([following])


async def test_the_text_of_a_failed_attempt_disappears(reader: Reader) -> None:
    """The model breaks off in mid-answer and is asked again: the first text is void."""
    await reader.send("broken")
    await reader.over()
    assert "half an" not in reader.text
    assert "tried again" in reader.text
    assert "a whole answer" in reader.text


async def test_progress_pieces_and_notices_are_shown(reader: Reader) -> None:
    await reader.send("walk")
    await reader.over()
    assert "Done: right" in reader.text
    assert "something &lt;b&gt; was left out" in reader.text
    assert "Escalated to strong: stuck" in reader.text
    assert "no pass" not in reader.text


async def test_a_report_is_shown_with_its_sources(reader: Reader) -> None:
    await reader.send("publish")
    await reader.over()
    (report,) = [html for html in reader.shown.values() if 'class="report' in html]
    assert "<h3>Report</h3>" in report
    assert 'class="cite"' in report
    assert '<a href="https://a.example/"' in report
    assert "A &lt;b&gt;" in report


async def test_results_that_cannot_be_read_are_shown_as_they_are(reader: Reader) -> None:
    await reader.send("search")
    await reader.over()
    assert "&#34;results&#34;: 1" in reader.text


async def test_a_message_into_the_answer_is_shown(reader: Reader, desk_app: Starlette) -> None:
    await reader.send("slow")
    await reader.until(lambda: "The beginning" in reader.text)
    path = f"/api{reader.path}/turns"
    await reader.http.post(path, json={"text": "and <b>this</b>", "when_busy": "steer"})
    desk_app.state.model.gate.set()
    await reader.over()
    assert "and &lt;b&gt;this&lt;/b&gt;" in reader.text


async def test_the_stream_ends_with_the_conversation(desk_app: Starlette) -> None:
    async with listening(desk_app) as address, httpx2.AsyncClient(base_url=address, trust_env=False) as http:
        made = (await http.post("/api/conversations", json={})).json()
        reader = Reader(http, f"/conversations/{made['id']}")
        following = asyncio.create_task(reader.follow())
        await reader.until(lambda: bool(reader.changes))
        await http.delete(f"/api{reader.path}")
        await following
        assert (await http.get(f"/c/{made['id']}/live")).status_code == 404
