"""The target `sandbox`: code of a model, in a subprocess with limits."""

from __future__ import annotations

import asyncio
import fcntl
import os
from pathlib import Path
from typing import Any

import pytest

from concertino import AgentConfig, Chat, MemoryStore, Resources, Runtime, Scope, wiring
from concertino.messages import ToolMessage
from concertino.runtime import Fleet
from concertino.testing import ScriptedModel, call
from concertino.tools.sandbox import RunCode, ScriptLimits

from .test_fleet import Bell, joined

CARLA = Scope(tenant="acme", user="carla")
TARGETS = {"desks": ["desk"], "sandbox": []}


class Desk(AgentConfig[None]):
    name = "desk"
    tools = (RunCode(),)


async def run(*calls: Any, **limits: Any) -> list[ToolMessage]:
    """Return the results of one turn of calls, which a process of the sandbox runs within *limits*."""
    store, bell, model = MemoryStore(), Bell(), ScriptedModel([*calls], "Done.")
    desks = Runtime([Desk()], Resources(store=store, models=lambda _: model), sweep=3600.0)
    boxes = Runtime([RunCode(ScriptLimits(**limits))], store=store, sweep=3600.0)
    joined(desks, Fleet(bell=bell, targets=TARGETS, takes=["desks"]))
    joined(boxes, Fleet(bell=bell, targets=TARGETS, takes=["sandbox"]))
    async with desks, boxes:
        started = await desks.start(Chat("count", scope=CARLA, model="desk"), "desk")
        async for _ in desks.events(CARLA, started.id):
            pass
    return [each for each in model.requests[-1].messages if isinstance(each, ToolMessage)]


async def test_the_processes_of_the_built_in_agents_run_code(tmp_path: Path) -> None:
    """A worker of the target needs no app of its own."""
    store, bell = MemoryStore(), Bell()
    model = ScriptedModel(call("run_code", language="python", code="print(6 * 7)"), "It is 42.")
    (tmp_path / "apples.md").write_text("# Apples\n\nApples are sweet.\n")
    library = await wiring.open_library([tmp_path], lambda _: None)
    desks = Runtime([Desk()], Resources(store=store, models=lambda _: model), sweep=3600.0)
    boxes = wiring.open_runtime(store, library, model=wiring.open_model("demo"))
    joined(desks, Fleet(bell=bell, targets=TARGETS, takes=["desks"]))
    joined(boxes, Fleet(bell=bell, targets=TARGETS, takes=["sandbox"]))
    async with desks, boxes:
        started = await desks.start(Chat("count", scope=CARLA, model="desk"), "desk")
        async for _ in desks.events(CARLA, started.id):
            pass
        called = {run.start.agent for run in await store.runs(CARLA)}
    await library.close()
    (result,) = [each for each in model.requests[-1].messages if isinstance(each, ToolMessage)]
    assert (result.content, called) == ("42\n", {"desk", "tool:sandbox:run_code"})


async def test_code_runs_alone_and_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATABASE_KEY", "swordfish")
    code = "import os, socket; print(os.getcwd(), os.listdir(), sorted(os.environ), socket.if_nameindex())"
    python, shell, failing, unknown = await run(
        call("run_code", language="python", code=code),
        call("run_code", language="shell", code="echo $((6 * 7)); touch made; ls"),
        call("run_code", language="python", code="print('so far'); raise SystemExit(3)"),
        call("run_code", language="perl", code="1"),
    )
    folder, rest = python.content.split(" ", 1)
    assert not os.path.lexists(folder)  # noqa: ASYNC240 - a test may wait
    assert rest.startswith("['main.py'] ['HOME', 'LANG', 'PATH'] [(1, 'lo')")
    assert shell.content == "42\nmade\nmain.sh\n"
    assert (failing.content, failing.is_error) == ("exit code 3\nso far", True)
    assert unknown.is_error


@pytest.mark.parametrize(
    ("code", "limits", "shown"),
    [
        ("while True: pass", {"seconds": 0.5}, "did not end within 0.5 s"),
        ("x = bytearray(10**9)", {"megabytes": 500}, "MemoryError"),
        ("open('big', 'wb').write(b'x' * 5_000_000)", {"file_megabytes": 1}, "exit code"),
    ],
    ids=["time", "memory", "files"],
)
async def test_code_ends_at_its_limits(code: str, limits: dict[str, Any], shown: str) -> None:
    (found,) = await run(call("run_code", language="python", code=code), **limits)
    assert found.is_error
    assert shown in found.content


_LEAVES = """
import fcntl, os, time
lock = open(r"{file}", "w")
fcntl.flock(lock, fcntl.LOCK_EX)
read, write = os.pipe()
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.write(write, b"x")
        time.sleep(600)
    os._exit(0)
os.read(read, 1)
{then}
"""


@pytest.mark.parametrize(("then", "seconds"), [("print('done')", 300), ("time.sleep(600)", 2)], ids=["end", "time"])
async def test_no_process_of_the_code_outlives_it(tmp_path: Path, then: str, seconds: float) -> None:
    file = tmp_path / "lock"
    code = _LEAVES.format(file=file, then=then)
    (found,) = await run(call("run_code", language="python", code=code), seconds=seconds)
    assert found.is_error == (then != "print('done')")
    with file.open() as lock:
        # A process of the code that lives has inherited the lock.
        await asyncio.wait_for(asyncio.to_thread(fcntl.flock, lock, fcntl.LOCK_EX), 30)


async def test_a_folder_too_deep_for_python_is_removed() -> None:
    code = "import os\nprint(os.getcwd())\nfor _ in range(3000):\n    os.mkdir('d')\n    os.chdir('d')"
    (found,) = await run(call("run_code", language="python", code=code))
    assert not found.is_error
    assert not os.path.lexists(found.content.strip())  # noqa: ASYNC240 - a test may wait


def test_the_wait_for_a_process_is_part_of_the_deadline() -> None:
    assert RunCode(ScriptLimits(seconds=20)).timeout == 80
    assert RunCode(target="boxes").target == "boxes"
