"""Blocking functions in threads: limited per event loop, abandoned on cancellation, harmless at exit."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from contextvars import ContextVar

import pytest

from concertino.tools.threads import DaemonThreads, run_in_thread

user: ContextVar[str] = ContextVar("user")


async def test_the_result_and_the_context_of_the_caller() -> None:
    user.set("ann")
    assert (
        await run_in_thread(lambda greeting, *, mark: f"{greeting} {user.get()}{mark}", "hello", mark="!")
        == "hello ann!"
    )


@pytest.mark.parametrize(("raised", "caught"), [(ValueError("x"), ValueError), (StopIteration(1), RuntimeError)])
async def test_an_exception_reaches_the_caller(raised: Exception, caught: type[Exception]) -> None:
    def fail() -> None:
        raise raised

    with pytest.raises(caught):
        await run_in_thread(fail)


async def test_no_more_threads_than_the_limit() -> None:
    threads, started, release = DaemonThreads(limit=2), threading.Semaphore(0), threading.Event()
    running: set[int] = set()

    def work(number: int) -> None:
        running.add(number)
        started.release()
        release.wait()

    calls = [asyncio.ensure_future(threads.run(work, number)) for number in range(3)]
    for _ in range(2):
        await run_in_thread(started.acquire)
    assert running == {0, 1}
    release.set()
    await asyncio.gather(*calls)
    assert running == {0, 1, 2}


async def test_a_cancelled_call_gives_its_slot_to_the_next_one() -> None:
    threads, started, release = DaemonThreads(limit=1), threading.Event(), threading.Event()

    def hang() -> None:
        started.set()
        release.wait()

    call = asyncio.ensure_future(threads.run(hang))
    await run_in_thread(started.wait)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert await threads.run(str, 7) == "7"
    release.set()


def test_each_event_loop_has_its_own_threads() -> None:
    async def twice() -> list[int]:
        return [await run_in_thread(int, "1"), await run_in_thread(int, "2")]

    assert [asyncio.run(twice()) for _ in range(2)] == [[1, 2], [1, 2]]


def test_a_function_that_hangs_does_not_keep_the_process_from_exiting() -> None:
    program = """
import asyncio, threading
from concertino.tools.threads import run_in_thread

async def main():
    started = threading.Event()
    def hang():
        started.set()
        threading.Event().wait()
    call = asyncio.ensure_future(run_in_thread(hang))
    await run_in_thread(started.wait)
    call.cancel()
    print("left")

asyncio.run(main())
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "left\n"
