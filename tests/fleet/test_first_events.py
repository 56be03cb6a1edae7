"""The first events of a run reach another process at once: after no window, poll or sweep.

So the time until then is that of the store and the bell; `python -m benchmarks.fleet --only first` measures it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

import pytest

from concertino import AssistantMessage, MemoryStore, ModelRequest, Resources, Runtime, Text, Tokens
from concertino.events import RunStarted, TextDelta
from concertino.providers import ModelEvent, Reply, TextChunk
from concertino.runtime import Fleet, event_log, event_window
from concertino.runtime.bus.base import RemoteBell, events_of

from ..runtime.kit import state
from .test_fleet import CARLA, NEVER, TARGETS, Desk, joined

pytestmark = pytest.mark.postgres


class Gated:
    """A model that sends each piece of its answer when the test lets it."""

    provider, name = "test", "gated"

    def __init__(self) -> None:
        self.gates = {piece: asyncio.Event() for piece in ("first ", "second")}

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        for piece, gate in self.gates.items():
            await gate.wait()
            yield TextChunk(piece)
        yield Reply(AssistantMessage((Text("first second"),), "end", self.name), Tokens(prompt=1, completion=2))

    async def close(self) -> None:
        pass


async def test_the_first_events_of_a_run_reach_another_process_by_the_bell_alone(
    monkeypatch: pytest.MonkeyPatch, make_bell: Callable[[], RemoteBell]
) -> None:
    monkeypatch.setattr(event_log, "RARE", NEVER)
    monkeypatch.setattr(event_window, "SECONDS", NEVER)
    store, model = MemoryStore(), Gated()
    resources = Resources(store=store, model=model, models=lambda _: model)
    async with make_bell() as here, make_bell() as there:
        await state(lambda: here.connected and there.connected)
        web = joined(Runtime([Desk()], resources, sweep=NEVER), Fleet(bell=here, targets=TARGETS))
        takes = Fleet(bell=there, targets=TARGETS, takes=["desks"])
        async with web, joined(Runtime([Desk()], resources, sweep=NEVER), takes) as worker:
            conversation = await web.conversation(CARLA, agent="desk")
            turn = await conversation.send("hello")
            events = turn.events()
            first = asyncio.create_task(anext(events))
            await listened(here, there, events_of(turn.id))
            await worker.look()
            assert isinstance((await first)[1], RunStarted), "before the model has answered"
            model.gates["first "].set()
            async for _, event in events:
                if isinstance(event, TextDelta):
                    assert event.text == "first "
                    break
            else:
                pytest.fail("the first piece came with the next ones")
            model.gates["second"].set()
            assert [event async for _, event in events][-1].result.text == "first second"  # type: ignore[union-attr]


async def listened(here: RemoteBell, there: RemoteBell, topic: str) -> None:
    """Wait until a ring of *topic* there is heard here."""
    heard = asyncio.Event()
    end = here.listen(topic, heard.set)
    while not heard.is_set():
        there.ring(topic)
        await asyncio.sleep(0.01)
    end()
