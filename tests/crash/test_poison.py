"""A run that kills its process each time becomes a dead letter and harms no other run."""

from __future__ import annotations

import asyncio

import pytest

from concertino import OPERATOR, AnyScope, Chat, MemoryStore, Resources, SqliteStore
from concertino.errors import RunStateError
from concertino.runtime import Runtime
from concertino.testing import Answer, Points, ScriptedModel
from tests.auditor import violations

from .cast import Agent, agents
from .kit import ended
from .program import ROOT
from .reference import Evidence, audit, gather
from .world import Case, World, kill_self

LIVES = 12


def lives_until_the_end(case: Case, runs: list[tuple[str, str]]) -> int:
    """Start lives until one is not killed; how many were."""
    for killed in range(LIVES):
        if case.life(runs=runs).end() is not None:
            return killed
    raise AssertionError(f"{LIVES} lives, and it is not given up")


@pytest.mark.parametrize("agent", ["poisoned", "choked"])
def test_a_run_that_kills_its_process_becomes_a_dead_letter(world: World, reference: Evidence, agent: str) -> None:
    """In a tool, which reads and so runs again, and when its model has answered."""
    case = world.case(agent)
    killed = lives_until_the_end(case, [("run_poison", agent)])
    assert killed == 6, "the start and five resumptions"
    evidence = gather(case, "run_poison")
    poisoned = evidence.runs["run_poison"]
    assert (poisoned.end, poisoned.state) == (None, "dead_letter")
    assert poisoned.reason == "its process ended 5 times without progress"
    assert "run_poison" not in evidence.due
    assert len(evidence.calls) <= 6


def test_a_dead_letter_can_be_retried_and_stopped(world: World) -> None:
    case = world.case("retried")
    lives_until_the_end(case, [("run_poison", "poisoned")])

    async def retry() -> None:
        async with await SqliteStore.open(case.database) as store:
            runtime = Runtime((), Resources(store=store))
            await runtime.retry(OPERATOR, "run_poison")
            assert (await store.due(OPERATOR)).orphaned == ("run_poison",)
            with pytest.raises(RunStateError):
                await runtime.retry(OPERATOR, "run_poison")
            await runtime.stop(OPERATOR, "run_poison")
            stored = await store.run(OPERATOR, "run_poison")
            assert stored is not None
            assert stored.state == "cancelled"

    asyncio.run(retry())


@pytest.mark.parametrize("agent", ["poisoned", "choked"])
def test_another_run_completes_next_to_a_poison_run(world: World, reference: Evidence, agent: str) -> None:
    case = world.case(agent)
    killed = lives_until_the_end(case, [(ROOT, "boss"), ("run_poison", agent)])
    calls = case.calls()
    problems = audit(case, reference, faults=killed)
    # The ledger has the last attempt of a dead letter when that is stopped.
    poison = ("run_poison", "poisoned", "choked", "answers were lost")
    assert [problem for problem in problems if not any(name in problem for name in poison)] == []
    assert gather(case, "run_poison").runs["run_poison"].state == "dead_letter"
    assert len(calls) < 60


async def test_early_kills_do_not_fail_a_healthy_run(world: World) -> None:
    """Three kills before the first answer, such as by a neighbour that exhausts the memory: the run completes."""
    case, runs = world.case("early"), [("run_a", "waiter")]
    for at in ("append:model_requested:after", "append:resumed:after", "append:model_requested:after"):
        assert await asyncio.to_thread(case.life(runs=runs, **kill_self(at)).end) is None
    done = await asyncio.to_thread(case.life("until_waits", runs=runs).end)
    assert done is not None


class Postponing(MemoryStore):
    """Records for how long a run is postponed, and makes it due at once."""

    def __init__(self) -> None:
        super().__init__()
        self.seconds: list[float | None] = []

    async def postpone(self, scope: AnyScope, root_id: str, *, reason: str, seconds: float | None) -> None:
        self.seconds.append(seconds)
        await super().postpone(scope, root_id, reason=reason, seconds=seconds and 0.0)


async def test_a_run_without_progress_is_tried_at_growing_intervals() -> None:
    known, store = Agent("here", ()), Postponing()
    await left_behind(store, [known])
    await store.claim(OPERATOR, "run_0", "a process that dies", 0.0)
    runtime = Runtime([known], Resources(store=store, models=lambda _: ScriptedModel()), back_off=3.0, tries=4)
    for _ in range(4):
        await store.claim(OPERATOR, "run_0", "a process that dies", 0.0)
        await runtime.look()
    assert store.seconds == [3.0, 6.0, 12.0, None]
    assert runtime.live(OPERATOR, "run_0") is None
    stored = await store.run(OPERATOR, "run_0")
    assert stored is not None
    assert stored.state == "dead_letter"


async def test_a_postponed_run_is_not_resumed_before_its_time() -> None:
    known = Agent("here", ())
    async with MemoryStore() as store:
        await left_behind(store, [known])
        for _ in range(2):
            await store.claim(OPERATOR, "run_0", "a process that dies", 0.0)
        resources = Resources(store=store, models=lambda _: ScriptedModel("done"))
        patient, hasty = (Runtime([known], resources, back_off=seconds) for seconds in (3600.0, 0.0))
        for _ in range(3):
            await patient.look()
            assert patient.live(OPERATOR, "run_0") is None
        await store.claim(OPERATOR, "run_0", "a process that dies", 0.0)
        while (live := hasty.live(OPERATOR, "run_0")) is None:
            await hasty.look()
        assert (await live.result()).text == "done"


async def test_suspects_are_resumed_one_at_a_time() -> None:
    """The process ended twice before either run progressed, and it is unknown which one is the cause."""
    known, answer_now = Agent("here", ()), asyncio.Event()
    model = ScriptedModel(*[Answer(text="done", before=answer_now.wait)] * 2)
    async with MemoryStore() as store:
        await left_behind(store, [known, known])
        for run_id in ("run_0", "run_1"):
            for _ in range(2):
                await store.claim(OPERATOR, run_id, "another process", 0.0)
        runtime = Runtime([known], Resources(store=store, models=lambda _: model), back_off=0.0)
        for _ in range(6):
            await runtime.look()
            assert runtime.live(OPERATOR, "run_0") is None or runtime.live(OPERATOR, "run_1") is None
        answer_now.set()
        while not all(run.end is not None for run in await store.runs(OPERATOR)):
            await runtime.look()
            for live in filter(None, [runtime.live(OPERATOR, name) for name in ("run_0", "run_1")]):
                assert (await live.result()).text == "done"


async def test_what_is_damaged_keeps_nobody_else(world: World, reference: Evidence) -> None:
    """One run's journal cannot be read; the run behind it is taken up all the same."""
    case = world.case("damaged")
    for run_id in ("run_a", "run_b"):
        runs = [(run_id, "waiter")]
        assert await asyncio.to_thread(case.life(runs=runs, **kill_self("append:model_answered:before")).end) is None
    import sqlite3

    with sqlite3.connect(case.database) as connection:
        connection.execute("UPDATE journal SET body = '{' WHERE run = 1")
    connection.close()
    async with await SqliteStore.open(case.database) as store:
        known = agents(Points(lambda name, number: None))
        model = remote("done")
        runtime = Runtime(known, Resources(store=store, models=lambda _: model))
        try:
            await runtime.look()
        finally:
            live = runtime.live(OPERATOR, "run_b")
            assert live is not None, "the damaged run in front of it kept it from being taken up"
            assert (await live.result()).text == "done"


async def test_runs_of_unknown_agents_keep_nobody_else() -> None:
    """More runs than a look takes up belong to agents of another program; those behind them are taken up."""
    async with MemoryStore() as store:
        await left_behind(store, [*[Agent("elsewhere", ())] * 60, Agent("here", ())])
        runtime = Runtime([Agent("here", ())], Resources(store=store, models=lambda _: ScriptedModel("done")))
        await runtime.look()
        live = runtime.live(OPERATOR, "run_60")
        assert live is not None, "those in front of it are not this program's, and kept it from being taken up"
        assert (await live.result()).text == "done"


async def test_whoever_starts_finds_all_that_was_left(world: World) -> None:
    """The bell of a process dies with it: the first looks of the next one find every open row."""
    async with MemoryStore() as store:
        await left_behind(store, [Agent("here", ())] * 120)
        runtime = Runtime(
            [Agent("here", ())], Resources(store=store, models=lambda _: ScriptedModel(*["done"] * 120)), sweep=0.01
        )
        async with runtime:
            while left := await store.runs(OPERATOR, state="running", limit=200):
                live = runtime.live(OPERATOR, left[-1].start.run_id)
                await (live.result() if live is not None else asyncio.sleep(0.005))
        assert {run.end.status for run in await store.runs(OPERATOR, limit=200) if run.end} == {"completed"}


def remote(*steps: str) -> ScriptedModel:
    """A model under the name that the program's has."""
    model = ScriptedModel(*steps, name="model")
    model.provider = "remote"
    return model


async def left_behind(store: MemoryStore, kinds: list[Agent]) -> None:
    """A run of each of *kinds* was going on when its process ended."""
    never = asyncio.Event()
    runtime = Runtime((), Resources(store=store, models=lambda _: ScriptedModel()))
    for number, kind in enumerate(kinds):
        model = ScriptedModel(Answer(before=never.wait))
        await runtime.start(Chat(model=model, message="go"), kind, run_id=f"run_{number}")
    await runtime.close()
    assert len(await store.runs(OPERATOR, state="running", limit=200)) == len(kinds)


async def test_a_program_that_cannot_open_a_model_still_watches(world: World) -> None:
    """A function of the product fails for one run: the watchdog lives, and takes up the others."""
    case = world.case("models")
    for run_id in ("run_a", "run_b"):
        orders = {"runs": [(run_id, "waiter")], **kill_self("append:model_answered:before")}
        assert await asyncio.to_thread(case.life(**orders).end) is None
    asked: list[str] = []
    model = remote("done", "done")

    def models(wanted: str) -> ScriptedModel:
        asked.append(wanted)
        if len(asked) == 1:
            raise KeyError(wanted)
        return model

    async with await SqliteStore.open(case.database) as store:
        runtime = Runtime(agents(Points(lambda name, number: None)), Resources(store=store, models=models), sweep=0.01)
        async with runtime:
            for run_id in ("run_a", "run_b"):
                assert (await ended(store, run_id)).answer == "done"
            watchdog = runtime._watching
            assert watchdog is not None
            assert not watchdog.done()


def test_a_sub_agent_below_a_tool_of_unknown_effect_is_not_left_running(world: World) -> None:
    """The call is not run again, for nobody knows its effect: the run that it had started must end all the same."""
    case = world.case("careless")
    runs = [("run_careless", "careless")]
    assert case.life(runs=runs, **kill_self("append:model_requested:after", 2)).end() is None
    case.finish(runs=runs)
    evidence = gather(case, "run_careless")
    assert {run.start.agent: run.state for run in evidence.runs.values() if run.end is None} == {}
    assert violations(evidence.all) == [], "what it had asked of its model is in the ledger"
