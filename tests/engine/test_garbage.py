"""A run that has ended is freed at once: it leaves no reference cycles to the garbage collector."""

from __future__ import annotations

import asyncio
import gc

import pytest

from concertino import AgentConfig, Chat, MemoryStore, Resources, Tool, ToolOrchestrator, delegate
from concertino.testing import ScriptedModel, call


class Child(AgentConfig[None]):
    name = "child"


@pytest.mark.parametrize("stored", [False, True])
@pytest.mark.parametrize("deep", [False, True])
async def test_a_run_leaves_nothing_to_the_garbage_collector(add: Tool, stored: bool, deep: bool) -> None:
    child = delegate(Child(), name="child", description="A child.")
    agent = AgentConfig[None]()
    agent.tools = (add, child)
    store = MemoryStore() if stored else None

    async def once() -> None:
        script = [call("child", query="a")] if deep else []
        model = ScriptedModel(call("add", a=1, b=2), *script, "the child's answer" if deep else "done", "done")
        resources = Resources(store=store)
        chat = Chat(model=model, message="go")
        async for _ in ToolOrchestrator(chat, agent, resources=resources).stream():
            pass

    await once()
    gc.collect()
    gc.freeze()  # what earlier tests left alive, such as their threads, may become garbage meanwhile
    gc.disable()
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        await once()
        await asyncio.sleep(0)  # the loop holds the last task's callbacks for one more pass
        gc.collect()
        ours = [kind for item in gc.garbage if (kind := type(item)).__module__.startswith("concertino")]
        assert ours == [], "the loops of earlier tests are not the run's"
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.unfreeze()
        gc.enable()
