"""The pages as the server renders them: complete, safe for whatever people and models write, and each user's own."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import httpx2
import pytest
from starlette.applications import Starlette
from starlette.routing import Mount

from concertino import MemoryStore, Scope, wiring
from concertino.server import create_app
from concertino.server.page import page_routes

from .kit import PIXEL, QUESTIONS, desk


class Visitor:
    """A browser without scripts."""

    def __init__(self, app: Any, user: str = "ann", prefix: str = "") -> None:
        self.http = httpx2.AsyncClient(
            transport=httpx2.ASGITransport(app, raise_app_exceptions=False),
            base_url=f"http://desk{prefix}",
            cookies={"user": user},
        )
        self.conversation = ""

    async def page(self, path: str, status: int = 200) -> str:
        answer = await self.http.get(path, headers={"accept": "text/html"})
        assert answer.status_code == status, answer.text
        assert "script-src 'self'" in answer.headers["content-security-policy"]
        assert "unsafe" not in answer.headers["content-security-policy"]
        return check(answer.text)

    async def api(self, method: str, path: str, **options: Any) -> Any:
        answer = await self.http.request(method, path, **options)
        assert answer.is_success, answer.text
        return answer.json() if answer.content else None

    async def ask(self, text: str, **fields: Any) -> str:
        """Send a message, and return its turn's id as soon as it has ended or waits."""
        if not self.conversation:
            self.conversation = (await self.api("POST", "/api/conversations", json={}))["id"]
        path = f"/api/conversations/{self.conversation}/turns"
        turn = (await self.api("POST", path, json={"text": text, **fields}))["id"]
        await self.http.get(f"{path}/{turn}/events?until=suspended")
        return str(turn)

    @property
    def here(self) -> str:
        return f"/c/{self.conversation}"


class _Checker(HTMLParser):
    """Fails on all that could run or load something of a stranger's."""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        assert tag not in ("iframe", "object", "embed", "base", "style"), tag
        assert not [name for name in values if name.startswith("on") or name == "style"], values
        if tag == "script":
            assert (values.get("src") or "").startswith("/"), values
        for name in ("src", "href", "action", "srcset"):
            address = values.get(name)
            if address is None:
                continue
            assert address.startswith(("/", "#", "http://", "https://", "mailto:")), address
            assert name == "href" or address.startswith("/"), address
        if tag == "link":
            assert (values["href"] or "").startswith("/"), values


def check(html: str) -> str:
    checker = _Checker()
    checker.feed(html)
    checker.close()
    return html


@pytest.fixture
async def app(tmp_path: Path) -> AsyncIterator[Starlette]:
    async with desk(tmp_path) as made:
        yield made


@pytest.fixture
def ann(app: Starlette) -> Visitor:
    return Visitor(app)


async def test_the_empty_page_offers_agents_and_prompts(ann: Visitor) -> None:
    html = await ann.page("/")
    assert "Help &lt;desk&gt;" in html
    assert "refund please" in html
    assert "Analyst &lt;b&gt;" in html
    assert "Which orders are late?" in html


async def test_markdown_is_rendered_with_code_and_tables(ann: Visitor) -> None:
    await ann.ask("markdown")
    html = await ann.page(ann.here)
    assert '<span class="hl-k">def</span>' in html
    assert "<strong>how</strong>" in html
    assert "<td>2</td>" in html
    assert "Thoughts" in html
    assert "They want <strong>code</strong>" in html


async def test_what_a_model_or_a_tool_writes_is_text(ann: Visitor) -> None:
    for text in ("hostile <script>alert(1)</script>", "noisy", "fail", "refund"):
        await ann.ask(text)
    html = await ann.page(ann.here)
    assert "&lt;script&gt;" in html
    assert '<a href="http://evil.example/p.png"' in html  # an image is a link
    assert "A-17 &lt;b&gt;" not in html  # it waits: the stream shows it
    assert "<b>model</b>" not in html
    assert "A-17 &lt;b&gt;" in await ann.page("/approvals")
    for path in ("/usage", "/search?text=hostile", "/workers/analyst", f"/search?text={'<script>'}"):
        await ann.page(path)


ODD = "\u202e<script>alert(1)</script>"
ODD_PARTS: dict[str, Any] = {
    "huge": {"enum": [f"{ODD}{number}" for number in range(10_000)]},
    "titles": {"type": "string", "title": [ODD], "description": {ODD: 1}, "default": {"a": 1}},
    "choices": {"enum": [ODD, ""], "enumNames": [ODD, None], "title": ODD},
    "numbers": {"type": "number", "minimum": 10**400, "maximum": "x", "default": 2**70},
    "kinds": {"type": ["string", "null"]},
    "kind": {"type": {"a": 1}},
    "constants": {"oneOf": [{"const": [ODD], "title": ODD}, 7, None]},
    "items": {"type": "array", "items": {"anyOf": ODD}, "default": [ODD]},
    "nothing": None,
}


@pytest.mark.parametrize("part", ODD_PARTS)
async def test_a_question_is_shown_whatever_its_schema(
    ann: Visitor, monkeypatch: pytest.MonkeyPatch, part: str
) -> None:
    schema = {"title": ODD, "required": [[1], part, ODD], "properties": {ODD: ODD_PARTS[part], part: ODD_PARTS[part]}}
    monkeypatch.setitem(QUESTIONS, "odd", {"schema": schema})
    await ann.ask("survey odd")
    html = await ann.page("/approvals")
    assert "A question for you" in html
    assert "Which odd &lt;b&gt;?" in html
    assert '<span class="badge" id="open-approvals">1</span>' in html


async def test_an_approval_shows_what_nobody_would_see(ann: Visitor) -> None:
    await ann.ask("unseen")
    html = await ann.page("/approvals")
    assert "A-17\\u202e71-B" in html
    assert "\u202e" not in html


async def test_half_a_character_breaks_no_page(ann: Visitor) -> None:
    await ann.ask("halves")
    assert "half \ufffd" in await ann.page(ann.here)
    await ann.ask("unseen")
    for path in (ann.here, "/approvals"):
        await ann.page(path)


async def test_names_of_models_and_agents_are_text(ann: Visitor) -> None:
    turn = await ann.ask("research")
    html = await ann.page(f"/runs/{turn}/panel")
    assert "&lt;i&gt;" in html
    assert "Helper 2" in html
    assert html.count('class="bar-output"') >= 3
    assert "What do threads cost?" in html
    assert "&lt;i&gt;" in await ann.page("/usage")
    shown = await ann.page(ann.here)
    assert "3 agents" in shown
    assert "And processes?" in shown


async def test_files_and_pictures_are_shown(ann: Visitor) -> None:
    options = {"content": PIXEL, "headers": {"content-type": "image/png"}}
    image = await ann.api("POST", "/api/files?name=<img>.png", **options)
    note = await ann.api("POST", "/api/files?name=a.txt", content=b"<script>", headers={"content-type": "text/plain"})
    turn = await ann.ask("see", files=[image["id"], note["id"]])
    html = await ann.page(ann.here)
    found = re.findall(rf"/api/runs/{turn}/media/\w+", html)
    assert len(set(found)) == 2
    assert "&lt;img&gt;.png" in html
    shown = await ann.http.get(found[0])
    assert (shown.content, shown.headers["content-type"]) == (PIXEL, "image/png")
    text = await ann.http.get(found[-1])
    assert (text.content, text.headers["content-type"]) == (b"<script>", "application/octet-stream")
    assert text.headers["content-disposition"].startswith("attachment")
    assert "sandbox" in text.headers["content-security-policy"]
    await ann.ask("picture")
    assert len(set(re.findall(r"/api/runs/\w+/media/\w+", await ann.page(ann.here)))) == 3


async def test_built_in_agents_cite_their_sources(tmp_path: Path) -> None:
    (tmp_path / "apples.md").write_text("# Apples\n\nApples are red fruits. They grow on trees.\n")
    library = await wiring.open_library([tmp_path], lambda _: None)
    store = MemoryStore()
    runtime = wiring.open_runtime(store, library, model=wiring.open_model("demo"), approvals=True)  # type: ignore[arg-type]
    async with runtime:
        app = create_app(runtime, lambda _: Scope(user="ann"), routes={"": page_routes()})
        ann = Visitor(app)
        assert "Main thread" in await ann.page("/")
        for agent in ("main_thread", "supervisor", "librarian"):
            ann.conversation = (await ann.api("POST", "/api/conversations", json={"agent": agent}))["id"]
            turn = await ann.ask("What are apples?")
            html = await ann.page(ann.here)
            assert "Apples are red fruits." in html
            assert 'class="cite"' in html
            assert html.count('class="source-location"') == 1
            assert "completed" in await ann.page(f"/runs/{turn}/panel")
        ann.conversation = (await ann.api("POST", "/api/conversations", json={"agent": "main_thread"}))["id"]
        await ann.ask("Remember that I like pears.")
        assert "&#34;text&#34;: &#34;I like pears.&#34;" in await ann.page("/approvals")
    await library.close()
    await store.close()


async def test_the_list_of_chats_is_a_fragment(ann: Visitor) -> None:
    await ann.ask("hello")
    assert 'aria-current="page"' in await ann.page(f"/conversations?here={ann.conversation}")


async def test_the_list_of_chats_grows_on_demand(ann: Visitor) -> None:
    for number in range(41):
        made = await ann.api("POST", "/api/conversations", json={})
        await ann.api("PATCH", f"/api/conversations/{made['id']}", json={"title": f"chat {number}"})
    html = await ann.page("/workers")
    assert "chat 40" in html
    assert "chat 0<" not in html
    assert 'data-listed="80"' in html
    html = await ann.page("/conversations?listed=80")
    assert "chat 0<" in html
    assert "data-listed" not in html
    for wrong in ("", "0", "-1", "x", "99999"):
        await ann.page(f"/conversations?listed={wrong}")


async def test_branches_are_offered(ann: Visitor) -> None:
    turn = await ann.ask("hello")
    path = f"/api/conversations/{ann.conversation}/turns"
    again = (await ann.api("POST", f"{path}/{turn}/regenerate", json={}))["id"]
    await ann.http.get(f"{path}/{again}/events")
    html = await ann.page(ann.here)
    assert "2 of 2" in html
    assert f'data-to="{turn}"' in html


async def test_a_long_conversation_is_read_in_pages(ann: Visitor) -> None:
    for number in range(14):
        await ann.ask(f"message {number}")
    html = await ann.page(ann.here)
    assert "message 13" in html
    assert "You said: message 1<" not in html
    (before,) = re.findall(r'data-before="(\w+)"', html)
    older = await ann.page(f"{ann.here}/turns?before={before}")
    assert re.findall(r"<p>You said: (message \d+)", older) == ["message 0", "message 1"]
    assert "data-before" not in older


async def test_states_without_an_answer(app: Starlette, ann: Visitor) -> None:
    await ann.ask("fail")
    assert 'class="outcome error"' in await ann.page(ann.here)
    path = f"/api/conversations/{ann.conversation}/turns"
    slow = (await ann.api("POST", path, json={"text": "slow"}))["id"]
    waiting = (await ann.api("POST", path, json={"text": "later"}))["id"]
    html = await ann.page(ann.here)
    assert f'data-turn="{slow}" data-state="running"' in html
    assert f'data-turn="{waiting}" data-state="queued"' in html
    await ann.api("POST", f"/api/runs/{slow}/stop")
    await ann.http.get(f"{path}/{waiting}/events")
    assert "You stopped this answer." in await ann.page(ann.here)


async def test_approvals_are_on_one_page(ann: Visitor) -> None:
    assert "Nothing waits for you" in await ann.page("/approvals")
    turn = await ann.ask("refund")
    html = await ann.page("/approvals")
    assert "&#34;euros&#34;: 120" in html
    assert "Refunds need a person &lt;b&gt;" in html
    assert f"/c/{ann.conversation}" in html
    assert '<span class="badge" id="open-approvals">1</span>' in html
    assert f'data-turn="{turn}" data-state="waiting"' in await ann.page(ann.here)


async def test_a_worker_has_a_portal_and_a_living_document(ann: Visitor) -> None:
    assert "Analyst &lt;b&gt;" in await ann.page("/workers")
    portal = await ann.page("/workers/analyst")
    assert "Ask about orders." in portal
    assert "Reads <strong>all</strong> orders." in portal
    goal = await ann.api("POST", "/api/workers/analyst/goals", json={"text": "Check"})
    path = f"/api/conversations/{goal['conversation_id']}/turns/{goal['id']}"
    await ann.http.get(f"{path}/events")
    assert "Check" in await ann.page("/workers/analyst")
    page = await ann.page(f"/c/{goal['conversation_id']}")
    assert "All <strong>orders</strong> are there." in page
    document = await ann.page(f"/c/{goal['conversation_id']}/document")
    assert "Two orders are <strong>late</strong> &lt;script&gt;" in document
    assert document.strip() in page
    await ann.ask("hello")
    assert "writes it here" in await ann.page(f"{ann.here}/document")


async def test_usage_is_by_month(ann: Visitor) -> None:
    assert "Nothing was used" in await ann.page("/usage")
    await ann.ask("hello")
    html = await ann.page("/usage")
    assert "desk" in html
    assert 'class="bar-input"' in html
    (previous,) = re.findall(r"month=([\d-]+)", html)
    earlier = await ann.page(f"/usage?month={previous}")
    assert "Nothing was used" in earlier
    assert 'aria-label="Next month"' in earlier
    assert "December 2031" in await ann.page("/usage?month=2031-12")
    for wrong in ("2026-13", "x", "<b>"):
        await ann.page(f"/usage?month={wrong}", 404)


async def test_search_finds_turns(app: Starlette, ann: Visitor) -> None:
    await ann.ask("markdown about csv")
    await app.state.runtime.look()
    html = await ann.page("/search?text=csv")
    assert "markdown about csv" in html
    assert "Here is how:" in html
    assert 'value="csv"' in html
    assert "Nothing was found" in await ann.page("/search?text=zebra")
    assert "Nothing was found" in await ann.page("/search?text=")


async def test_nothing_of_another_user_is_shown(app: Starlette, ann: Visitor) -> None:
    turn = await ann.ask("picture")
    (media,) = set(re.findall(rf"/api/runs/{turn}/media/\w+", await ann.page(ann.here)))
    bob = Visitor(app, "bob")
    for path in (ann.here, f"{ann.here}/turns", f"{ann.here}/live", f"{ann.here}/document"):
        html = await bob.page(path, 404)
        assert "There is nothing here" in html
        assert (await bob.http.get(path)).json()["error"]["code"]
    for path in (f"/runs/{turn}/panel", media):
        assert (await bob.http.get(path)).status_code == 404
    assert ann.conversation not in await bob.page("/")
    assert "Nothing was used" in await bob.page("/usage")
    assert (await ann.http.get(media[:-1])).status_code == 404
    await ann.page("/workers/nobody", 404)


async def test_assets_have_an_address_that_changes_with_them(ann: Visitor) -> None:
    html = await ann.page("/")
    scripts = re.findall(r'(?:src|href)="(/assets/\w+/[\w.]+)"', html)
    assert len(scripts) == 5
    for address in scripts:
        answer = await ann.http.get(address)
        assert "immutable" in answer.headers["cache-control"]
        assert answer.headers["content-type"].startswith(("text/css", "text/javascript", "image/svg+xml"))
        assert "http" not in re.sub(r"http://www\.w3\.org/2000/svg", "", answer.text).replace("/http.js", "").replace(
            "./http", ""
        )
    assert (await ann.http.get("/assets/x/nothing.js")).status_code == 404


async def test_the_page_works_below_a_path(app: Starlette) -> None:
    product = Starlette(routes=[Mount("/assistant", app)])
    ann = Visitor(product, prefix="/assistant")
    turn = await ann.ask("picture")
    html = await ann.page(ann.here)
    for address in re.findall(r'(?:src|href|action)="(/[^"]*)"', html):
        assert address.startswith("/assistant/"), address
    assert f'src="/assistant/api/runs/{turn}/media/' in html
    assert json.dumps("/assistant")[1:-1] in html
