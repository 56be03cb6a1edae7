"""Notifications: a person is told when a run waits, is stuck or has ended; a broken channel changes nothing."""

from __future__ import annotations

import logging

import pytest

from concertino import Chat, MemoryStore, Resources, Runtime
from concertino.agents import AgentStep, HumanStep, Notification, Workflow, WorkflowAgent, notify_about
from concertino.testing import ScriptedModel, call

from .workflow_kit import ANN, TOOLS, complete

FLOW = Workflow(
    name="flow",
    steps=[AgentStep(id="look", prompt="Look.", tools=("look",)), HumanStep(id="ask", question="Ship?")],
    answer="shipped",
)


class Channel:
    def __init__(self, *, broken: bool = False) -> None:
        self.sent: list[Notification] = []
        self.broken = broken

    async def notify(self, notification: Notification) -> None:
        self.sent.append(notification)
        if self.broken:
            raise OSError("no network")


@pytest.mark.parametrize("broken", [False, True])
async def test_a_person_is_told(broken: bool, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL, "concertino")
    channel, model = Channel(broken=broken), ScriptedModel(*[call("look", name="x")] * 3, complete())
    async with Runtime([WorkflowAgent(FLOW, TOOLS)], Resources(model=model, store=MemoryStore())) as runtime:
        live = await runtime.start(Chat("Go", scope=ANN), "flow")
        await notify_about(runtime.events(ANN, live.id, until="suspended"), channel)
        assert [each.kind for each in channel.sent] == ["stuck", "waits"]
        stuck, waits = channel.sent
        assert stuck.text.startswith("identical_calls: look")
        assert waits.text == "Ship?"
        await runtime.approve(ANN, waits.key)
        await runtime.resume(ANN, live.id)
        await notify_about(runtime.events(ANN, live.id, after=waits.number), channel)
    assert (channel.sent[-1].kind, channel.sent[-1].text) == ("ended", "completed: shipped")
    assert len(channel.sent) == 3
