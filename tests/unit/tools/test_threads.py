"""Blocking functions in threads: limited per event loop, abandoned on cancellation, harmless at exit."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from contextvars import ContextVar

import pytest

from concertino.errors import ToolError
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


async def test_abandoned_functions_do_not_starve_others_and_their_number_is_bounded() -> None:
    threads, started, release = DaemonThreads(limit=1, abandoned=2), threading.Semaphore(0), threading.Event()

    def hang() -> None:
        started.release()
        release.wait()

    for _ in range(3):
        call = asyncio.ensure_future(threads.run(hang))
        await run_in_thread(started.acquire)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
    with pytest.raises(ToolError, match="every thread is busy with an abandoned function"):
        await threads.run(str, 7)
    release.set()
    while True:
        try:
            assert await threads.run(str, 7) == "7"
            break
        except ToolError:  # the last function is about to return
            await run_in_thread(release.wait)


async def test_a_call_cancelled_before_it_begins_never_begins() -> None:
    threads, started, release = DaemonThreads(limit=1), threading.Event(), threading.Event()
    ran: list[int] = []

    def hang() -> None:
        started.set()
        release.wait()

    first = asyncio.ensure_future(threads.run(hang))
    await run_in_thread(started.wait)
    second = asyncio.ensure_future(threads.run(ran.append, 2))
    await asyncio.sleep(0)
    second.cancel()
    release.set()
    await asyncio.wait([first, second])
    await threads.run(ran.append, 3)
    assert ran == [3]


async def test_without_a_thread_nothing_is_queued(monkeypatch: pytest.MonkeyPatch) -> None:
    threads = DaemonThreads()
    ran: list[int] = []
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", _fail_to_start)
        with pytest.raises(RuntimeError, match="can't start new thread"):
            await threads.run(ran.append, 1)
    await threads.run(ran.append, 2)
    assert ran == [2]


def _fail_to_start(thread: threading.Thread) -> None:
    raise RuntimeError("can't start new thread")


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt(), GeneratorExit(), asyncio.CancelledError()])
async def test_what_would_end_the_process_reaches_the_caller_as_a_tool_error(error: BaseException) -> None:
    def fail() -> None:
        raise error

    with pytest.raises(ToolError, match=type(error).__name__):
        await run_in_thread(fail)


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
