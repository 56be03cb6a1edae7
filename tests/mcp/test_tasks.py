"""Calls that a server runs as tasks are durable waits."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from concertino import Chat, Limits, MemoryStore, Resources, Runtime, Scope, SqliteStore
from concertino.agents import ASK_PERSON
from concertino.testing import ScriptedModel, call
from concertino.tools.mcp import McpServer, McpToolbox
from concertino.waits import Wait

from .conftest import ANN, HERE, agent, run
from .test_servers import results

READY = "Tea is ready."
RESULT = {"content": [{"type": "text", "text": READY}], "structuredContent": {"result": READY}}
DONE = {"status": "completed", "result": RESULT}
FORM = {"type": "object", "properties": {"amount": {"type": "integer"}}, "required": ["amount"]}


def kettle(folder: Path, **settings: Any) -> McpServer:
    """Return the server with tasks, over stdio; its tasks are files in *folder*."""
    return McpServer(name="kettle", command=[sys.executable, str(HERE / "tasks_server.py"), str(folder)], **settings)


def write(folder: Path, state: object) -> None:
    """Set the state of the task."""
    new = folder / "new"
    new.write_text(json.dumps(state))
    new.rename(folder / "task-1.json")


def logged(folder: Path, verb: str) -> list[str]:
    """Return the requests of one kind that the server has got."""
    path = folder / "log"
    lines = path.read_text().splitlines() if path.exists() else []
    return [line.removeprefix(f"{verb} ") for line in lines if line.startswith(f"{verb} ")]


def asking(*keys: str) -> dict[str, Any]:
    """Return the state of a task that asks the user."""
    params = {"mode": "form", "message": "How much?", "requestedSchema": FORM}
    asked = {key: {"method": "elicitation/create", "params": params} for key in keys}
    return {"status": "input_required", "inputRequests": asked}


async def open_waits(runtime: Runtime, tool: str, count: int = 1) -> Sequence[Wait]:
    """Return the waits for *tool*, once there are *count*. The runtime looks at tasks meanwhile."""
    while True:
        waits = await runtime.store.waits(ANN, open=True)
        found = [wait for wait in waits if wait.tool == tool]
        if len(found) == count:
            return found
        await look_now(runtime)


async def look_now(runtime: Runtime) -> None:
    """Let the runs look at their tasks, whenever they would do so."""
    for wait in await runtime.store.waits(ANN, open=True):
        if wait.tool == "mcp_task":
            await runtime.resolve(ANN, wait.key, "")
    await asyncio.sleep(0.01)


async def finished(runtime: Runtime, run_id: str) -> list[str]:
    """Return the results of the run's calls, once it has ended."""
    while (stored := await runtime.store.run(ANN, run_id)) is not None and stored.end is None:
        await look_now(runtime)
    return results((await runtime.result(ANN, run_id)).messages)


@asynccontextmanager
async def brewing(box: McpToolbox, tool: str = "brew") -> AsyncIterator[tuple[Runtime, str]]:
    """Start a run that waits for a task."""
    model = ScriptedModel(call(f"kettle_{tool}", pot="blue"), "Done.")
    async with Runtime([agent(box)], Resources(model=model), store=MemoryStore(), sweep=0.02) as runtime:
        live = await runtime.start(Chat("Go.", scope=ANN), "assistant")
        assert (await live.result()).status == ("suspended" if tool == "brew" else "completed")
        yield runtime, live.id


# -- a durable wait ----------------------------------------------------------------------------------------------------


async def test_a_task_is_a_durable_wait(opened: Callable[..., McpToolbox], tmp_path: Path) -> None:
    async with opened(kettle(tmp_path)) as box, brewing(box) as (runtime, run_id):
        (wait,) = await open_waits(runtime, "mcp_task")
        handle = json.loads(wait.arguments)
        assert (handle["server"], handle["task"]) == ("kettle", "task-1")
        assert wait.expires is not None
        assert not await runtime.store.waits(Scope("other", "ann"), open=True)
        write(tmp_path, DONE)
        assert await finished(runtime, run_id) == [READY]
    assert logged(tmp_path, "call") == [f"brew {run_id}:1.0"]


@pytest.mark.slow
async def test_the_questions_of_a_task_are_asked_once(opened: Callable[..., McpToolbox], tmp_path: Path) -> None:
    async with opened(kettle(tmp_path)) as box, brewing(box) as (runtime, run_id):
        write(tmp_path, asking("milk", "sugar"))
        milk, sugar = await open_waits(runtime, ASK_PERSON, 2)
        assert json.loads(milk.arguments)["schema"] == FORM
        await runtime.resolve(ANN, milk.key, {"amount": 7})
        await runtime.resolve(ANN, sugar.key, "", failed=True)
        while not logged(tmp_path, "update"):  # noqa: ASYNC110 - the server logs it
            await asyncio.sleep(0.01)
        looks = len(logged(tmp_path, "get"))
        while len(logged(tmp_path, "get")) < looks + 2:  # the server still shows both
            await look_now(runtime)
        write(tmp_path, DONE)
        assert await finished(runtime, run_id) == [READY]
    (answers,) = [json.loads(line) for line in logged(tmp_path, "update")]
    assert answers == {"milk": {"action": "accept", "content": {"amount": 7}}, "sugar": {"action": "decline"}}


async def test_a_call_that_is_answered_at_once_needs_no_task(opened: Callable[..., McpToolbox], tmp_path: Path) -> None:
    async with opened(kettle(tmp_path)) as box, brewing(box, "quick") as (runtime, run_id):
        assert await finished(runtime, run_id) == ["at once"]
        assert len(await runtime.store.runs(ANN, root_id=run_id)) == 1


@pytest.mark.slow
@pytest.mark.parametrize("moment", ["waiting", "looking"])
async def test_a_task_survives_a_kill_and_is_not_begun_again(
    opened: Callable[..., McpToolbox], tmp_path: Path, moment: str
) -> None:
    if moment == "looking":
        (tmp_path / "kill").touch()  # the server kills the process when it looks at the task
    process = await asyncio.create_subprocess_exec(
        *[sys.executable, "-m", "tests.mcp.task_program", str(tmp_path / "runs.db"), str(tmp_path)],
        cwd=HERE.parents[1],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(["src", *sys.path])},
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    run_id = (await process.stdout.readline()).decode().strip()
    store = await SqliteStore.open(tmp_path / "runs.db")
    if moment == "waiting":
        while not await store.waits(ANN, open=True):  # noqa: ASYNC110 - another process writes it
            await asyncio.sleep(0.01)
        process.kill()
    await process.wait()
    write(tmp_path, DONE)
    resources = Resources(model=ScriptedModel("Done."))
    async with (
        opened(kettle(tmp_path)) as box,
        Runtime([agent(box)], resources, store=store, sweep=0.02) as runtime,
    ):
        assert await finished(runtime, run_id) == [READY]
    await store.close()
    assert logged(tmp_path, "call") == [f"brew {run_id}:1.0"]


# -- the end of a task -------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    ("state", "text"),
    [
        (
            {"status": "failed", "error": {"code": -32603, "message": "no water"}},
            "kettle: the task was failed: no water",
        ),
        ({"status": "cancelled", "statusMessage": "power cut"}, "kettle: the task was cancelled: power cut"),
        ({"status": "completed"}, "kettle: invalid result"),
        ({"status": "completed", "result": {"content": "tea"}}, "kettle: invalid result"),
        ({"status": "completed", "result": {"content": [], "isError": True}}, "reports an error without a text"),
        (asking(*map(str, range(21))), "kettle: the task was cancelled: it asks too much"),
    ],
)
async def test_a_task_that_fails_or_lies_is_an_error_that_the_model_reads(
    opened: Callable[..., McpToolbox], tmp_path: Path, state: object, text: str
) -> None:
    write(tmp_path, state)
    async with opened(kettle(tmp_path)) as box, brewing(box) as (runtime, run_id):
        (result,) = await finished(runtime, run_id)
    assert text in result


@pytest.mark.slow
async def test_a_state_that_cannot_be_read_is_looked_at_again(
    opened: Callable[..., McpToolbox], tmp_path: Path
) -> None:
    write(tmp_path, {"status": "dancing", "pollIntervalMs": "soon"})
    async with opened(kettle(tmp_path)) as box, brewing(box) as (runtime, run_id):
        while len(logged(tmp_path, "get")) < 3:
            await look_now(runtime)
        write(tmp_path, DONE)
        assert await finished(runtime, run_id) == [READY]


@pytest.mark.slow
async def test_a_task_that_expires_leaves_the_effect_open(opened: Callable[..., McpToolbox], tmp_path: Path) -> None:
    async with opened(kettle(tmp_path)) as box, brewing(box) as (runtime, run_id):
        await open_waits(runtime, "mcp_task")
        (tmp_path / "gone").touch()
        (result,) = await finished(runtime, run_id)
    assert "whether the call took effect is unknown" in result


@pytest.mark.slow
async def test_a_task_that_never_ends_is_cancelled_at_its_limit(
    opened: Callable[..., McpToolbox], tmp_path: Path
) -> None:
    async with opened(kettle(tmp_path, task_seconds=0.5)) as box, brewing(box) as (runtime, run_id):
        (result,) = await finished(runtime, run_id)
    assert result == "kettle: the task was cancelled: it did not end within 0.5 s"
    assert logged(tmp_path, "cancel") == ["task-1"]


async def test_a_stopped_run_cancels_its_task(opened: Callable[..., McpToolbox], tmp_path: Path) -> None:
    async with opened(kettle(tmp_path)) as box, brewing(box) as (runtime, run_id):
        await open_waits(runtime, "mcp_task")
        await runtime.stop(ANN, run_id)
        while not logged(tmp_path, "cancel"):  # noqa: ASYNC110 - the server logs it
            await asyncio.sleep(0.01)
    assert logged(tmp_path, "cancel") == ["task-1"]


@pytest.mark.slow
async def test_a_task_that_no_limit_allows_to_follow_is_cancelled(
    opened: Callable[..., McpToolbox], tmp_path: Path
) -> None:
    async with opened(kettle(tmp_path)) as box:
        model = ScriptedModel(call("kettle_brew", pot="blue"), "Done.")
        resources = Resources(model=model, limits=lambda *_: Limits(all_tool_calls=1))
        async with Runtime([agent(box)], resources, store=MemoryStore()) as runtime:
            result = await (await runtime.start(Chat("Go.", scope=ANN), "assistant")).result()
    assert "limit" in results(result.messages)[0]
    assert logged(tmp_path, "cancel") == ["task-1"]


# -- without a store ---------------------------------------------------------------------------------------------------


@pytest.mark.slow
async def test_without_a_store_the_call_stays_open(opened: Callable[..., McpToolbox], tmp_path: Path) -> None:
    write(tmp_path, DONE)
    async with opened(kettle(tmp_path)) as box:
        assert results((await run(box, call("kettle_brew", pot="blue"), "Done.")).messages) == [READY]
        write(tmp_path, asking("milk"))
        (asked,) = results((await run(box, call("kettle_brew", pot="blue"), "Done.")).messages)
    assert asked == "kettle asks the user: How much?"
    assert logged(tmp_path, "cancel") == ["task-1"]
