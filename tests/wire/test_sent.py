"""Failures tell apart requests that never left, requests that a provider refused, and requests of unknown fate."""

from __future__ import annotations

import pytest

from concertino import AgentConfig, Chat, Resources, RunError, ToolOrchestrator
from concertino.errors import ProviderConnectionError, ProviderError
from concertino.orchestrator import Retry
from concertino.providers import Timeouts
from concertino.providers.openai import OpenAICompatibleModel

from .test_faults import FULL, KINDS, QUICK, broken_by
from .test_limits import full_backlog
from .wire_kit import events_of, model_of, request, serving


async def refused_port() -> int:
    """Return a port on which no process listens."""
    async with serving() as server:
        return int(server.url.rpartition(":")[2])


async def failure(kind: str, url: str) -> ProviderError:
    """Return the error of a model that asks *url*."""
    model = QUICK[kind](url, Timeouts(connect=0.2))
    with pytest.raises(ProviderError) as caught:
        await events_of(model)
    await model.close()
    return caught.value


@pytest.mark.parametrize("kind", KINDS)
async def test_a_connection_that_never_opened_is_not_billed(kind: str) -> None:
    error = await failure(kind, f"http://127.0.0.1:{await refused_port()}")
    assert (type(error), error.sent, error.billable) == (ProviderConnectionError, False, False)


@pytest.mark.parametrize("kind", KINDS)
async def test_a_connect_timeout_is_not_billed(kind: str) -> None:
    with full_backlog() as port:
        error = await failure(kind, f"http://127.0.0.1:{port}")
    assert (error.sent, error.billable) == (False, False)


@pytest.mark.parametrize("kind", KINDS)
async def test_a_connection_lost_after_the_request_may_be_billed(kind: str) -> None:
    error = await broken_by(kind, Timeouts(), lambda server: server.play(b"", refused=True))
    assert (type(error), error.sent, error.billable) == (ProviderConnectionError, None, True)


@pytest.mark.parametrize("kind", KINDS)
async def test_silence_after_the_request_may_be_billed(kind: str) -> None:
    limits = Timeouts(connect=0.4, delta=0.1)
    error = await broken_by(kind, limits, lambda server: server.play(b"", silent=5.0))
    assert (error.sent, error.billable) == (None, True)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("status", "free"),
    [
        *((status, True) for status in (400, 401, 403, 404, 409, 413, 422, 429, 503, 529)),
        *((status, False) for status in (408, 499, 500, 502, 504, 520, 524, 599)),
    ],
)
async def test_only_refusals_are_free(kind: str, status: int, free: bool) -> None:
    error = await broken_by(kind, Timeouts(), lambda server: server.play(b"{}", status=status))
    assert (error.status, error.sent, error.billable) == (status, True, not free)


@pytest.mark.parametrize("kind", KINDS)
async def test_an_answer_that_broke_off_was_sent(kind: str) -> None:
    half = FULL[kind].encode()[:700]
    error = await broken_by(kind, Timeouts(), lambda server: server.play(half, broken=True))
    assert (error.sent, error.billable) == (True, True)


async def test_an_unsupported_setting_was_not_sent() -> None:
    async with serving() as server, model_of("responses", server) as model:
        with pytest.raises(ProviderError) as caught:
            await events_of(model, request(stop=("x",)))
        assert (caught.value.sent, server.asked) == (False, [])


async def test_attempts_of_unknown_fate_are_never_booked_as_zero() -> None:
    async with serving() as server:
        model = OpenAICompatibleModel("m", f"{server.url}/v1", api_key="k")
        for _ in range(3):
            server.play(b"", refused=True)
        resources = Resources(model=model, retry=Retry(first=0.0))
        orchestrator = ToolOrchestrator(Chat("hi"), AgentConfig(), resources=resources)
        with pytest.raises(RunError):
            await orchestrator.run()
        await model.close()
        assert len(server.asked) == 3
    assert orchestrator.result is not None
    assert len(orchestrator.result.usage) == 3
    assert all(record.source != "measured" and record.tokens.prompt > 0 for record in orchestrator.result.usage)
