"""Servers over streamable HTTP: each scope has a connection and an authorization of its own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import contextmanager

import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.responses import RedirectResponse
from starlette.routing import Mount, Route

from concertino import Scope
from concertino.testing import call
from concertino.tools.mcp import McpServer, McpToolbox

from .conftest import run
from .friendly import server as friendly_server
from .test_servers import results


class _Server(uvicorn.Server):
    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave the signals to pytest."""
        yield


@pytest.fixture
async def address() -> AsyncIterator[str]:
    inner = friendly_server.streamable_http_app()
    away = Route("/away", lambda _: RedirectResponse("http://127.0.0.1:9/mcp", 307), methods=["POST", "GET"])
    app = Starlette(routes=[away, Mount("/", inner)], lifespan=inner.router.lifespan_context)
    server = _Server(uvicorn.Config(app, port=0, log_level="error", ws="none", timeout_graceful_shutdown=1))
    serving = asyncio.create_task(server.serve())
    while not server.started and not serving.done():  # noqa: ASYNC110 - it has no event to await
        await asyncio.sleep(0.01)
    yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    server.should_exit = True
    await serving


async def test_each_scope_calls_with_its_own_authorization(address: str, opened: Callable[..., McpToolbox]) -> None:
    asked: list[Scope] = []

    async def headers(scope: Scope) -> Mapping[str, str]:
        asked.append(scope)
        await asyncio.sleep(0)
        return {"Authorization": f"Bearer {scope.tenant}/{scope.user}"}

    scopes = [Scope("acme", "ann"), Scope("globex", "ann"), Scope("acme", "bob")]
    async with opened(McpServer(name="own", url=f"{address}/mcp", headers=headers)) as box:
        found = [await run(box, [call("own_whoami")] * 2, "Done.", scope=scope) for scope in scopes * 2]
    expected = [f"Bearer {scope.tenant}/{scope.user}" for scope in scopes * 2 for _ in range(2)]
    assert [text for result in found for text in results(result.messages)] == expected
    assert asked == [Scope(), *scopes]


async def test_a_shared_connection_has_the_products_headers(address: str, opened: Callable[..., McpToolbox]) -> None:
    server = McpServer(name="own", url=f"{address}/mcp", headers={"Authorization": "Bearer product"})
    async with opened(server) as box:
        result = await run(box, call("own_whoami"), "Done.")
    assert results(result.messages) == ["Bearer product"]


async def test_a_redirect_to_another_origin_is_refused(
    address: str, opened: Callable[..., McpToolbox], reports: list[str]
) -> None:
    server = McpServer(name="own", url=f"{address}/away", headers={"Authorization": "secret"}, connect_seconds=5)
    async with opened(server) as box:
        assert box.tools == ()
    (report,) = reports
    assert "secret" not in report
