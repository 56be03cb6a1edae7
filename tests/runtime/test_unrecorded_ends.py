"""Runs that leave their process without an end on record: no reader sees one until there is one."""

from __future__ import annotations

import asyncio

from concertino import OPERATOR, AgentConfig, Chat
from concertino.errors import StorageError
from concertino.events import RunEnded
from concertino.storage import Claim, Store
from concertino.testing import Answer, FaultyStore, Points, ScriptedModel

from .kit import runtime
from .test_event_log import read


class Desk(AgentConfig):
    """Answers."""

    name = "desk"


class Full(FaultyStore):
    """A store that has room for events alone, once the run ends."""

    claim_kept: Claim | None = None

    async def release(self, claim: Claim) -> None:
        """Keep the claim."""
        self.claim_kept = claim
        raise StorageError("no space is left")


def no_space(name: str, _number: int) -> None:
    if name == "append:ended:before":
        raise StorageError("no space is left")


async def test_an_end_that_could_not_be_recorded_is_in_no_log(store: Store) -> None:
    full, model = Full(store, Points(no_space)), ScriptedModel("yes", "no")
    async with runtime(full, model, Desk()) as process:
        run = await process.start(Chat(model=model, message="x"), "desk")
        result = await run.result()
        assert (result.status, result.error) == ("failed", "StorageError: no space is left")
        await run.recorded()
    assert full.claim_kept is not None
    await store.release(full.claim_kept)
    async with runtime(store, model, Desk()) as process:
        seen = await read(process, run.id)
        assert (await process.result(OPERATOR, run.id)).status == "completed"
    ends = [event for _, event in seen if isinstance(event, RunEnded)]
    assert [end.result.status for end in ends] == ["completed"]


async def test_a_parked_run_has_no_end_in_its_log(store: Store) -> None:
    gate = asyncio.Event()
    model = ScriptedModel(Answer(text="one two", midway=gate.wait), "three")
    async with runtime(store, model, Desk()) as process:
        run = await process.start(Chat(model=model, message="x"), "desk")
        await read(process, run.id, most=2)
    async with runtime(store, model, Desk()) as process:
        seen = await read(process, run.id)
    ends = [event for _, event in seen if isinstance(event, RunEnded)]
    assert [end.result.status for end in ends] == ["completed"]
