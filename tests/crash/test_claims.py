"""Who may go on with a run: one process at a time, and the one that has lost it writes nothing more."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from concertino import OPERATOR, MemoryStore, Resources, ToolOrchestrator, tool
from concertino.errors import RunClaimedError, RunError, StaleClaimError
from concertino.runtime import Runtime
from concertino.testing import Answer, ScriptedModel, call

from .kit import Desk, asked_of, chat, ended, results, steal, two
from .reference import Evidence, audit
from .world import ROOT, World, kill_self


@tool(effect="read")
async def look(place: int) -> str:
    """Look."""
    return f"seen {place}"


@pytest.mark.parametrize("at", ["append:started:after", "append:model_requested:after", "append:model_answered:after"])
def test_of_two_that_resume_a_run_one_wins(world: World, reference: Evidence, at: str) -> None:
    case = world.case("raced")
    assert case.life(**kill_self(at)).end() is None
    racers = [case.life("resume", runs=[(ROOT, "boss")], waits_to_go=True) for _ in range(2)]
    for racer in racers:
        racer.write({})
    said = [racer.end() for racer in racers]
    errors = sorted(each.get("error", "") for each in said if each is not None)
    # Who comes when the other has already suspended it finds it free.
    assert errors in (["", "RunClaimedError"], ["", ""]), said
    case.finish()
    assert audit(case, reference, faults=1) == []


async def test_a_run_that_goes_on_elsewhere_is_not_taken(tmp_path: Path) -> None:
    gate = asyncio.Event()
    model = ScriptedModel(Answer(text="done", before=gate.wait))
    async with two(tmp_path, [Desk()], model) as (one, other):
        run = await one.start(chat(model), "desk", run_id="run_1")
        with pytest.raises(RunClaimedError):
            await other.resume(OPERATOR, "run_1")
        await other.look()
        assert other.live(OPERATOR, "run_1") is None
        assert await one.resume(OPERATOR, "run_1") is run, "who has it already gets it again"
        gate.set()
        assert (await run.result()).text == "done"


async def test_a_lease_that_is_renewed_is_not_over(tmp_path: Path) -> None:
    gate = asyncio.Event()
    model = ScriptedModel(Answer(text="done", before=gate.wait))
    async with two(tmp_path, [Desk()], model, lease=9.0) as (one, other):  # renewed after three seconds
        run = await one.start(chat(model), "desk", run_id="run_1")

        async def ends() -> float:
            stored = await one.store.run(OPERATOR, "run_1")
            assert stored is not None
            assert stored.ready_at is not None
            return stored.ready_at

        first = await ends()
        while await ends() == first:  # noqa: ASYNC110 - a store does not announce its changes
            await asyncio.sleep(0.02)
        assert await ends() > first
        await other.look()
        assert other.live(OPERATOR, "run_1") is None
        gate.set()
        assert (await run.result()).text == "done"
        assert len(model.requests) == 1


async def test_who_has_lost_a_run_tells_how_it_ended_elsewhere(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    gate = asyncio.Event()
    model = ScriptedModel(Answer(text="lost", midway=gate.wait), "the answer")
    async with two(tmp_path, [Desk()], model) as (one, other):
        lost = await one.start(chat(model), "desk", run_id="run_1")
        await asked_of(model)
        await steal(one.store, "run_1")
        assert (await (await other.resume(OPERATOR, "run_1")).result()).text == "the answer"
        gate.set()
        result = await lost.result()
        assert result.status == "failed"
        assert "StaleClaimError" in (result.error or ""), "not as if the run had failed, or ended"
        assert caplog.text.count("run run_1 stops here, because another process has claimed it") == 1
        told = await one.result(OPERATOR, "run_1")
        assert (told.status, told.text) == ("completed", "the answer"), "this asks how the run ended"


@pytest.mark.parametrize("ends", [True, False])
async def test_who_has_lost_a_run_runs_no_tool(tmp_path: Path, ends: bool) -> None:
    ran: list[int] = []
    gate, second = asyncio.Event(), asyncio.Event()

    @tool(effect="once")
    async def pay(amount: int) -> str:
        """Pay."""
        ran.append(amount)
        return "paid"

    if ends:
        second.set()
    model = ScriptedModel(
        Answer(calls=(call("pay", amount=1),), midway=gate.wait), Answer(text="no need", midway=second.wait)
    )
    async with two(tmp_path, [Desk(pay)], model) as (one, other):
        lost = await one.start(chat(model), "desk", run_id="run_1")
        await asked_of(model)
        await steal(one.store, "run_1")
        run = await other.resume(OPERATOR, "run_1")
        if ends:
            await run.result()
        gate.set()
        result = await lost.result()
        second.set()
        assert (await run.result()).text == "no need"
        assert ran == []
        assert "StaleClaimError" in (result.error or "")
        assert await results(one.store, "run_1") == []


async def test_a_direct_caller_whose_run_is_lost_is_told_so(tmp_path: Path) -> None:
    """`await orchestrator.run()` raises `RunError`; it does not look as if the caller had been cancelled."""
    gate, second = asyncio.Event(), asyncio.Event()
    model = ScriptedModel(Answer(text="lost", midway=gate.wait), Answer(text="the answer", midway=second.wait))
    async with two(tmp_path, [Desk()], model) as (one, other):
        resources = Resources(store=one.store)
        orchestrator = ToolOrchestrator(chat(model), Desk(), resources=resources, run_id="run_1")
        seen: list[str] = []

        async def caller() -> None:
            try:
                await orchestrator.run()
            except RunError as error:
                seen.append(type(error.__cause__).__name__)
            except asyncio.CancelledError:
                seen.append("CancelledError")
            assert asyncio.current_task().cancelling() == 0  # type: ignore[union-attr]

        task = asyncio.create_task(caller())
        await asked_of(model)
        await steal(one.store, "run_1")
        run = await other.resume(OPERATOR, "run_1")
        gate.set()
        await asyncio.wait([task])
        second.set()
        await run.result()
        assert seen == [StaleClaimError.__name__]
        await task


async def test_a_start_that_is_tried_again_begins_no_second_run() -> None:
    async with MemoryStore() as store:
        model = ScriptedModel("done")
        runtime = Runtime((), Resources(store=store, models=lambda _: model))
        starts = [runtime.start(chat(model), Desk(), run_id="run_1") for _ in range(5)]
        made = await asyncio.gather(*starts, return_exceptions=True)
        assert [type(each).__name__ for each in made].count("LiveRun") == 1
        assert (await ended(store, "run_1")).answer == "done"
        assert len(model.requests) == 1
