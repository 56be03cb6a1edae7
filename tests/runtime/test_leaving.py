"""Leaving a runtime, or cancelling a caller, while a run is being resumed: the run goes on, and no claim remains."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from typing import Any

import pytest

from concertino import (
    OPERATOR,
    AgentConfig,
    Ask,
    Chat,
    MemoryStore,
    Resources,
    RunContext,
    Runtime,
    Scope,
    ToolCall,
    delegate,
    tool,
)
from concertino.errors import RunEndedError
from concertino.runtime import LiveRun
from concertino.storage import Claim
from concertino.testing import ScriptedModel, call

from .kit import ended

CARLA, ANN = Scope("acme", "carla"), Scope("acme", "ann")


class _HeldClaim(MemoryStore):
    """A store that answers a claim when the test says so, although it has made it."""

    def __init__(self) -> None:
        super().__init__()
        self.claimed, self.answer = asyncio.Event(), asyncio.Event()

    async def claim(self, *arguments: Any, **options: Any) -> Any:
        return await self._held(await super().claim(*arguments, **options))

    async def claim_due(self, *arguments: Any, **options: Any) -> Any:
        return await self._held(await super().claim_due(*arguments, **options))

    async def _held(self, claimed: Any) -> Any:
        self.claimed.set()
        await self.answer.wait()
        return claimed


class _HeldRelease(MemoryStore):
    """A store that answers the first release when the test says so, although it has made it."""

    def __init__(self) -> None:
        super().__init__()
        self.released, self.answer = asyncio.Event(), asyncio.Event()

    async def release(self, claim: Claim) -> None:
        await super().release(claim)
        if not self.released.is_set():
            self.released.set()
            await self.answer.wait()


@tool(effect="once")
async def refund() -> str:
    """Refund an order."""
    return "refunded"


class Clerk(AgentConfig[None]):
    name = "clerk"
    tools = (refund,)

    def authorize_tool_call(self, run: RunContext[None], call: ToolCall, arguments: dict[str, Any]) -> Ask:
        return Ask(who=("ann",))


async def _answered(store: MemoryStore) -> tuple[Resources, str]:
    """Return the resources and the id of a run that waits for nothing but a process."""
    resources = Resources(model=ScriptedModel(call("refund"), "Done."), store=store)
    runtime = Runtime([Clerk()], resources)
    run = await runtime.start(Chat("Refund it.", scope=CARLA), "clerk")
    (wait,) = (await run.result()).waiting
    await Runtime([], Resources(store=store)).approve(ANN, wait.key)
    return resources, run.id


async def _ends(resources: Resources, run_id: str) -> None:
    """Check that the run completes, unless it has already."""
    runtime = Runtime([Clerk()], resources)
    with suppress(RunEndedError):
        await (await runtime.resume(CARLA, run_id)).result()
    result = await runtime.result(CARLA, run_id)
    assert (result.status, result.text) == ("completed", "Done.")


async def test_leaving_while_the_watchdog_resumes_a_run(caplog: pytest.LogCaptureFixture) -> None:
    async with _HeldClaim() as store:
        resources, run_id = await _answered(store)
        async with Runtime([Clerk()], resources, sweep=0.01):
            await store.claimed.wait()
            asyncio.get_running_loop().call_soon(store.answer.set)
        await _ends(resources, run_id)
    assert [entry for entry in caplog.records if entry.levelno >= logging.WARNING] == []


async def test_a_caller_that_is_cancelled_while_it_resumes_a_run(caplog: pytest.LogCaptureFixture) -> None:
    async with _HeldClaim() as store:
        resources, run_id = await _answered(store)
        runtime = Runtime([Clerk()], resources)
        resuming = asyncio.create_task(runtime.resume(CARLA, run_id))
        await store.claimed.wait()
        resuming.cancel()
        await asyncio.wait([resuming])
        store.answer.set()
        result = await (await runtime.resume(CARLA, run_id)).result()
        assert (result.status, result.text) == ("completed", "Done.")
    assert [entry for entry in caplog.records if entry.levelno >= logging.WARNING] == []


async def test_an_answer_while_a_run_is_about_to_leave_its_process() -> None:
    """The run is claimed again only once it has left: no claim remains that nobody uses."""
    async with _HeldRelease() as store:
        resources = Resources(model=ScriptedModel(call("refund"), "Done."), store=store)
        async with Runtime([Clerk()], resources, sweep=1e6, lease=1e6) as runtime:
            run = await runtime.start(Chat("Refund it.", scope=CARLA), "clerk")
            await store.released.wait()
            (wait,) = await store.waits(CARLA)
            await runtime.approve(ANN, wait.key)
            left = run.done
            claims = await store.claim_due(OPERATOR, "another process", 60.0, limit=8)
            for claim in claims:
                await store.release(claim)
            store.answer.set()
            assert (left, len(claims)) == (False, 1)
            await ended(store, run.id)
            assert (await runtime.result(CARLA, run.id)).text == "Done."


async def test_leaving_before_the_watchdog_has_begun() -> None:
    """A block that fails at once does not wait for a watchdog that nobody stops any more."""
    resources, run_id = await _answered(MemoryStore())
    with pytest.raises(RuntimeError, match="at once"):
        async with Runtime([Clerk()], resources):
            raise RuntimeError("at once")
    await _ends(resources, run_id)


class _Waits(AgentConfig[None]):
    """An agent whose tool ends when the test says so."""

    name = "waits"

    def __init__(self) -> None:
        self.begun, self.free = asyncio.Event(), asyncio.Event()

        @tool(effect="read")
        async def wait() -> str:
            """Wait."""
            self.begun.set()
            await self.free.wait()
            return "waited"

        self.tools = (wait,)


async def test_a_run_that_ends_within_the_grace_period_is_not_parked() -> None:
    agent, store = _Waits(), MemoryStore()
    async with Runtime([agent], Resources(model=ScriptedModel(call("wait"), "Done."), store=store)) as runtime:
        run = await runtime.start(Chat("Wait."), agent)
        await agent.begun.wait()
        leaving = asyncio.create_task(runtime.close(grace=600))
        await asyncio.sleep(0)
        agent.free.set()
        await leaving
        assert (await run.result()).status == "completed"
    stored = await store.run(Scope(), run.id)
    assert stored is not None
    assert stored.state == "completed"


async def test_a_run_that_needs_longer_than_the_grace_period_is_parked() -> None:
    agent, store = _Waits(), MemoryStore()
    async with Runtime([agent], Resources(model=ScriptedModel(call("wait")), store=store)) as runtime:
        run = await runtime.start(Chat("Wait."), agent)
        await agent.begun.wait()
        await runtime.close(grace=0.001)
    stored = await store.run(Scope(), run.id)
    assert stored is not None
    assert (stored.state, stored.owner) == ("running", "")


@pytest.mark.parametrize("first", [False, True], ids=["resumed-meanwhile", "resumed-before"])
async def test_a_caller_that_resumes_what_the_watchdog_has_resumed_and_ended_gets_its_result(first: bool) -> None:
    class Slow(MemoryStore):
        """A store that reads a run when the test says so, after the run has ended."""

        held = False

        async def run(self, *arguments: Any, **options: Any) -> Any:
            found = await super().run(*arguments, **options)
            if self.held:
                self.held = False
                await result()
            return found

    store = Slow()
    runtime = Runtime([Clerk()], Resources(model=ScriptedModel(call("refund"), "Done."), store=store))
    run = await runtime.start(Chat("Refund it.", scope=CARLA), "clerk")
    (wait,) = (await run.result()).waiting

    async def resumed() -> LiveRun:
        return await runtime.resume(CARLA, run.id)

    async def result() -> None:
        await (before or await resumed()).result()

    await runtime.approve(ANN, wait.key)
    before = await resumed() if first else None
    store.held = True
    assert (await (await runtime.resume(CARLA, run.id)).result()).text == "Done."
    await runtime.close()


async def test_a_caller_gets_a_run_once_that_the_watchdog_has_resumed_and_ended_before() -> None:
    store = MemoryStore()
    async with Runtime([Clerk()], Resources(model=ScriptedModel(call("refund"), "Done."), store=store)) as runtime:
        run = await runtime.start(Chat("Refund it.", scope=CARLA), "clerk")
        (wait,) = (await run.result()).waiting
        await runtime.approve(ANN, wait.key)
        async for _ in runtime.events(CARLA, run.id):
            pass  # it ends
        assert (await (await runtime.resume(CARLA, run.id)).result()).text == "Done."
        with pytest.raises(RunEndedError):
            await runtime.resume(CARLA, run.id)


async def test_a_sub_agent_that_is_resumed_when_its_root_has_just_ended_gets_the_result_of_the_root() -> None:
    class Ending(MemoryStore):
        """A store in which the tree ends while the run of its sub-agent is read."""

        ending: LiveRun | None = None

        async def run(self, *arguments: Any, **options: Any) -> Any:
            found = await super().run(*arguments, **options)
            ending, self.ending = self.ending, None
            if ending is not None:
                below.free.set()
                await ending.result()
            return found

    class Lead(AgentConfig[None]):
        name = "lead"

    below, store = _Waits(), Ending()
    Lead.tools = (delegate(below, description="Waits."),)
    model = ScriptedModel(call("waits", query="Wait."), call("wait"), "Waited.", "Done.")
    runtime = Runtime([Lead()], Resources(model=model, store=store))
    run = await runtime.start(Chat("Wait."), "lead")
    await below.begun.wait()
    (child,) = [each.start.run_id for each in await store.runs(OPERATOR) if each.start.run_id != run.id]
    store.ending = run
    assert await runtime.resume(OPERATOR, child) is run
    assert (await run.result()).text == "Done."
    await runtime.close()
