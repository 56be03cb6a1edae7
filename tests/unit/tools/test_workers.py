"""Worker processes: results, limits, cancellation."""

from __future__ import annotations

import asyncio
import io
import json
import sys
from pathlib import Path

import pytest

from concertino.errors import WorkerError
from concertino.tools.workers import in_worker, run_in_worker
from concertino.tools.workers.worker_process import read_message, write_message

from . import untrusted_work as work

posix = pytest.mark.skipif(sys.platform == "win32", reason="limits of CPU time and memory exist on POSIX only")


@pytest.mark.parametrize("value", [None, "text ä \udc00 \U0001f600", [1, {"a": 2.5}], "x" * 2_000_000])
async def test_values_pass_unchanged(value: object) -> None:
    assert await in_worker(work.echo, value) == value


def test_a_worker_is_used_again() -> None:
    assert run_in_worker(work.process_id) == run_in_worker(work.process_id)


async def test_an_exception_is_reported_and_the_worker_continues() -> None:
    before = run_in_worker(work.process_id)
    with pytest.raises(WorkerError, match="ValueError: no") as caught:
        await in_worker(work.fail)
    assert caught.value.raised == "ValueError"
    assert run_in_worker(work.process_id) == before


@posix
async def test_endless_work_is_killed() -> None:
    with pytest.raises(WorkerError, match=r"spin took more than 0.5 s of CPU time"):
        await in_worker(work.spin, cpu_seconds=0.5)
    assert await in_worker(work.echo, 1) == 1


@posix
async def test_a_function_that_needs_too_much_memory_fails() -> None:
    with pytest.raises(WorkerError, match="allocate needs more than 1,000 MB of memory"):
        await in_worker(work.allocate)
    assert await in_worker(work.echo, 1) == 1


@pytest.mark.parametrize("function", [work.leave, work.nest])
async def test_a_worker_that_ends_fails_the_call_only(function: object) -> None:
    with pytest.raises(WorkerError):
        await in_worker(function)  # type: ignore[arg-type]
    assert await in_worker(work.echo, 1) == 1


async def test_a_cancelled_caller_kills_its_worker() -> None:
    calls = [asyncio.ensure_future(in_worker(work.sleep)) for _ in range(6)]  # more than there are workers
    await asyncio.sleep(0)
    for call in calls:
        call.cancel()
    await asyncio.wait(calls)
    assert await in_worker(work.echo, 1) == 1  # the slots are free again


async def test_what_a_function_prints_is_no_result() -> None:
    assert await in_worker(work.print_much) == "printed"


async def test_a_worker_knows_no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "secret")
    assert "OPENAI_API_KEY" not in await in_worker(work.environment)


@posix
async def test_a_worker_writes_no_file(tmp_path: Path) -> None:
    with pytest.raises(WorkerError):
        await in_worker(work.write, str(tmp_path / "file"))
    assert not (tmp_path / "file").exists() or not (tmp_path / "file").read_text()


@pytest.mark.parametrize("data", [b"", b"12", b"5\n1", b"x\n", b"-1\n", b"99999999\n1"])
def test_anything_but_a_message_is_refused(data: bytes) -> None:
    with pytest.raises((EOFError, ValueError)):
        read_message(io.BytesIO(data), 1_000)


def test_a_message_is_json() -> None:
    stream = io.BytesIO()
    write_message(stream, {"a": ["ä"]})
    header, _, body = stream.getvalue().partition(b"\n")
    assert int(header) == len(body)
    assert json.loads(body) == {"a": ["ä"]}
    stream.seek(0)
    assert read_message(stream) == {"a": ["ä"]}
