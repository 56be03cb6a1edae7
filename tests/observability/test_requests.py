"""Requests as spans: their names, their errors, the traces that they continue, and the counts of a runtime."""

from __future__ import annotations

from collections.abc import AsyncIterator

import httpx2
import pytest
from opentelemetry.trace import StatusCode
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import Mount, Route

from concertino import AgentConfig, Chat, Resources, Runtime, Scope
from concertino.observability import TraceRequests
from concertino.testing import ScriptedModel

from .kit import Collected, attributes

TRACE = "0af7651916cd43dd8448eb211c80319c"
ACTIVE_STREAMS = "concertino.server.active_streams"


class Clerk(AgentConfig[None]):
    name = "clerk"


async def answer(request: Request) -> Response:
    """Run the agent of the application."""
    runtime: Runtime = request.app.state.runtime
    run = await runtime.start(Chat("Hello.", scope=Scope("acme", "ann")), "clerk")
    return PlainTextResponse((await run.result()).text)


async def fail(request: Request) -> Response:
    """Fail before an answer."""
    raise ValueError("secret")


async def stream(request: Request) -> Response:
    """Answer with a stream, which reports how many are open."""
    collected: Collected = request.app.state.collected

    async def pieces() -> AsyncIterator[str]:
        yield str(collected.metric(ACTIVE_STREAMS)[""])

    return StreamingResponse(pieces(), media_type="text/event-stream")


@pytest.fixture
async def collected() -> Collected:
    return Collected()


@pytest.fixture
async def http(collected: Collected) -> AsyncIterator[httpx2.AsyncClient]:
    routes = [Route("/orders/{order}", answer, methods=["POST"]), Route("/fail", fail), Route("/stream", stream)]
    mounts = [Mount("/shops/{shop}", routes=routes[:1]), Mount("/more", app=PlainTextResponse("Not found.", 404))]
    app = Starlette(routes=[*routes, *mounts])
    app.add_middleware(TraceRequests, telemetry=collected.telemetry)
    model = ScriptedModel("Hello, Ann.")
    async with Runtime([Clerk()], Resources(model=model), observers=[collected.telemetry]) as runtime:
        app.state.runtime, app.state.collected = runtime, collected
        transport = httpx2.ASGITransport(app, raise_app_exceptions=False)
        async with httpx2.AsyncClient(transport=transport, base_url="http://shop") as client:
            yield client


async def test_a_run_continues_the_trace_of_its_request(collected: Collected, http: httpx2.AsyncClient) -> None:
    found = await http.post("/orders/7", headers={"traceparent": f"00-{TRACE}-b7ad6b7169203331-01"})
    assert found.text == "Hello, Ann."
    (request,) = collected.named("POST")
    (run,) = collected.named("invoke_agent")
    assert request.name == "POST /orders/{order}"
    assert f"{request.context.trace_id:032x}" == f"{run.context.trace_id:032x}" == TRACE
    assert run.parent is not None
    assert run.parent.span_id == request.context.span_id
    assert attributes(request) == {
        "http.request.method": "POST",
        "http.response.status_code": 200,
        "http.route": "/orders/{order}",
        "url.path": "/orders/7",
        "url.scheme": "http",
    }
    assert collected.metric("http.server.request.duration", "http.route") == {"/orders/{order}": 1}
    assert collected.metric("http.server.active_requests") == {"": 0}


@pytest.mark.parametrize(
    "header", ["x", f"00-{TRACE}", f"00-{'0' * 32}-b7ad6b7169203331-01", f"ff-{TRACE}-b7ad6b7169203331-01"]
)
async def test_an_invalid_header_is_ignored(collected: Collected, http: httpx2.AsyncClient, header: str) -> None:
    assert (await http.post("/orders/7", headers={"traceparent": header})).text == "Hello, Ann."
    (request,), (run,) = collected.named("POST"), collected.named("invoke_agent")
    assert request.parent is None
    assert request.context.trace_id == run.context.trace_id != int(TRACE, 16)


@pytest.mark.parametrize(("path", "name", "error"), [("/fail", "GET /fail", "ValueError"), ("/nothing", "GET", "")])
async def test_a_request_that_fails(
    collected: Collected, http: httpx2.AsyncClient, path: str, name: str, error: str
) -> None:
    await http.get(path)
    (request,) = collected.spans
    assert request.name == name
    assert attributes(request).get("error.type", "") == error
    assert (request.status.status_code is StatusCode.ERROR) == bool(error)
    assert "secret" not in request.to_json()


@pytest.mark.parametrize(
    ("method", "path", "name"),
    [
        ("GET", "/orders/7", "GET /orders/{order}"),  # no method of the route
        ("POST", "/orders/r", "POST /orders/{order}"),
        ("POST", "/orders/orders", "POST /orders/{order}"),
        ("POST", "/shops/orders/orders/shops", "POST /shops/{shop}/orders/{order}"),
        ("POST", "/shops/north/made-up", "POST"),
        ("GET", "/more/made-up", "GET"),
        ("MADEUP", "/orders/7", "_OTHER /orders/{order}"),
    ],
)
async def test_names_and_metrics_have_routes_and_not_what_a_client_makes_up(
    collected: Collected, http: httpx2.AsyncClient, method: str, path: str, name: str
) -> None:
    await http.request(method, path)
    (request,) = collected.named(name.partition(" ")[0])
    assert request.name == name
    assert collected.metric("http.server.request.duration", "http.route") == {name.partition(" ")[2]: 1}
    assert collected.metric("http.server.active_requests", "http.request.method") == {name.partition(" ")[0]: 0}


async def test_open_streams_are_counted(collected: Collected, http: httpx2.AsyncClient) -> None:
    assert (await http.get("/stream")).text == "1"
    assert collected.metric(ACTIVE_STREAMS) == {"": 0}


async def test_the_counts_of_a_runtime_are_metrics(collected: Collected) -> None:
    async with Runtime([Clerk()], Resources(model=ScriptedModel("Hello."))) as runtime:
        collected.telemetry.watch(runtime.counts)
        run = await runtime.start(Chat("Hello.", scope=Scope("acme", "ann")), "clerk")
        await run.result()
        names = ("live_runs", "parked_runs", "voided_events", "lost_events", "late_answers", "lost_messages")
        values = [getattr(runtime.counts, name) for name in names]
        assert [collected.metric(f"concertino.runtime.{name}")[""] for name in names] == values
