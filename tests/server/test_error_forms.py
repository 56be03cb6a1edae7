"""Errors that precede a route have the form of the routes at their path."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from starlette.requests import Request
from starlette.routing import Route

from concertino import AgentConfig, MemoryStore, Resources, Runtime
from concertino.server import ServerLimits, create_app
from concertino.server.page import page_routes
from concertino.server.protocols import ag_ui, ai_sdk, openai
from concertino.testing import ScriptedModel

from .kit import User, authenticate

Json = dict[str, Any]
FORMS: dict[str, Callable[[Any], str]] = {
    "/api/chat": lambda answer: answer.text,
    "/agui": lambda answer: answer.json()["message"],
    "/v1/chat/completions": lambda answer: openai_text(answer.json()),
    "/api/agents": lambda answer: answer.json()["error"]["message"],
}
"""The text of an error by the path of a request."""


class Desk(AgentConfig[None]):
    name = "desk"


def openai_text(body: Json) -> str:
    assert set(body["error"]) == {"message", "type", "param", "code"}
    return str(body["error"]["message"])


def application(**options: Any) -> Any:
    runtime = Runtime([Desk()], Resources(model=ScriptedModel(), store=MemoryStore()))
    routes = {
        "": [*page_routes(), Route("/fails", fails)],
        "/api/chat": ai_sdk.routes(runtime),
        "/agui": ag_ui.routes(runtime),
        "/v1": openai.routes(runtime),
    }
    return create_app(runtime, authenticate, routes=routes, **options)


async def fails(request: Request) -> Any:
    raise ValueError("secret")


@pytest.mark.parametrize("path", FORMS)
async def test_an_error_of_the_protection_has_the_form_of_its_path(path: str) -> None:
    app = application(limits=ServerLimits(body_bytes=10, requests=4, per_seconds=1000))
    ann, text = User(app), FORMS[path]
    big = {"content": json.dumps("x" * 100), "headers": {"content-type": "application/json"}}
    for user, status, start, options in (
        (User(app, ""), 401, "sign in first", {}),
        (ann, 403, "a page of another site", {"headers": {"sec-fetch-site": "cross-site"}}),
        (ann, 413, "the body has 102 bytes", big),
    ):
        answer = await user.http.post(path, **options)
        assert (answer.status_code, text(answer)[: len(start)]) == (status, start)
    answer = await ann.http.put(path)
    assert (answer.status_code, text(answer)) == (405, "Method Not Allowed")
    assert "POST" in answer.headers["allow"] or path == "/api/agents"
    await ann("GET", "/api/agents")
    await ann("GET", "/api/agents")
    answer = await ann.http.post(path)
    assert (answer.status_code, text(answer)) == (429, "too many requests")
    assert 0 < int(answer.headers["retry-after"]) <= 250
    assert "x-should-retry" not in answer.headers


@pytest.mark.parametrize("path", list(FORMS)[:3])
async def test_an_error_of_a_protocol_has_its_form(path: str) -> None:
    app = application()
    ann, text = User(app), FORMS[path]
    answer = await ann.http.post(path, content=b"{}", headers={"content-type": "text/plain"})
    assert (answer.status_code, text(answer)) == (415, "send the body as application/json")
    await app.state.server.drain(0)
    answer = await ann.http.post(path, json={})
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "5")
    assert text(answer) == "this process is about to end: send the request again"


async def test_a_person_sees_a_page_and_a_script_the_form_of_the_api() -> None:
    app = application()
    page, script = {"accept": "text/html,*/*"}, {"accept": "*/*"}
    for user, path, status, heading in (
        (User(app), "/nothing", 404, "There is nothing here"),
        (User(app, ""), "/", 401, "You are signed out"),
        (User(app), "/fails", 500, "This did not work"),
    ):
        answer = await user.http.get(path, headers=page)
        assert (answer.status_code, answer.headers["content-type"]) == (status, "text/html; charset=utf-8")
        assert f"<h2>{heading}</h2>" in answer.text
        assert "secret" not in answer.text
        assert "script-src 'self'" in answer.headers["content-security-policy"]
        assert "error" in (await user.http.get(path, headers=script)).json()
    assert "error" in (await User(app)("GET", "/api/nothing", 404, headers=page))


async def test_a_part_of_a_path_is_another_path() -> None:
    answer = await User(application())("GET", "/v10", 404)
    assert answer["error"] == {"code": "not_found", "message": "Not Found"}


async def test_checks_of_the_store_are_shared() -> None:
    class Counting(MemoryStore):
        checks = 0

        async def event_positions(self, *arguments: Any) -> Any:
            self.checks += 1
            return await super().event_positions(*arguments)

    store = Counting()
    app = create_app(Runtime([Desk()], Resources(model=ScriptedModel(), store=store)), authenticate)
    for _ in range(5):
        assert (await User(app, "")("GET", "/ready"))["status"] == "ready"
    assert store.checks == 1
    app.state.server.store_check._fresh_until = 0.0
    assert (await User(app, "")("GET", "/ready"))["status"] == "ready"
    assert store.checks == 2


async def test_the_document_names_the_path_of_the_application() -> None:
    from starlette.applications import Starlette
    from starlette.routing import Mount

    product = Starlette(routes=[Mount("/assistant", application())])
    document = await User(product, "")("GET", "/assistant/api/openapi.json")
    assert document["servers"] == [{"url": "/assistant"}]
    assert "servers" not in await User(application(), "")("GET", "/api/openapi.json")
    assert (await User(product, "").http.post("/assistant/agui")).json() == {"message": "sign in first"}
