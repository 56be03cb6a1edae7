"""Rate limits in a process and shared over each store: one suite for all, and what only shared ones do."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from math import inf
from pathlib import Path
from time import monotonic
from typing import Any

import pytest

from concertino.errors import ConfigurationError, RateLimitError, StorageError
from concertino.providers import RateLimit, SharedRateLimit
from concertino.storage import MemoryStore, PostgresStore, SqliteStore

Make = Callable[..., RateLimit]


async def when(state: Callable[[], bool]) -> None:
    """Wait until *state* is true."""
    while not state():  # noqa: ASYNC110 - a state of the limit, which tells nobody
        await asyncio.sleep(0.001)


async def go(limit: RateLimit, name: str, order: list[str], tokens: int = 1, tenant: str = "") -> None:
    """Note *name* once the limit admits its request."""
    async with limit.admit(name, tokens, tenant=tenant):
        order.append(name)


def held(limit: RateLimit) -> tuple[int, int]:
    """Return the requests that are admitted, and those that wait."""
    return limit.active, limit.waiting


KINDS = ["process", "memory", "file", pytest.param("postgres", marks=pytest.mark.postgres)]


@pytest.fixture(params=KINDS)
async def make_limit(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Make]:
    """Make a rate limit of each kind."""
    if request.param == "process":
        yield RateLimit
        return
    store: Any = MemoryStore()
    if request.param == "file":
        store = await SqliteStore.open(tmp_path / "runs.db")
    if request.param == "postgres":
        url, schema = request.getfixturevalue("url"), request.getfixturevalue("schema")
        store = await PostgresStore.open(url, schema=schema)
    yield lambda **limits: SharedRateLimit(store, "key", **limits)
    await store.close()


async def test_tenants_take_turns_whatever_they_have_waiting(make_limit: Make) -> None:
    limit, order = make_limit(max_concurrent=1), list[str]()
    async with limit.admit("first", 1):
        many = [asyncio.create_task(go(limit, f"many{n % 3}", order, tenant="a")) for n in range(60)]
        await when(lambda: limit.waiting == 60)
        one = asyncio.create_task(go(limit, "one", order, tenant="b"))
        await when(lambda: limit.waiting == 61)
    await asyncio.gather(one, *many)
    assert order.index("one") <= 1
    assert order[2:5] in (["many1", "many2", "many0"], ["many2", "many0", "many1"]), "users of a tenant take turns, too"
    assert held(limit) == (0, 0)


async def test_a_limit_of_one_request_a_minute_admits_one(make_limit: Make) -> None:
    limit, order = make_limit(requests_per_minute=1), list[str]()
    await go(limit, "first", order)
    second = asyncio.create_task(go(limit, "second", order))
    await when(lambda: limit.waiting == 1)
    await asyncio.sleep(0.2)
    assert (order, held(limit)) == (["first"], (0, 1))
    second.cancel()
    await asyncio.gather(second, return_exceptions=True)
    assert held(limit) == (0, 0)


async def test_a_request_larger_than_a_minutes_tokens_is_refused_at_once(make_limit: Make) -> None:
    limit, order = make_limit(tokens_per_minute=1_000), list[str]()
    with pytest.raises(RateLimitError, match=r"1,001 tokens, .*p admits 1,000 a minute: raise") as refused:
        async with limit.admit("a", 1_001, model="p:m"):
            pass
    assert (refused.value.retry_after, refused.value.sent) == (inf, False)
    await go(limit, "whole", order, 1_000)
    assert order == ["whole"]
    assert held(limit) == (0, 0)


async def test_an_estimate_is_corrected_by_the_usage(make_limit: Make) -> None:
    limit = make_limit(tokens_per_minute=1_000)
    for _ in range(4):  # four minutes' tokens by their estimates
        async with limit.admit("a", 1_000) as admission:
            admission.used = 0
    async with limit.admit("a", 10) as admission:
        admission.used = 5_000
    late = asyncio.create_task(go(limit, "late", []))
    await when(lambda: limit.waiting == 1)
    await asyncio.sleep(0.2)
    assert held(limit) == (0, 1), "more than the estimate leaves a debt"
    late.cancel()
    await asyncio.gather(late, return_exceptions=True)


async def test_cancelled_waits_leave_nothing_behind(make_limit: Make) -> None:
    limit, order = make_limit(requests_per_minute=600, max_concurrent=2), list[str]()
    async with limit.admit("a", 1), limit.admit("b", 1):
        tasks = [asyncio.create_task(go(limit, str(n), order)) for n in range(8)]
        await when(lambda: limit.waiting == 8)
        for task in tasks[:4]:
            task.cancel()
        await when(lambda: limit.waiting == 4)
    await asyncio.gather(*tasks, return_exceptions=True)
    assert sorted(order) == ["4", "5", "6", "7"]
    assert held(limit) == (0, 0)


async def test_a_pause_applies_to_all_who_wait(make_limit: Make) -> None:
    limit, order = make_limit(), list[str]()
    begin = monotonic()
    limit.pause(0.3)
    await asyncio.gather(*(go(limit, str(n), order) for n in range(3)))
    assert monotonic() - begin >= 0.3
    assert held(limit) == (0, 0)
    limit.pause(60.0, "p:big")
    with pytest.raises(RateLimitError):
        async with limit.admit("a", 1, model="p:big", longest=0.0):
            pass
    async with limit.admit("a", 1, model="p:small", longest=0.0):
        pass
    limit.pause(60.0)
    with pytest.raises(RateLimitError, match="asked for a pause"):
        async with limit.admit("a", 1, longest=30.0):
            pass


async def test_all_requests_within_the_burst_are_admitted(make_limit: Make) -> None:
    limit, order = make_limit(requests_per_minute=2_000, tokens_per_minute=2_000_000), list[str]()
    await asyncio.gather(*(go(limit, str(n), order, 1_000, tenant=str(n % 5)) for n in range(200)))
    assert len(order) == 200
    assert held(limit) == (0, 0)


async def test_two_processes_share_the_limit_and_the_pause() -> None:
    store, order = MemoryStore(), list[str]()
    one, two = (SharedRateLimit(store, "key", requests_per_minute=1) for _ in range(2))
    other_key = SharedRateLimit(store, "other", requests_per_minute=1)
    await go(one, "one", order)

    async def impatient() -> None:
        async with two.admit("two", 1, longest=30.0):
            order.append("two")

    waiting = asyncio.create_task(impatient())
    await go(other_key, "other", order)
    await when(lambda: two.waiting == 1)
    assert order == ["one", "other"]
    one.pause(3_600.0)
    with pytest.raises(RateLimitError, match="asked for a pause"):
        await waiting  # it learns it from the store
    await store.close()


async def test_a_correction_reaches_the_others() -> None:
    store = MemoryStore()
    one, two = (SharedRateLimit(store, "key", tokens_per_minute=6_000) for _ in range(2))
    async with one.admit("a", 6_000) as admission:
        admission.used = 1
    order = list[str]()
    await go(two, "two", order, 600)  # a debt of 5,400 tokens would take 60 s
    assert order == ["two"]
    await store.close()


async def test_requests_that_arrive_one_by_one_share_an_exchange() -> None:
    class Counting(MemoryStore):
        asked = 0

        async def draw_quota(self, *arguments: Any) -> Any:
            self.asked += 1
            return await super().draw_quota(*arguments)

    store = Counting()
    limit = SharedRateLimit(store, "key", requests_per_minute=60_000)
    await asyncio.gather(*(go(limit, str(n), []) for n in range(200)))
    for n in range(200):
        await go(limit, str(n), [])
    assert store.asked < 100, "a grant covers as many as the one before it"
    await store.close()


async def test_a_tenant_that_waits_in_other_processes_too_misses_turns() -> None:
    class Weighing(MemoryStore):
        async def draw_quota(self, *arguments: Any) -> Any:
            return replace(await super().draw_quota(*arguments), weights={"a": 0.25})

    order, store = list[str](), Weighing()
    limit = SharedRateLimit(store, "key", requests_per_minute=60_000)
    await asyncio.gather(*(go(limit, tenant, order, tenant=tenant) for tenant in "aaaabbbb"))
    assert order[:5] == ["a", "b", "b", "b", "b"]
    await store.close()


async def test_a_store_that_fails_ends_the_waits_with_its_error(tmp_path: Path) -> None:
    store = await SqliteStore.open(tmp_path / "runs.db")
    limit = SharedRateLimit(store, "key", requests_per_minute=1)
    await store.close()
    with pytest.raises(StorageError, match=r"the rate limit of the key 'key' cannot be read: .*closed"):
        await go(limit, "a", [])
    assert held(limit) == (0, 0)


def test_a_loop_that_ends_during_an_exchange_does_not_block_another_one() -> None:
    class Slow(MemoryStore):
        slow = True

        async def draw_quota(self, *arguments: Any) -> Any:
            if self.slow:
                self.slow = False
                await asyncio.Event().wait()
            return await super().draw_quota(*arguments)

    async def cut_off() -> None:
        task = asyncio.create_task(go(limit, "a", []))
        await when(lambda: not store.slow)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    order, store = list[str](), Slow()
    limit = SharedRateLimit(store, "key", requests_per_minute=600)
    asyncio.run(cut_off())
    asyncio.run(go(limit, "b", order))
    assert order == ["b"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((MemoryStore(), ""), r"SharedRateLimit\(key=''\): use a name"),
        ((object(), "key"), "use a store of runs"),
    ],
)
def test_a_wrong_argument_is_named(arguments: Any, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        SharedRateLimit(*arguments)
    with pytest.raises(ConfigurationError, match=r"SharedRateLimit\(tokens_per_minute=0\)"):
        SharedRateLimit(MemoryStore(), "key", tokens_per_minute=0)
