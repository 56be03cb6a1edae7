"""A rate limit for one provider key: order, timing and threads."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from concertino.errors import RateLimitError
from concertino.providers import RateLimit
from concertino.providers import rate_limit as rate_limit_module


class Clock:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    found = Clock()
    monkeypatch.setattr(rate_limit_module, "monotonic", found)
    return found


async def when(state: Callable[[], bool]) -> None:
    """Wait until *state* is true; the test's time limit ends a wait that never succeeds."""
    while not state():  # noqa: ASYNC110 - it may be another thread that brings it about
        await asyncio.sleep(0)


def in_threads(*programs: Callable[[], Coroutine[Any, Any, Any]]) -> list[Any]:
    """Return the results of *programs*, each in its own loop and thread."""
    with ThreadPoolExecutor(len(programs)) as pool:
        running = [pool.submit(asyncio.run, program()) for program in programs]
        return [each.result() for each in running]


def test_two_loops_share_one_rate_limit() -> None:
    limit, inside, most = RateLimit(max_concurrent=2), [0], [0]
    lock, start = threading.Lock(), threading.Barrier(2)

    async def ask(user: str) -> int:
        async with limit.admit(user, 1):
            with lock:
                inside[0] += 1
                most[0] = max(most[0], inside[0])
            await asyncio.sleep(0)
            with lock:
                inside[0] -= 1
        return threading.get_ident()

    async def program() -> set[int]:
        start.wait()
        return set(await asyncio.gather(*(ask(f"user {number % 7}") for number in range(300))))

    first, second = in_threads(program, program)
    assert len(first) == len(second) == 1, "each was woken where it waited"
    assert first != second
    assert most[0] <= 2
    assert (limit.active, limit.waiting) == (0, 0)


def test_a_waiting_request_is_woken_by_another_thread() -> None:
    limit, order = RateLimit(max_concurrent=1), list[str]()
    held = threading.Event()

    async def holder() -> None:
        async with limit.admit("a", 1):
            held.set()
            await when(lambda: limit.waiting == 1)
            order.append("holder leaves")

    async def other() -> None:
        assert held.wait()
        async with limit.admit("b", 1):
            order.append("other is in")

    in_threads(holder, other)
    assert order == ["holder leaves", "other is in"]
    assert (limit.active, limit.waiting) == (0, 0)


def test_users_take_turns_across_threads() -> None:
    limit, order = RateLimit(max_concurrent=1), list[str]()
    held = threading.Event()

    async def ask(user: str) -> None:
        async with limit.admit(user, 1):
            order.append(user)

    async def many() -> None:
        async with limit.admit("many", 1):
            asking = [asyncio.create_task(ask("many")) for _ in range(5)]
            await when(lambda: limit.waiting == 5)
            held.set()
            await when(lambda: limit.waiting == 6)
        await asyncio.gather(*asking)

    async def one() -> None:
        assert held.wait()
        await ask("one")

    in_threads(many, one)
    assert order.index("one") == 1, "the second, though five of the other user were there before"


def test_cancellation_in_one_thread_leaks_nothing_in_another() -> None:
    limit, held = RateLimit(max_concurrent=1), threading.Event()

    async def ask(user: str) -> str:
        async with limit.admit(user, 1):
            return user

    async def holder() -> str:
        async with limit.admit("a", 1):
            held.set()
            await when(lambda: limit.waiting == 3)
        return await ask("a")

    async def leaver() -> str:
        assert held.wait()
        tasks = [asyncio.create_task(ask("b")) for _ in range(2)]
        await when(lambda: limit.waiting == 2)
        tasks.append(asyncio.create_task(ask("c")))
        tasks[0].cancel()
        tasks[2].cancel()  # has not begun
        more = asyncio.create_task(ask("d"))
        await asyncio.sleep(0)
        stay = asyncio.create_task(ask("e"))
        found = await asyncio.gather(*tasks, more, stay, return_exceptions=True)
        return ",".join("gone" if isinstance(each, asyncio.CancelledError) else str(each) for each in found)

    assert in_threads(holder, leaver) == ["a", "gone,b,gone,d,e"]
    assert (limit.active, limit.waiting) == (0, 0)


async def test_an_admitted_but_cancelled_task_frees_its_slot() -> None:
    limit = RateLimit(max_concurrent=1)

    async def ask() -> None:
        async with limit.admit("b", 1):
            raise AssertionError("was cancelled before it knew")

    async with limit.admit("a", 1):
        waiter = asyncio.create_task(ask())
        await when(lambda: limit.waiting == 1)
    assert limit.active == 1, "its turn, and it has not run since"
    waiter.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiter
    assert (limit.active, limit.waiting) == (0, 0)
    async with limit.admit("c", 1):
        assert limit.active == 1


async def test_a_closed_loop_blocks_no_request() -> None:
    limit = RateLimit(max_concurrent=1)

    def leave_one_behind() -> None:
        async def ask() -> None:
            async with limit.admit("gone", 1):
                raise AssertionError("this loop is closed")

        loop = asyncio.new_event_loop()
        abandoned.append(loop.create_task(ask()))
        loop.run_until_complete(asyncio.sleep(0))
        loop.close()

    abandoned: list[Any] = []
    async with limit.admit("a", 1):
        await asyncio.to_thread(leave_one_behind)
        assert limit.waiting == 1
    async with limit.admit("b", 1):
        assert (limit.active, limit.waiting) == (1, 0)
    abandoned[0]._log_destroy_pending = False  # it is meant to be lost


async def test_a_pause_slows_all_requests(clock: Clock) -> None:
    limit, order = RateLimit(), list[str]()

    async def ask(user: str) -> None:
        async with limit.admit(user, 1):
            order.append(user)

    limit.pause(30.0)
    waiting = [asyncio.create_task(ask(user)) for user in "ab"]
    await when(lambda: limit.waiting == 2)
    clock.now += 29.0
    waiting.append(asyncio.create_task(ask("c")))
    await when(lambda: limit.waiting == 3)
    assert order == []
    clock.now += 1.0
    await ask("d")
    await asyncio.gather(*waiting)
    assert sorted(order) == ["a", "b", "c", "d"]


def test_a_rate_limit_in_one_thread_slows_the_other(clock: Clock) -> None:
    limit, order = RateLimit(), list[str]()
    paused = threading.Event()

    async def limited() -> None:
        async with limit.admit("a", 1):
            limit.pause(60.0)
        paused.set()
        await when(lambda: limit.waiting == 1)
        order.append("the minute is over")
        clock.now += 60.0
        async with limit.admit("a", 1):
            pass

    async def other() -> None:
        assert paused.wait()
        async with limit.admit("b", 1):
            order.append("b")

    in_threads(limited, other)
    assert order == ["the minute is over", "b"]


async def test_a_request_waits_no_longer_for_a_pause_than_allowed(clock: Clock) -> None:
    limit, through = RateLimit(max_concurrent=1), list[str]()

    async def ask(user: str, longest: float) -> None:
        async with limit.admit(user, 1, model="p:m", longest=longest):
            through.append(user)

    async with limit.admit("a", 1):
        patient, hasty = [asyncio.create_task(ask(f"b{longest:g}", longest)) for longest in (60.0, 5.0)]
        await when(lambda: limit.waiting == 2)
        limit.pause(30.0)
        with pytest.raises(RateLimitError, match="30 s remain") as refused:
            await hasty
        assert (refused.value.provider, refused.value.retry_after) == ("p", 30.0)
    clock.now += 10.0
    with pytest.raises(RateLimitError, match="20 s"):
        await ask("c", 5.0)
    assert (limit.waiting, limit.active, through) == (1, 0, [])
    clock.now += 15.0
    hasty = asyncio.create_task(ask("d", 5.0))
    await when(lambda: limit.waiting == 2)
    clock.now += 5.0
    await asyncio.gather(ask("e", 0.0), patient, hasty)
    assert sorted(through) == ["b60", "d", "e"]


async def test_a_closed_model_does_not_block_others(clock: Clock) -> None:
    limit = RateLimit()
    limit.pause(3600.0, "p:big")
    async with limit.admit("a", 1, model="p:small", longest=30.0):
        pass
    clock.now += 3590.0
    with pytest.raises(RateLimitError, match="10 s remain"):
        async with limit.admit("a", 1, model="p:big", longest=30.0):
            pass
    clock.now += 10.0
    async with limit.admit("a", 1, model="p:big", longest=30.0):
        pass


def test_a_pause_in_one_thread_applies_in_another() -> None:
    limit = RateLimit(max_concurrent=1)
    waits = threading.Event()

    async def limited() -> None:
        async with limit.admit("a", 1):
            waits.set()
            await when(lambda: limit.waiting == 1)
            limit.pause(3600.0, "p:m")
            await when(lambda: limit.waiting == 0)

    async def other() -> None:
        assert waits.wait()
        with pytest.raises(RateLimitError):
            async with limit.admit("b", 1, model="p:m"):
                pass

    in_threads(limited, other)
    assert (limit.active, limit.waiting) == (0, 0)


async def test_an_alarm_wakes_a_request_when_tokens_are_available() -> None:
    limit = RateLimit(requests_per_minute=60_000)  # one a millisecond, 6,000 of them at once
    for _ in range(6_010):
        async with limit.admit("a", 1):
            pass
    assert (limit.active, limit.waiting) == (0, 0)


async def test_requests_and_tokens_refill_over_time(clock: Clock) -> None:
    limit = RateLimit(
        requests_per_minute=600, tokens_per_minute=6_000
    )  # ten and a hundred a second; sixty and six hundred at once
    done: list[int] = []

    async def ask(tokens: int) -> None:
        async with limit.admit("a", tokens):
            done.append(tokens)

    await ask(600)
    next_one = asyncio.create_task(ask(100))
    await when(lambda: limit.waiting == 1)
    assert done == [600], "its tokens are not there yet"
    clock.now += 1.0
    await asyncio.gather(next_one, ask(0))
    assert sorted(done) == [0, 100, 600]
    clock.now += 600.0
    await ask(5_000)
    assert done[-1] == 5_000, "more than fits goes alone, when all is there"
