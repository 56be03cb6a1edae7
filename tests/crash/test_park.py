"""A process that must end, as at each deployment: it parks what goes on, and the next one takes it up at once."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from concertino import OPERATOR, Continue, Finish, MemoryStore, NextStep, Resources, RunContext, tool
from concertino.messages import Message, SystemMessage
from concertino.orchestrator import replay
from concertino.runtime import Runtime
from concertino.testing import Answer, ScriptedModel, call
from tests.auditor import unpaired

from .kit import Desk, chat, ended, results, two, until

RUNS = 20


async def test_twenty_runs_are_parked_and_taken_up_at_once(tmp_path: Path) -> None:
    """Some stand in their model, some in a tool that may be repeated, some in one that may not."""
    never, ran = asyncio.Event(), []

    @tool(effect="idempotent")
    async def note(run: int) -> str:
        """Note, and the first time hang."""
        ran.append(("note", run))
        if ran.count(("note", run)) == 1:
            await never.wait()
        return "noted"

    @tool(effect="once")
    async def mail(run: int) -> str:
        """Mail, and hang."""
        ran.append(("mail", run))
        await never.wait()
        return "mailed"

    turns = {"note": lambda n: call("note", run=n), "mail": lambda n: call("mail", run=n)}
    kinds = ["model", "note", "mail"]
    models = []
    for number in range(RUNS):
        kind = kinds[number % 3]
        hangs = Answer(text="half", midway=never.wait)
        models.append(ScriptedModel(hangs if kind == "model" else turns[kind](number), name=f"m{number}"))
    second = ScriptedModel(*["done"] * RUNS)
    never_over = 86_400.0  # a run that is picked up today did not wait for its lease
    async with two(tmp_path, [Desk(note, mail)], second, lease=never_over) as (one, other):
        for number, model in enumerate(models):
            await one.start(chat(model), "desk", run_id=f"run_{number}")
        standing = len([n for n in range(RUNS) if n % 3 == 0])
        await until(lambda: at_work(models, ran, standing))
        await one.close()
        async with other:
            for number in range(RUNS):
                await ended(other.store, f"run_{number}")
        for number in range(RUNS):
            await check_parked(other, f"run_{number}", kinds[number % 3], ran.count((kinds[number % 3], number)))


async def check_parked(runtime: Runtime, run_id: str, stood_in: str, ran: int) -> None:
    """It was taken up where it stood."""
    assert (await ended(runtime.store, run_id)).answer == "done"
    told = await results(runtime.store, run_id)
    sources = [record.source for record in await runtime.store.usage(OPERATOR, run_id)]
    match stood_in:
        case "model":
            assert sources == ["estimated", "measured"], "the half answer is paid for"
        case "note":
            assert (told, ran) == (["noted"], 2)
        case "mail":
            assert told[0].startswith("OUTCOME_UNKNOWN")
            assert ran == 1


async def at_work(models: list[ScriptedModel], ran: list[tuple[str, int]], standing: int) -> bool:
    return all(model.requests for model in models) and len(ran) == RUNS - standing


@tool(effect="read")
async def look(place: int) -> str:
    """Look."""
    return f"seen {place}"


class Slow(Desk):
    """Hangs in one of its hooks, the first time."""

    def __init__(self, hook: str) -> None:
        super().__init__(look)
        self.hook = hook
        self.reached = asyncio.Event()

    async def _hang(self, hook: str) -> None:
        if hook == self.hook and not self.reached.is_set():
            self.reached.set()
            await asyncio.Event().wait()

    async def prepare(self, run: RunContext[None]) -> list[Message]:
        """Look something up in advance."""
        await self._hang("prepare")
        return [SystemMessage("known in advance")]

    async def should_continue_loop(self, run: RunContext[None]) -> NextStep:
        """As ever."""
        if run.state.step == 1:
            await self._hang("should_continue_loop")
        return Continue() if run.state.has_tool_calls else Finish()

    async def after_step(self, run: RunContext[None], outcome: NextStep) -> NextStep:
        """As ever."""
        await self._hang("after_step")
        return outcome

    async def conclude(self, run: RunContext[None], text: str) -> str:
        """As ever."""
        await self._hang("conclude")
        return text


@pytest.mark.parametrize("hook", ["prepare", "should_continue_loop", "after_step", "conclude"])
async def test_parked_between_two_entries(hook: str) -> None:
    """What was not on record when it was parked happens again, and stands in the conversation once."""
    async with MemoryStore() as store:
        agent = Slow(hook)
        model = ScriptedModel(call("look", place=1), "done")
        runtime = Runtime([agent], Resources(store=store, models=lambda _: model))
        await runtime.start(chat(model), agent, run_id="run_1")
        await agent.reached.wait()
        await runtime.close()
        again = Runtime([agent], Resources(store=store, models=lambda _: model))
        await again.look()
        live = again.live(OPERATOR, "run_1")
        assert live is not None
        result = await live.result()
        assert (result.status, result.text) == ("completed", "done")
        roles = ["user", "system", "assistant", "tool", "assistant"]
        assert [message.role for message in result.messages] == roles
        journal = await store.load(OPERATOR, "run_1")
        assert journal is not None
        record = replay(journal)
        assert list(unpaired(record.messages)) == []
        assert [message.role for message in record.messages] == roles, "as the next life would read it"
        assert [stored.message.role for stored in await store.messages(OPERATOR, "run_1")] == roles
        assert [message.role for message in model.requests[-1].messages] == roles[:-1]
