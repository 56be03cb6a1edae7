"""The rules that protect the API: who asks, from where, how much and how often."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from typing import Any

import httpx2
import pytest
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, StreamingResponse
from starlette.routing import Mount, Route

from concertino import Resources, Runtime, Scope
from concertino.errors import ConfigurationError
from concertino.server import FileFolder, ServerLimits, create_app
from concertino.testing import ScriptedModel, call

from .kit import Desk, User, shop


def operations(document: dict[str, Any]) -> list[tuple[str, str, dict[str, Any]]]:
    return [
        (method.upper(), path, operation)
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    ]


def body_of(operation: dict[str, Any]) -> dict[str, Any]:
    """Return a valid body and valid headers, if the operation takes a body."""
    bodies = {
        "create_conversation": {},
        "set_title": {"title": "x"},
        "regenerate": {},
        "rate": {},
        "answer_approval": {"decision": "approve"},
        "answer_question": {"answer": "x"},
    }
    if "requestBody" not in operation:
        return {}
    if "application/json" not in operation["requestBody"]["content"] or operation["operationId"] == "upload_file":
        return {"content": b"x", "headers": {"content-type": "text/plain"}}
    return {"json": bodies.get(operation["operationId"], {"text": "x"})}


async def test_every_operation_needs_a_session(tmp_path: Any) -> None:
    async with shop(files=FileFolder(tmp_path)) as app:
        nobody = User(app, "")
        document = await nobody("GET", "/api/openapi.json")
        assert len(operations(document)) > 40
        for method, path, operation in operations(document):
            refused = await nobody(method, path, 401, **body_of(operation))
            assert refused["error"]["code"] == "unauthorized"


async def test_everything_of_another_user_is_not_found(tmp_path: Any) -> None:
    """Each operation on an id answers another user, of the same and of another tenant, as for an unknown id."""
    async with shop(call("refund", order="7", euros=1), files=FileFolder(tmp_path)) as app:
        ann = User(app)
        one = await ann.new_conversation()
        turn = await ann.send(one, "My money back!")
        goal = await ann("POST", "/api/workers/analyst/goals", 202, json={"text": "Go"})
        (wait,) = (await ann("GET", "/api/approvals"))["items"]
        file = await ann("POST", "/api/files", 201, content=b"1", headers={"content-type": "text/plain"})
        ids = {
            "conversation": one.rpartition("/")[2],
            "turn": turn["id"],
            "run": turn["id"],
            "key": wait["key"],
            "file": file["id"],
        }
        document = await ann("GET", "/api/openapi.json")
        tried = [each for each in operations(document) if "{" in each[1].replace("{worker}", "")]
        assert len(tried) > 25
        for session in ("acme/bob", "globex/ann", "acme/"):
            other = User(app, session)
            for method, path, operation in tried:
                owned = ids | ({"run": goal["id"]} if "{worker}" in path else {})
                filled = re.sub(r"{(\w+)}", lambda found: owned.get(found[1], "analyst"), path)  # noqa: B023
                unknown = re.sub(r"{(\w+)}", lambda found: "x" if found[1] != "worker" else "analyst", path)
                answer = await other(method, filled, 404, **body_of(operation))
                same = await other(method, unknown, 404, **body_of(operation))
                assert answer["error"]["code"] == same["error"]["code"], f"{method} {path}"
        for path in ("/api/conversations", "/api/runs", "/api/approvals", "/api/files", "/api/usage"):
            assert (await User(app, "acme/bob")("GET", path))["items"] == []


async def test_a_body_cannot_name_a_scope() -> None:
    async with shop() as app:
        ann = User(app)
        one = await ann.new_conversation()
        for name in ("scope", "tenant", "user"):
            refused = await ann("POST", f"{one}/turns", 422, json={"text": "Hi", name: "globex"})
            assert refused["error"]["details"] == [{"field": [name], "problem": "Extra inputs are not permitted"}]


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 201),
        ({"origin": "http://shop"}, 201),
        ({"origin": "https://chat.example.com"}, 201),
        ({"origin": "https://chat.example.com", "sec-fetch-site": "cross-site"}, 201),
        ({"sec-fetch-site": "same-origin"}, 201),
        ({"sec-fetch-site": "none"}, 201),
        ({"sec-fetch-site": "cross-site"}, 403),
        ({"sec-fetch-site": "same-site"}, 403),
        ({"origin": "https://evil.example.com"}, 403),
        ({"origin": "null"}, 403),
    ],
)
async def test_other_sites_change_nothing(headers: dict[str, str], status: int) -> None:
    async with shop(origins=["https://chat.example.com"]) as app:
        await User(app)("POST", "/api/conversations", status, json={}, headers=headers)
        await User(app)("GET", "/api/conversations", headers=headers)


async def test_pages_of_listed_origins_may_call() -> None:
    async with shop(origins=["https://chat.example.com"]) as app:
        asked = {"access-control-request-method": "POST", "access-control-request-headers": "idempotency-key"}
        for origin, allowed in (("https://chat.example.com", True), ("https://evil.example.com", False)):
            answer = await User(app, "").http.options("/api/conversations", headers=asked | {"origin": origin})
            assert (answer.headers.get("access-control-allow-origin") == origin) is allowed


async def test_other_host_names_are_refused() -> None:
    async with shop(hosts=["shop", "::1"]) as app:
        ann = User(app)
        await ann("GET", "/api/agents")
        await ann("GET", "/api/agents", headers={"host": "SHOP:8000"})
        await ann("GET", "/api/agents", 400, headers={"host": "evil.example.com"})
        await ann("GET", "/api/agents", 400, headers={"host": "evil.example.com:80"})


async def test_an_address_without_sessions_is_refused_unasked() -> None:
    asked: list[str] = []

    def authenticate(request: Request) -> Scope | None:
        assert request.client is not None
        asked.append(request.client.host)
        return Scope("acme", "ann") if "x-session" in request.headers else None

    async def ask(app: Any, address: str, status: int, session: str = "") -> Any:
        user = User(app, session)
        user.http = httpx2.AsyncClient(
            transport=httpx2.ASGITransport(app, client=(address, 1)), base_url="http://shop", headers=user.http.headers
        )
        return await user("GET", "/api/agents", status)

    async with Runtime([Desk()], Resources(model=ScriptedModel())) as runtime:
        app = create_app(runtime, authenticate, limits=ServerLimits(refusals=2, per_seconds=1000))
        for addresses in (["192.0.2.1"] * 3, ["2001:db8::1", "2001:db8::2", "2001:db8::3:4"], ["::ffff:192.0.2.1"] * 3):
            asked.clear()
            await ask(app, addresses[0], 200, "acme/ann")
            await ask(app, addresses[0], 401)
            await ask(app, addresses[1], 401)
            refused = await ask(app, addresses[2], 429, "acme/ann")
            assert refused["error"]["code"] == "too_many_requests"
            assert len(asked) == 3
        await ask(app, "192.0.2.2", 200, "acme/ann")
        await ask(app, "2001:db8:0:1::1", 401)
        for _ in range(4):
            await ask(app, "", 401)  # as behind a socket file


async def test_headers() -> None:
    async with shop() as app:
        for path in ("/api/agents", "/health", "/nothing"):
            answer = await User(app).http.get(path)
            assert answer.headers["x-content-type-options"] == "nosniff"
            assert answer.headers["x-frame-options"] == "DENY"
            assert answer.headers["cache-control"] == "no-store"


async def test_large_bodies_are_refused() -> None:
    async with shop(limits=ServerLimits(body_bytes=100)) as app:
        ann = User(app)
        one = await ann.new_conversation()
        assert (await ann("POST", f"{one}/turns", 413, json={"text": "x" * 100}))["error"]["code"] == "too_large"


async def test_a_scope_has_a_rate() -> None:
    async with shop(limits=ServerLimits(requests=2, per_seconds=1000)) as app:
        ann, bob = User(app), User(app, "acme/bob")
        await ann("GET", "/api/agents")
        await ann("GET", "/api/agents")
        answer = await ann.http.get("/api/agents")
        assert (answer.status_code, answer.json()["error"]["code"]) == (429, "too_many_requests")
        assert 0 < int(answer.headers["retry-after"]) <= 500
        await bob("GET", "/api/agents")


def test_limits_are_checked() -> None:
    with pytest.raises(ConfigurationError, match="streams=0"):
        ServerLimits(streams=0)


async def test_errors_have_one_form() -> None:
    async with shop() as app:
        ann = User(app)
        one = await ann.new_conversation()
        cases: list[tuple[str, str, int, dict[str, Any], str]] = [
            ("GET", "/api/nothing", 404, {}, "not_found"),
            ("DELETE", "/api/agents", 405, {}, "method_not_allowed"),
            ("POST", f"{one}/turns", 415, {"content": b"{}"}, "unsupported_media_type"),
            ("POST", f"{one}/turns", 422, {"json": {"text": " \n"}}, "invalid_request"),
            ("POST", f"{one}/turns", 422, {"json": {"text": "a\0b"}}, "invalid_request"),
            ("POST", f"{one}/turns", 422, {"json": {"text": 1}}, "invalid_request"),
            (
                "POST",
                f"{one}/turns",
                422,
                {"content": b"{", "headers": {"content-type": "application/json"}},
                "invalid_request",
            ),
            ("GET", "/api/runs?limit=0", 422, {}, "invalid_request"),
            ("GET", "/api/runs?limit=+1", 422, {}, "invalid_request"),
            ("GET", "/api/runs/a%00b", 404, {}, "not_found"),
            ("GET", "/api/conversations?before=x", 404, {}, "unknown_conversation"),
            ("GET", "/api/runs/x/timeline", 404, {}, "unknown_run"),
        ]
        for method, path, status, options, code in cases:
            answer = await ann(method, path, status, **options)
            assert answer["error"]["code"] == code, path
            assert answer["error"]["message"]
        answer = await ann.http.patch(one)
        assert answer.status_code == 415
        assert set((await ann.http.post(one)).headers["allow"].split(", ")) == {"GET", "HEAD", "PATCH", "DELETE"}


async def test_a_failure_of_the_server_is_not_shown() -> None:
    async def fails(request: Request) -> JSONResponse:
        raise ValueError("secret")

    async def breaks(request: Request) -> StreamingResponse:
        async def pieces() -> AsyncIterator[str]:
            yield "One"
            raise ValueError("secret")

        return StreamingResponse(pieces())

    origin = "https://chat.example.com"
    async with shop(routes={"": [Route("/fails", fails), Route("/breaks", breaks)]}, origins=[origin]) as app:
        begun = await User(app).http.get("/breaks")
        assert (begun.status_code, begun.text) == (200, "One")
        answer = await User(app).http.get("/fails", headers={"origin": origin})
        assert (answer.status_code, answer.json()["error"]["code"]) == (500, "server_error")
        assert "secret" not in answer.text
        refused = await User(app).http.get("/nothing", headers={"origin": origin})
        assert answer.headers["x-frame-options"] == "DENY"
        assert answer.headers.keys() == refused.headers.keys()
        assert answer.headers["access-control-allow-origin"] == origin, "the page can read the error"
        session = {"x-session": "acme/ann"}
        with pytest.raises(ValueError, match="secret"):  # the server prints the traceback
            await httpx2.AsyncClient(transport=httpx2.ASGITransport(app), headers=session).get("http://shop/fails")


async def test_a_product_refuses_with_a_status_of_its_own() -> None:
    def authenticate(request: Request) -> Scope | None:
        raise HTTPException(440, "the session is over")

    async with Runtime([], Resources(model=ScriptedModel())) as runtime:
        refused = await User(create_app(runtime, authenticate))("GET", "/api/agents", 440)
        assert refused["error"] == {"code": "status_440", "message": "the session is over"}


async def test_further_routes_see_the_scope() -> None:
    async def who(request: Request) -> JSONResponse:
        return JSONResponse(request.state.scope.user)

    async with shop(routes={"": [Route("/who", who), Mount("/more", routes=[Route("/who", who)])]}) as app:
        assert await User(app)("GET", "/who") == "ann"
        assert await User(app)("GET", "/more/who") == "ann"
        await User(app, "")("GET", "/who", 401)


async def test_protocols_are_below_their_path_and_drain() -> None:
    async def who(request: Request) -> JSONResponse:
        return JSONResponse(request.state.scope.user + request.path_params.get("name", ""))

    both = [Route("/", who, methods=["POST"]), Route("/{name}", who)]
    async with shop(routes={"/agui": both}) as app:
        ann = User(app)
        assert await ann("POST", "/agui") == "ann"
        assert await ann("GET", "/agui/x") == "annx"
        await User(app, "")("POST", "/agui", 401)
        await ann("POST", "/agui", 403, headers={"sec-fetch-site": "cross-site"})
        await app.state.server.drain(0)
        await ann("POST", "/agui", 503)
        assert await ann("GET", "/agui/x") == "annx"


async def test_only_a_scope_authenticates() -> None:
    async def authenticate(request: Request) -> Scope | None:
        return {"tenant": "acme"}  # type: ignore[return-value]

    async with Runtime([], Resources(model=ScriptedModel())) as runtime:
        await User(create_app(runtime, authenticate))("GET", "/api/agents", 500)


async def test_a_process_that_drains_takes_no_new_work() -> None:
    async with shop("Hello.") as app:
        ann = User(app)
        one = await ann.new_conversation()
        turn = await ann.send(one, "Hello")
        assert (await ann("GET", "/ready"))["status"] == "ready"
        await app.state.server.drain(0)
        assert (await ann("GET", "/ready", 503))["status"] == "draining"
        assert (await ann("GET", "/health"))["status"] == "ok"
        answer = await ann.http.post(f"{one}/turns", json={"text": "Hi"})
        assert (answer.status_code, answer.headers["retry-after"]) == (503, "5")
        assert (await ann("GET", f"{one}/turns/{turn['id']}"))["answer"] == "Hello."
