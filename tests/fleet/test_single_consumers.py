"""Targets with exactly one consumer."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from concertino import OPERATOR, AgentConfig, MemoryStore, Resources, Runtime, Scope, tool
from concertino.errors import ConfigurationError
from concertino.runtime import Fleet
from concertino.testing import Answer, ScriptedModel
from concertino.testing.store_suite.kit import start_tree, wait
from concertino.testing.store_suite.store_conversations import queued

from .test_fleet import NEVER, Bell, joined

CARLA = Scope(user="carla")
TARGET = "svc1_ground_control"


class Control(AgentConfig[None]):
    name = "control"


def consumer(store: MemoryStore, *answers: Answer, **settings: Any) -> Runtime:
    model = ScriptedModel(*(answers or ["hello"] * 9))
    runtime = Runtime([Control()], Resources(store=store, model=model, models=lambda _: model), **settings)
    return joined(runtime, Fleet(bell=Bell(), targets={TARGET: ["control"]}, takes=[TARGET]))


async def answer(runtime: Runtime) -> str:
    turn = await (await runtime.conversation(CARLA, agent="control")).send("hello")
    return [event async for _, event in turn.events()][-1].result.text  # type: ignore[union-attr]


async def test_a_second_consumer_is_refused_while_the_first_one_is_there() -> None:
    store = MemoryStore()
    async with consumer(store, sweep=0.01) as first:
        with pytest.raises(
            ConfigurationError, match=f"target '{TARGET}' has a consumer, 'process/.*': stop that process"
        ):
            await consumer(store).__aenter__()
        assert await answer(first) == "hello"
    async with consumer(store, sweep=0.01) as second:  # the first one has left
        assert await answer(second) == "hello"


async def test_a_dead_consumer_is_replaced_when_its_lease_ends() -> None:
    store = MemoryStore()
    await store.claim_target(OPERATOR, TARGET, "another machine", 0.0)
    async with consumer(store, sweep=0.01) as runtime:
        assert await answer(runtime) == "hello"


async def test_the_lease_is_renewed() -> None:
    store = MemoryStore()

    async def lease() -> float:
        found = await store._connection.run(lambda each: each.execute("SELECT lease FROM consumers").fetchone())
        return float(found[0])

    async with consumer(store, sweep=0.01, lease=0.3) as runtime:
        first = await lease()
        while await lease() == first:  # noqa: ASYNC110 - the watchdog renews it
            await asyncio.sleep(0.01)
        assert await answer(runtime) == "hello"


async def test_the_lease_is_renewed_while_runs_have_time_to_end() -> None:
    renewed, begun, goes_on = asyncio.Event(), asyncio.Event(), asyncio.Event()

    class Watched(MemoryStore):
        async def claim_target(self, *arguments: Any) -> str:
            if begun.is_set():
                renewed.set()
            return await super().claim_target(*arguments)

    async def hold() -> None:
        await goes_on.wait()

    runtime = consumer(Watched(), Answer(text="hello", midway=hold), sweep=3600.0, lease=1.0)
    async with runtime:
        await (await runtime.conversation(CARLA, agent="control")).send("hello")
        begun.set()
        closing = asyncio.create_task(runtime.close(grace=600.0))
        await asyncio.wait_for(renewed.wait(), 60.0)
        goes_on.set()
        await closing
    assert await runtime.store.claim_target(OPERATOR, TARGET, "other", 60.0) == "other", "it has left"


async def test_the_lease_is_renewed_between_the_batches_of_a_backlog() -> None:
    """One look at a long backlog may last longer than the lease."""
    happened: list[str] = []
    lease, goes_on = 600.0, asyncio.Event()

    class Watched(MemoryStore):
        async def claim_turns(self, *arguments: Any, **options: Any) -> Any:
            found = await super().claim_turns(*arguments, **options)
            happened.append(f"took {len(found)}")
            runtime._seat._held[TARGET] -= lease  # as much time has passed
            return found

        async def claim_target(self, *arguments: Any) -> str:
            happened.append("renewed")
            return await super().claim_target(*arguments)

    async def hold() -> None:
        await goes_on.wait()

    answers = [Answer(text="hello", midway=hold)] * 12
    runtime = consumer(Watched(), *answers, sweep=3600.0, lease=lease)
    model = ScriptedModel()
    web = Runtime([Control()], Resources(store=runtime.store, model=model, models=lambda _: model))
    async with runtime, joined(web, Fleet(bell=Bell(), targets={TARGET: ["control"]})):
        await runtime.look()
        for _ in range(12):
            await (await web.conversation(CARLA, agent="control")).send("hello")
        happened.clear()
        await runtime.look()
        goes_on.set()
    first, second = [number for number, each in enumerate(happened) if each in ("took 8", "took 4")]
    assert happened[first] == "took 8"
    assert "renewed" in happened[first:second]


@pytest.mark.parametrize("claim", ["claim_turns", "claim_due", "claim_calls"])
async def test_a_consumer_that_is_frozen_between_its_look_at_the_lease_and_its_claim_takes_nothing(claim: str) -> None:
    found: list[Any] = []

    class Freezing(MemoryStore):
        frozen = False

        async def claim_turns(self, *arguments: Any, **options: Any) -> Any:
            return await self._thaw("claim_turns", super().claim_turns, arguments, options)

        async def claim_due(self, *arguments: Any, **options: Any) -> Any:
            return await self._thaw("claim_due", super().claim_due, arguments, options)

        async def claim_calls(self, *arguments: Any, **options: Any) -> Any:
            return await self._thaw("claim_calls", super().claim_calls, arguments, options)

        async def _thaw(self, name: str, go_on: Any, arguments: Any, options: Any) -> Any:
            """Go on after a freeze that was longer than the lease."""
            if self.frozen and name == claim:
                await self._connection.run(lambda each: each.execute("UPDATE consumers SET lease = 0"))
                assert await self.claim_target(OPERATOR, TARGET, "other", 600.0) == "other"
                found.append(await go_on(*arguments, **options))
                return found[-1]
            return await go_on(*arguments, **options)

    store = Freezing()
    async with consumer(store, sweep=3600.0, lease=600.0) as runtime:
        await runtime.look()
        if claim == "claim_due":
            await (await start_tree(store, "r2", agent="control")).append("suspended")
            await store._connection.run(lambda each: each.execute("UPDATE heads SET ready_at = 0, owner = ''"))
        elif claim == "claim_calls":
            await (await start_tree(store)).append("suspended", waits=[wait(kind="result", target=TARGET, task="{}")])
        else:
            await store.open_conversation(CARLA, "c1", "control")
            await store.queue_turn(CARLA, "c1", queued("q1"), when="always")
        store.frozen = True
        await runtime.look()
    assert found
    assert not any(found)


async def test_a_consumer_that_lost_its_target_takes_nothing() -> None:
    """As after a freeze of the process that was longer than the lease."""
    store = MemoryStore()
    async with consumer(store, sweep=3600.0, lease=0.05) as runtime:
        while await store.claim_target(OPERATOR, TARGET, "other", 60.0) != "other":  # noqa: ASYNC110 - a lease ends
            await asyncio.sleep(0.01)
        turn = await (await runtime.conversation(CARLA, agent="control")).send("hello")
        await runtime.look()
        assert (await turn.read()).state == "queued"
        await store.leave_target(OPERATOR, TARGET, "other")
        while (await turn.read()).state == "queued":  # the short lease may end before the look is over
            await runtime.look()
        assert [event async for _, event in turn.events()][-1].result.text == "hello"  # type: ignore[union-attr]


@tool(effect="idempotent", target=TARGET)
async def dig() -> str:
    """Dig."""
    return "a stone"


@pytest.mark.parametrize("targets", [None, {"others": ["control"]}], ids=["outside", "with another configuration"])
async def test_a_process_that_does_not_know_the_target_takes_none_of_its_work(targets: dict[str, list[str]]) -> None:
    store, model = MemoryStore(), ScriptedModel(*["hello"] * 9)
    other = Runtime([Control(), dig], Resources(store=store, model=model, models=lambda _: model), sweep=NEVER)
    if targets is not None:
        other.join(Fleet(bell=Bell(), targets={**targets, TARGET: []}, takes=["others"]))
    holder = consumer(store)._seat  # without a watchdog, which would take the work
    await holder.claim_targets()
    async with other:
        trees = {name: await start_tree(store, name, agent=name) for name in ("control", f"tool:{TARGET}:dig")}
        for tree in trees.values():
            await store.release(tree.claim)
        await start_tree(store, "tried", agent="control", seconds=0.0)
        await store.claim(OPERATOR, "tried", "dead", 0.0)
        await (await start_tree(store)).append("suspended", waits=[wait(kind="result", target=TARGET, task="{}")])
        await store.open_conversation(CARLA, "c1", "control")
        await store.queue_turn(CARLA, "c1", queued("q1"), when="always")
        await other.look()
        touched = {run.start.run_id: (run.epoch, run.reason) for run in await store.runs(OPERATOR)}
        assert touched == {**dict.fromkeys(trees, (1, "")), "tried": (2, ""), "r1": (1, "")}
        assert (await store.turn(CARLA, "c1", "q1")).state == "queued"
        me = holder.consumer()
        assert len(await store.claim_due(OPERATOR, "me", 60.0, consumer=me)) == len(trees)
        assert len(await store.claim_turns(OPERATOR, 60.0, consumer=me)) == 1
        assert len(await store.claim_calls(OPERATOR, 60.0, consumer=me)) == 1
