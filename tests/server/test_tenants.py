"""Ids of one user, sent by others to every route of an application with the API, the page and all protocols."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from starlette.routing import BaseRoute, Route

from concertino import MemoryStore, ModelRequest, Resources, Runtime, ToolMessage
from concertino.server import FileFolder, ServerLimits, create_app
from concertino.server.page import page_routes
from concertino.server.protocols import ag_ui, ai_sdk, openai
from concertino.testing import ScriptedModel, call

from .kit import Desk, Json, User, analyst, authenticate
from .test_protection import body_of

SECRET = "topaz"
OTHERS = ("globex/ann", "acme/bob")
NOBODYS = {"worker", "agent", "model", "version", "name"}
"""Parameters of paths that name nothing of a user's."""


def answer(request: ModelRequest) -> Any:
    last = request.messages[-1]
    if isinstance(last, ToolMessage) or not last.text.startswith(SECRET):
        return "Done."
    return call("refund", order=SECRET, euros=1)


@asynccontextmanager
async def everything(folder: Path) -> AsyncIterator[Any]:
    """Yield an application with all routes that the package has."""
    model = ScriptedModel(*[answer] * 1_000)
    async with Runtime([Desk(), analyst()], Resources(model=model, store=MemoryStore())) as runtime:
        protocols = {"/chat": ai_sdk.routes(runtime), "/agui": ag_ui.routes(runtime), "/v1": openai.routes(runtime)}
        routes = {"": page_routes(), **protocols}
        limits = ServerLimits(requests=10**6)
        yield create_app(runtime, authenticate, files=FileFolder(folder), limits=limits, routes=routes)


def operations(routes: Sequence[BaseRoute], prefix: str = "") -> Iterator[tuple[str, str]]:
    """Yield the method and the path of each route."""
    for route in routes:
        path = prefix + getattr(route, "path", "")
        if isinstance(route, Route):
            yield from ((method, path) for method in sorted((route.methods or set()) - {"HEAD"}))
        else:
            yield from operations(getattr(route, "routes", ()), path)


async def ids_of(ann: User) -> Json:
    """Let Ann use everything, and return her ids by the parameter of a path that takes them."""
    one = await ann.new_conversation()
    turn = await ann.send(one, f"{SECRET} please")
    goal = await ann("POST", "/api/workers/analyst/goals", 202, json={"text": SECRET})
    file = await ann("POST", f"/api/files?name={SECRET}", 201, content=SECRET, headers={"content-type": "text/plain"})
    asked = {"id": "m", "role": "user", "content": f"{SECRET} please", "parts": [{"type": "text", "text": SECRET}]}
    await ann("POST", "/chat", json={"id": "chat", "messages": [asked]})
    await ann("POST", "/agui", json={"threadId": "thread", "runId": "r", "messages": [asked]})
    body = {"model": "desk", "input": SECRET}
    response = await ann("POST", "/v1/responses", json=body, headers={"idempotency-key": "key"})
    (wait,) = [each for each in (await ann("GET", "/api/approvals"))["items"] if each["root_id"] == turn["id"]]
    ids = {"conversation": one.rpartition("/")[2], "turn": turn["id"], "run": turn["id"], "key": wait["key"]}
    ids |= {"goal": goal["id"], "file": file["id"], "chat": "chat", "thread": "thread", "digest": "0" * 64}
    return ids | {"response": response["id"], "call": wait["call_id"]}


async def state_of(ann: User) -> Json:
    """Return all that Ann has."""
    paths = ["/api/conversations", "/api/runs", "/api/approvals", "/api/files", "/api/usage"]
    found = {path: await ann("GET", path) for path in [*paths, "/api/workers/analyst/goals"]}
    for item in found["/api/conversations"]["items"]:
        path = f"/api/conversations/{item['id']}"
        found[path] = [await ann("GET", f"{path}/{part}") for part in ("export", "queue")]
    for item in found["/api/files"]["items"]:
        found[item["id"]] = (await ann("GET", f"/api/files/{item['id']}")).content
    for item in found["/api/runs"]["items"]:
        found[item["id"]] = await ann.events(f"/api/runs/{item['id']}/events?until=suspended")
    return found


def filled(path: str, ids: Json) -> str:
    owned = ids | {"worker": "analyst", "agent": "desk", "model": "desk", "version": "1", "name": "page.css"}
    owned["run"] = ids["goal"] if "{worker}" in path else ids["run"]
    return re.sub(r"{(\w+)}", lambda found: owned[found[1]], path)


def sent_to_protocols(ids: Json) -> list[tuple[str, Json, Json, bool]]:
    """Return paths, bodies and headers with the *ids* of another, and whether they are refused.

    An id that the client chooses, such as a thread's, is one of the sender's own.
    """
    user = {"id": "m", "role": "user", "content": "Hi", "parts": [{"type": "text", "text": "Hi"}]}
    approval = {"type": "tool-refund", "toolCallId": ids["call"], "state": "approval-responded"}
    approval["approval"] = {"id": ids["key"], "approved": True}
    verdict = {"id": ids["turn"], "role": "assistant", "parts": [approval]}
    found: list[tuple[str, Json, Json, bool]] = [("/chat", {"id": ids["chat"], "messages": [user]}, {}, False)]
    for chat in (ids["chat"], ids["conversation"]):
        found += [
            ("/chat", {"id": chat, "messages": [verdict]}, {}, True),
            ("/chat", {"id": chat, "messages": [user], "messageId": f"{ids['turn']}:user"}, {}, True),
            (
                "/chat",
                {"id": chat, "trigger": "regenerate-message", "messageId": ids["turn"], "messages": [user]},
                {},
                True,
            ),
        ]
    resume = [{"interruptId": ids["key"], "status": "resolved", "payload": {"approved": True}}]
    result = {"id": "x", "role": "tool", "toolCallId": ids["call"], "content": "done"}
    for path in ("/agui", "/agui/desk"):
        for thread in (ids["thread"], ids["conversation"]):
            run = {"threadId": thread, "runId": ids["turn"]}
            found += [
                (path, {**run, "messages": [user]}, {}, False),
                (path, {**run, "messages": [user], "resume": resume}, {}, True),
                (path, {**run, "messages": [user, result]}, {}, True),
            ]
    for key in (ids["run"], "key"):
        headers = {"idempotency-key": key}
        found.append(("/v1/responses", {"model": "desk", "input": "Hi"}, headers, False))
        found.append(("/v1/chat/completions", {"model": "desk", "messages": [user]}, headers, False))
    return found


async def test_each_route_treats_ids_of_others_as_unknown(tmp_path: Path) -> None:
    async with everything(tmp_path) as app:
        ann = User(app)
        ids = await ids_of(ann)
        before = await state_of(ann)
        assert str(before).count(SECRET) > 10
        document = await ann("GET", "/api/openapi.json")
        tried = set()
        for session in OTHERS:
            other = User(app, session)
            for method, path in operations(app.routes):
                described = document["paths"].get(path, {}).get(method.lower(), {})
                if method == "POST" and not described and "{response}" not in path and "{chat}" not in path:
                    continue  # a protocol's, with ids in its body
                names = set(re.findall(r"{(\w+)}", path)) - NOBODYS
                answer = await other.http.request(method, filled(path, ids), **body_of(described))
                assert answer.status_code == 404 if names else answer.status_code < 500, f"{method} {path}"
                assert SECRET not in answer.text, f"{method} {path}"
                tried.add(path)
        assert len(tried) > 55
        assert await state_of(ann) == before


async def test_protocols_treat_ids_of_others_as_unknown(tmp_path: Path) -> None:
    async with everything(tmp_path) as app:
        ann = User(app)
        ids = await ids_of(ann)
        before = await state_of(ann)
        posted = {path for method, path in operations(app.routes) if method == "POST" and not path.startswith("/api/")}
        sent = sent_to_protocols(ids)
        with_ids_in_path = {path for path in posted if "{chat}" in path or "{response}" in path}
        assert {path.replace("/desk", "/{agent}") for path, *_ in sent} == posted - with_ids_in_path
        for session in OTHERS:
            other = User(app, session)
            for path, body, headers, refused in sent:
                answer = await other.http.post(path, json=body, headers=headers)
                assert (answer.status_code in (400, 404)) is refused, f"{path} {body}: {answer.text}"
                assert SECRET not in answer.text, f"{path} {body}"
        assert await state_of(ann) == before


async def test_ids_of_others_are_unknown_below_an_own_conversation(tmp_path: Path) -> None:
    """In queries, headers and bodies, and in a path that begins with something of one's own."""
    async with everything(tmp_path) as app:
        ann = User(app)
        ids = await ids_of(ann)
        before = await state_of(ann)
        document = await ann("GET", "/api/openapi.json")
        for session in OTHERS:
            other = User(app, session)
            own = await other.new_conversation()
            mixed = ids | {"conversation": own.rpartition("/")[2]}
            for method, path in operations(app.routes):
                if "{conversation}" in path and "{turn}" in path:
                    described = document["paths"][path][method.lower()]
                    await other(method, filled(path, mixed), 404, **body_of(described))
            await other("POST", f"{own}/turns", 404, json={"text": "Hi", "files": [ids["file"]]})
            await other("GET", f"{own}/turns?before={ids['turn']}", 404)
            await other("GET", f"{own}/events?after={ids['turn']}:1", 404)
            await other("GET", f"{own}/events", 404, headers={"last-event-id": f"{ids['turn']}:1"})
            await other("GET", f"/api/conversations?before={ids['conversation']}", 404)
            assert (await other("GET", f"/api/search?text={SECRET}"))["items"] == []
            page = await other.http.get(f"/c/{mixed['conversation']}/turns?before={ids['turn']}")
            assert page.status_code == 404
            kept = await other(
                "POST", f"{own}/turns", 202, json={"text": "Hi"}, headers={"idempotency-key": ids["turn"]}
            )
            assert kept["id"] != ids["turn"]
        assert await state_of(ann) == before
