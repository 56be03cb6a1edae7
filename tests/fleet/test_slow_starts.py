"""Work whose start is slow, or of which there is much: it delays no other work."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from concertino import (
    OPERATOR,
    AgentConfig,
    Chat,
    MemoryStore,
    Resources,
    Runtime,
    Scope,
)
from concertino.runtime import Fleet
from concertino.testing import Answer, ScriptedModel, call

from .test_fleet import Bell, Clerk, Desk, joined

NEVER = 3600.0
SLOW, QUICK = Scope("a slow one", "ann"), [Scope(f"quick{number}", "ann") for number in range(9)]


class Vault:
    """Gets the resources of a tenant. One tenant's never come."""

    def __init__(self, store: MemoryStore, *answers: Any) -> None:
        self.model, self.store = ScriptedModel(*(answers or ["hello"] * 20)), store
        self.slow, self.ended = asyncio.Event(), False

    async def __call__(self, scope: Scope, agent: AgentConfig[Any]) -> Resources:
        try:
            if scope.tenant == SLOW.tenant:
                self.slow.set()
                await asyncio.Event().wait()
        finally:
            self.ended = self.ended or scope.tenant == SLOW.tenant
        return Resources(store=self.store, model=self.model, models=lambda _: self.model)


def worker(vault: Vault, *, sweep: float = NEVER, coroutines: int = 16) -> Runtime:
    runtime = Runtime([Desk(), Clerk()], vault, store=vault.store, sweep=sweep, lease=NEVER)
    fleet = Fleet(bell=Bell(), targets={"desks": ["desk", "clerk"]}, takes=["desks"], coroutines=coroutines)
    return joined(runtime, fleet)


def web(store: MemoryStore, *answers: Any) -> Runtime:
    model = ScriptedModel(*answers)
    resources = Resources(store=store, model=model, models=lambda _: model)
    return Runtime([Desk(), Clerk()], resources, sweep=NEVER)


async def send(store: MemoryStore, *scopes: Scope) -> list[Any]:
    """Queue a message of each user."""
    runtime = joined(web(store), Fleet(bell=Bell(), targets={"desks": ["desk", "clerk"]}))
    return [await (await runtime.conversation(scope, agent="desk")).send("hello") for scope in scopes]


@pytest.mark.parametrize("order", [(SLOW, QUICK[0]), (SLOW,)], ids=["in one batch", "in one look after the other"])
async def test_slow_resources_of_one_tenant_delay_no_turn_of_another(order: tuple[Scope, ...]) -> None:
    vault = Vault(store := MemoryStore())
    async with worker(vault, sweep=0.01) as runtime:
        turns = await send(store, *order)
        await vault.slow.wait()
        turns += await send(store, *QUICK[1:])
        for turn in turns[1:]:
            assert [event async for _, event in turn.events()][-1].result.text == "hello"
        assert not vault.ended
        runtime._seat.starts._tasks[turns[0].id].cancel()


async def test_slow_resources_of_one_tenant_delay_no_run_of_another() -> None:
    store = MemoryStore()
    suspended = web(store, *[call("refund")] * 4)
    runs = [await suspended.start(Chat("Refund.", scope=scope), "clerk") for scope in (SLOW, *QUICK[:3])]
    for run in runs:
        (wait,) = (await run.result()).waiting
        await suspended.approve(OPERATOR, wait.key)
    vault = Vault(store)
    async with worker(vault, sweep=0.01) as runtime:
        for run, scope in zip(runs[1:], QUICK, strict=False):
            assert [event async for _, event in runtime.events(scope, run.id)][-1].result.text == "hello"  # type: ignore[union-attr]
        assert not vault.ended
        runtime._seat.starts._tasks[runs[0].id].cancel()


async def test_slow_resources_of_a_doubtful_tree_delay_no_run_of_another() -> None:
    store = MemoryStore()
    suspended = web(store, *[call("refund")] * 2)
    slow, quick = [await suspended.start(Chat("Refund.", scope=scope), "clerk") for scope in (SLOW, QUICK[0])]
    for run in (slow, quick):
        (wait,) = (await run.result()).waiting
        await suspended.approve(OPERATOR, wait.key)
        if run is slow:
            for owner in ("a process that was killed", "the next one"):
                await store.claim(SLOW, run.id, owner, 0.0)
            await store.postpone(SLOW, run.id, reason="its process ended", seconds=0.0)
    vault = Vault(store)
    async with worker(vault, sweep=0.01) as runtime:
        assert [event async for _, event in runtime.events(QUICK[0], quick.id)][-1].result.text == "hello"  # type: ignore[union-attr]
        await vault.slow.wait()
        await runtime.look()
        assert not vault.ended
        runtime._seat.starts._tasks[slow.id].cancel()


async def test_a_doubtful_tree_that_another_process_claims_first_is_left_to_it() -> None:
    class Contended(MemoryStore):
        async def claim(self, scope: Any, run_id: str, owner: str, seconds: float) -> Any:
            await super().claim(scope, run_id, "another process", 30.0)
            return await super().claim(scope, run_id, owner, seconds)

    vault = Vault(store := Contended())
    run = await web(store, call("refund")).start(Chat("Refund.", scope=QUICK[0]), "clerk")
    (wait,) = (await run.result()).waiting
    await web(store).approve(OPERATOR, wait.key)
    for owner in ("a process that was killed", "the next one"):
        await MemoryStore.claim(store, QUICK[0], run.id, owner, 0.0)
    await store.postpone(QUICK[0], run.id, reason="its process ended", seconds=0.0)
    async with worker(vault) as runtime:
        await runtime.look()
        await runtime._seat.starts.close()
    assert (await store.run(OPERATOR, run.id)).owner == "another process"  # type: ignore[union-attr]


async def test_a_tree_that_is_claimed_while_its_failed_start_sets_it_aside_is_not_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("concertino.runtime.starts.PATIENCE", 0.0)
    failed, goes_on = asyncio.Event(), asyncio.Event()

    class Watched(MemoryStore):
        async def postpone(self, *arguments: Any, **options: Any) -> None:
            failed.set()
            await goes_on.wait()
            await super().postpone(*arguments, **options)

    async def fail(_scope: Scope, _agent: AgentConfig[Any]) -> Resources:
        raise OSError

    store = Watched()
    suspended = web(store, call("refund"))
    run = await suspended.start(Chat("Refund.", scope=SLOW), "clerk")
    (wait,) = (await run.result()).waiting
    await suspended.approve(OPERATOR, wait.key)
    runtime = Runtime([Desk(), Clerk()], fail, store=store, sweep=NEVER)
    await runtime.look()
    await failed.wait()
    await runtime.look()
    goes_on.set()
    await runtime._seat.starts.close()
    stored = await store.run(OPERATOR, run.id)
    assert stored is not None
    assert "failed for agent" in stored.reason
    assert await store.claim(SLOW, run.id, "another process", 30.0)


async def test_a_slow_start_counts_as_a_run() -> None:
    vault = Vault(store := MemoryStore())
    async with worker(vault, coroutines=1) as runtime:
        slow, quick = await send(store, SLOW, QUICK[0])
        await runtime.look()
        assert (await quick.read()).state == "queued"
        runtime._seat.starts._tasks[slow.id].cancel()
        await runtime._seat.starts.close()
        await runtime.look()
        assert [event async for _, event in quick.events()][-1].result.text == "hello"


async def test_the_slow_starts_of_a_tenant_leave_slots_to_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("concertino.runtime.starts.PATIENCE", 0.0)
    vault = Vault(store := MemoryStore())
    async with worker(vault, coroutines=4) as runtime:
        await send(store, *[SLOW] * 4)
        await runtime.look()
        (quick,) = await send(store, QUICK[0])
        assert [event async for _, event in quick.events()][-1].result.text == "hello"
        assert len(runtime._seat.starts) == 1, "one of the tenant's starts goes on"
        for task in [*runtime._seat.starts._tasks.values()]:
            task.cancel()


async def test_a_function_that_never_returns_fails_before_the_lease_ends() -> None:
    store = MemoryStore()
    run = await web(store, call("refund")).start(Chat("Refund.", scope=SLOW), "clerk")
    (wait,) = (await run.result()).waiting
    await web(store).approve(OPERATOR, wait.key)
    runtime = Runtime([Desk(), Clerk()], Vault(store), store=store, sweep=NEVER, lease=0.2)
    await runtime.look()
    await runtime._seat.starts.close()
    stored = await store.run(OPERATOR, run.id)
    assert stored is not None
    assert stored.reason == "Runtime(resources=...) did not return within 0.1 s, for agent 'clerk'"
    assert (stored.owner, stored.tries) == ("", 0)


async def test_a_refused_turn_with_slow_resources_is_followed_by_the_next_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("concertino.runtime.starts.PATIENCE", 0.0)
    asked, goes_on, model = asyncio.Event(), asyncio.Event(), ScriptedModel("hello")

    async def resources(scope: Scope, agent: AgentConfig[Any]) -> Resources:
        if asked.is_set():
            return Resources(model=model)
        asked.set()
        await goes_on.wait()
        return Resources()

    store = MemoryStore()
    recording = joined(web(store), Fleet(bell=Bell(), targets={"desks": ["desk", "clerk"]}))
    conversation = await recording.conversation(QUICK[0], agent="desk")
    turns = [await conversation.send("hello") for _ in range(2)]
    fleet = Fleet(bell=Bell(), targets={"desks": ["desk", "clerk"]}, takes=["desks"])
    async with joined(Runtime([Desk(), Clerk()], resources, store=store, sweep=NEVER), fleet):
        await asked.wait()
        goes_on.set()
        assert [event async for _, event in turns[1].events()][-1].result.text == "hello"
    assert (await turns[0].read()).state == "failed"


async def test_a_single_consumer_keeps_its_target_while_a_slow_start_delays_its_end() -> None:
    renewed = asyncio.Event()

    class Watched(MemoryStore):
        async def claim_target(self, *arguments: Any) -> str:
            renewed.set()
            return await super().claim_target(*arguments)

    vault = Vault(store := Watched())
    fleet = Fleet(bell=Bell(), targets={"svc1_desks_test": ["desk", "clerk"]}, takes=["svc1_desks_test"])
    runtime = joined(Runtime([Desk(), Clerk()], vault, store=store, sweep=NEVER, lease=3.0), fleet)
    runtime._seat.starts._longest = NEVER
    async with runtime:
        (slow,) = await send(store, SLOW)
        looking = asyncio.create_task(runtime.look())
        await vault.slow.wait()
        await looking
        renewed.clear()
        closing = asyncio.create_task(runtime.close())
        await renewed.wait()
        assert not closing.done()
        runtime._seat.starts._tasks[slow.id].cancel()
        await closing


async def test_slow_resources_of_one_tenant_delay_no_schedule_of_another() -> None:
    vault = Vault(store := MemoryStore())
    async with worker(vault, sweep=0.01) as runtime:
        at = datetime.now(UTC) + timedelta(seconds=0.05)
        for scope in (SLOW, QUICK[0]):
            await web(store).schedules.create(scope, "desk", "hello", at)
        while not await store.runs(QUICK[0]):  # noqa: ASYNC110 - the worker starts it
            await asyncio.sleep(0.01)
        assert not vault.ended
        for task in [*runtime._seat.starts._tasks.values()]:
            task.cancel()


async def test_schedules_that_are_due_at_once_occupy_no_more_than_the_slots_of_a_worker() -> None:
    started, goes_on = asyncio.Event(), asyncio.Event()

    async def hold() -> None:
        started.set()
        await goes_on.wait()

    store, model = MemoryStore(), ScriptedModel(*[Answer(text="hello", midway=hold) for _ in range(9)])
    resources = Resources(store=store, model=model, models=lambda _: model)
    fleet = Fleet(bell=Bell(), targets={"desks": ["desk", "clerk"]}, takes=["desks"], coroutines=2)
    for scope in QUICK:
        await web(store).schedules.create(scope, "desk", "hello", datetime(2026, 1, 1, tzinfo=UTC))
    async with joined(Runtime([Desk(), Clerk()], resources, sweep=NEVER), fleet) as runtime:
        await started.wait()
        await runtime.look()
        assert runtime._busy() == 2
        goes_on.set()
        while len(await store.runs(OPERATOR, state="completed")) < len(QUICK):  # noqa: ASYNC110 - the worker ends them
            await asyncio.sleep(0.01)


async def test_a_stop_is_seen_while_the_watchdog_is_at_work() -> None:
    begun, busy, goes_on = asyncio.Event(), asyncio.Event(), asyncio.Event()

    class Slow(MemoryStore):
        async def claim_turns(self, *arguments: Any, **options: Any) -> Any:
            if begun.is_set():
                busy.set()
                await goes_on.wait()
            return await super().claim_turns(*arguments, **options)

    async def hold() -> None:
        begun.set()
        await asyncio.Event().wait()

    store, model = Slow(), ScriptedModel(Answer(text="hello", midway=hold))
    resources = Resources(store=store, model=model, models=lambda _: model)
    async with Runtime([Desk()], resources, sweep=0.01, lease=NEVER) as runtime:
        run = await runtime.start(Chat("hello"), "desk")
        await busy.wait()
        await store.send(OPERATOR, run.id, "stop")
        assert (await run.result()).status == "cancelled"
        goes_on.set()


async def test_a_run_that_waits_is_stopped_during_a_backlog_that_does_not_end() -> None:
    class Busy(MemoryStore):
        wanted = ""
        sent = 0

        async def claim_turns(self, *arguments: Any, **options: Any) -> Any:
            if self.wanted and (await self.run(OPERATOR, self.wanted)).end is None:  # type: ignore[union-attr]
                self.sent += 1
                await send(self, Scope(f"tenant{self.sent}", "ann"))
            return await super().claim_turns(*arguments, **options)

    store = Busy()
    run = await web(store, call("refund")).start(Chat("Refund.", scope=SLOW), "clerk")
    await run.result()
    model = ScriptedModel(*["hello"] * 10_000)
    runtime = Runtime([Desk(), Clerk()], Resources(store=store, model=model, models=lambda _: model), sweep=0.01)
    async with joined(runtime, Fleet(bell=Bell(), targets={"desks": ["desk", "clerk"]}, takes=["desks"])):
        await runtime.look()
        store.wanted = run.id
        while not store.sent:  # noqa: ASYNC110 - the look that sees no end has begun
            await asyncio.sleep(0)
        await store.send(OPERATOR, run.id, "stop")
        while (await store.run(OPERATOR, run.id)).end is None:  # type: ignore[union-attr]  # noqa: ASYNC110 - the look ends it
            await asyncio.sleep(0)
    assert (await store.run(OPERATOR, run.id)).end.status == "cancelled"  # type: ignore[union-attr]


class Slowly(MemoryStore):
    """Returns what it has claimed, or loads it, only when the test lets it."""

    def __init__(self, at: str = "claim") -> None:
        super().__init__()
        self.at, self.claimed, self.goes_on = at, asyncio.Event(), asyncio.Event()

    async def claim_due(self, *arguments: Any, **options: Any) -> Any:
        claims = await super().claim_due(*arguments, **options)
        if claims and self.at == "claim":
            self.claimed.set()
            await self.goes_on.wait()
        return claims

    async def load(self, *arguments: Any, **options: Any) -> Any:
        if self.at == "load":
            self.claimed.set()
            await self.goes_on.wait()
        return await super().load(*arguments, **options)


async def approve_and_cancel(runtime: Runtime, store: Slowly) -> str:
    """Cancel an approval while this process claims the run, and return its id."""
    run = await runtime.start(Chat("Refund.", scope=SLOW), "clerk")
    (wait,) = (await run.result()).waiting
    approving = asyncio.create_task(runtime.approve(SLOW, wait.key))
    await store.claimed.wait()
    approving.cancel()
    await asyncio.wait([approving])
    assert approving.cancelled()
    return run.id


@pytest.mark.parametrize("at", ["claim", "load"])
async def test_a_cancelled_approval_starts_what_it_has_claimed(at: str) -> None:
    fleet = Fleet(bell=Bell(), targets={"desks": ["desk", "clerk"]}, takes=["desks"])
    async with joined(web(store := Slowly(at), call("refund"), "Refunded."), fleet) as runtime:
        run_id = await approve_and_cancel(runtime, store)
        store.goes_on.set()
        assert [event async for _, event in runtime.events(SLOW, run_id)][-1].result.text == "Refunded."  # type: ignore[union-attr]


async def test_the_end_of_a_process_leaves_to_others_what_a_cancelled_approval_has_claimed() -> None:
    fleet = Fleet(bell=Bell(), targets={"desks": ["desk", "clerk"]}, takes=["desks"])
    async with joined(web(store := Slowly(), call("refund")), fleet) as runtime:
        run_id = await approve_and_cancel(runtime, store)
        closing = asyncio.create_task(runtime.close())
        await asyncio.sleep(0)
        store.goes_on.set()
        await closing
    assert (await store.run(OPERATOR, run_id)).owner == ""  # type: ignore[union-attr]


@pytest.mark.parametrize(("lease", "seconds"), [(30.0, 5.0), (3.0, 3.0)])
async def test_a_claim_of_a_turn_outlives_a_killed_process_by_a_lease_at_most(lease: float, seconds: float) -> None:
    claimed: list[float] = []

    class Watched(MemoryStore):
        async def claim_turns(self, scope: Any, seconds: float, **options: Any) -> Any:
            claimed.append(seconds)
            return await super().claim_turns(scope, seconds, **options)

    store = Watched()
    await Runtime([Desk()], Resources(store=store, model=ScriptedModel()), lease=lease).look()
    assert claimed == [seconds]
