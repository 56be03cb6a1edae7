"""The deadline of a request: silence, total time, slow consumers and cancellation."""

from __future__ import annotations

import asyncio

import pytest

from concertino.errors import ProviderTimeoutError
from concertino.providers import Timeouts
from concertino.providers.http.time_limits import Deadline


async def test_silence_expires_before_and_inside_an_answer() -> None:
    for begun in (False, True):
        deadline = Deadline(Timeouts(connect=0.01, delta=0.02), "here")
        with pytest.raises(ProviderTimeoutError) as caught:
            await deadline.wait(asyncio.Event().wait(), begun=begun)
        deadline.close()
        assert caught.value.limit == "delta"


async def test_the_shorter_limit_inside_an_answer_replaces_the_one_before_it() -> None:
    deadline = Deadline(Timeouts(connect=3600.0, delta=0.02), "here")
    await deadline.wait(asyncio.sleep(0), begun=False)
    with pytest.raises(ProviderTimeoutError):
        await deadline.wait(asyncio.Event().wait(), begun=True)
    deadline.close()


async def test_the_total_limit_expires_across_waits() -> None:
    deadline = Deadline(Timeouts(delta=3600.0, total=0.02), "here")
    with pytest.raises(ProviderTimeoutError) as caught:
        while True:
            await deadline.wait(asyncio.sleep(0.001), begun=True)
    deadline.close()
    assert caught.value.limit == "total"


async def test_time_of_the_consumer_does_not_count() -> None:
    deadline = Deadline(Timeouts(delta=0.02), "here")
    for _ in range(3):
        assert await deadline.wait(asyncio.sleep(0, "piece"), begun=True) == "piece"
        await asyncio.sleep(0.05)
    deadline.close()


async def test_cancellation_from_outside_is_not_a_timeout() -> None:
    deadline = Deadline(Timeouts(delta=3600.0), "here")
    waiting = asyncio.ensure_future(deadline.wait(asyncio.Event().wait(), begun=True))
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    deadline.close()


async def test_an_expired_limit_leaves_the_task_usable() -> None:
    deadline = Deadline(Timeouts(delta=0.01), "here")
    with pytest.raises(ProviderTimeoutError):
        await deadline.wait(asyncio.Event().wait(), begun=True)
    deadline.close()
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0
    await asyncio.sleep(0)
