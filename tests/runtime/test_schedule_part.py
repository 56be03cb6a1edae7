"""An agent sets, lists and removes schedules of its user, within limits."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest

from concertino import AgentConfig, Budget, Chat, MemoryStore, Resources, RunResult, Runtime, Scope
from concertino.errors import ConfigurationError
from concertino.messages import ToolMessage
from concertino.runtime import Cron, Scheduling
from concertino.testing import ScriptedModel, call

ANN, BOB = Scope("acme", "ann"), Scope("acme", "bob")
CRON = "0 9 * * mon-fri"


class Office:
    """A runtime whose agent has the part."""

    def __init__(self, *steps: Any, **settings: Any) -> None:
        part = Scheduling(lambda: self.runtime, **{"approve": False, **settings})

        class Desk(AgentConfig[None]):
            name = "desk"
            parts = (part,)

        class Other(AgentConfig[None]):
            name = "other"
            parts = (part,)

        self.store = MemoryStore()
        self.runtime = Runtime([Desk(), Other()], Resources(model=ScriptedModel(*steps)), store=self.store)

    async def turn(self, scope: Scope = ANN, agent: str = "desk", conversation: str = "") -> RunResult:
        live = await self.runtime.start(Chat("Go.", scope=scope, conversation_id=conversation), agent)
        return await live.result()


def results(result: RunResult) -> list[str]:
    return [each.content for each in result.messages if isinstance(each, ToolMessage)]


async def test_a_schedule_belongs_to_the_user_and_the_agent_of_the_run() -> None:
    office = Office(
        call("set_schedule", message="Report.", cron=CRON, zone="Europe/Berlin"), "Set.",
        call("list_schedules"), "Listed.",
        call("list_schedules"), "Nothing.",
        call("list_schedules"), "Nothing.",
        budget=Budget(tokens=1_000),
    )  # fmt: skip
    shown = json.loads(*results(await office.turn()))
    assert (shown["message"], shown["cron"], shown["zone"]) == ("Report.", CRON, "Europe/Berlin")
    (stored,) = await office.runtime.schedules.list(ANN)
    assert (stored.id, stored.agent, stored.tenant, stored.user) == (shown["schedule"], "desk", "acme", "ann")
    assert stored.input["budget"] == [1_000, None]
    assert json.loads(*results(await office.turn())) == [shown]
    assert json.loads(*results(await office.turn(BOB))) == []
    assert json.loads(*results(await office.turn(agent="other"))) == []


async def test_only_the_user_of_a_schedule_removes_it_with_the_agent() -> None:
    shown: dict[str, Any] = {}
    remove = [lambda _: call("remove_schedule", schedule=shown["schedule"]), "Done."]
    office = Office(
        call("set_schedule", message="Report.", at="2099-01-31T09:00"), "Set.", *remove * 3, zone="Europe/Berlin"
    )
    shown |= json.loads(*results(await office.turn()))
    assert shown["next"] == "2099-01-31T08:00:00+00:00"
    for scope, agent, answer in [
        (BOB, "desk", f"there is no schedule {shown['schedule']!r}"),
        (ANN, "other", f"there is no schedule {shown['schedule']!r}"),
        (ANN, "desk", "removed"),
    ]:
        assert results(await office.turn(scope, agent)) == [answer]
    assert not await office.runtime.schedules.list(ANN)


async def test_a_person_approves_a_new_schedule() -> None:
    office = Office(call("set_schedule", message="Report.", cron=CRON), "Set.", approve=True)
    waiting = await office.turn()
    assert not await office.runtime.schedules.list(ANN)
    (wait,) = await office.runtime.approvals(ANN)
    assert json.loads(wait.arguments) == {"message": "Report.", "cron": CRON}
    await office.runtime.approve(ANN, wait.key)
    await (await office.runtime.resume(ANN, waiting.run_id)).result()
    assert len(await office.runtime.schedules.list(ANN)) == 1


async def test_the_message_arrives_in_the_conversation_in_which_it_was_set() -> None:
    office = Office(call("set_schedule", message="Report.", cron=CRON), "Set.")
    conversation = await office.runtime.conversation(ANN, "c1", agent="desk")
    await (await conversation.send("Report every day.")).result()
    (stored,) = await office.runtime.schedules.list(ANN)
    assert stored.conversation_id == "c1"


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({"cron": "*/30 * * * *"}, "leave at least 1:00:00 between them"),
        ({"cron": "0,1 9 1 1 *"}, "leave at least 1:00:00 between them"),
        ({"cron": "never"}, "invalid cron expression 'never'"),
        ({"cron": CRON, "zone": "Mars/Base"}, "unknown time zone 'Mars/Base'"),
        ({"at": "2020-01-01T09:00"}, "is over"),
        ({"at": "soon"}, "invalid time 'soon'"),
        ({}, "give either `at` or `cron`"),
        ({"at": "2099-01-01T09:00", "cron": CRON}, "give either `at` or `cron`"),
    ],
)
async def test_times_that_are_not_allowed_are_refused(arguments: dict[str, str], problem: str) -> None:
    office = Office(call("set_schedule", message="Report.", **arguments), "Sorry.")
    (refused,) = results(await office.turn())
    assert problem in refused
    assert not await office.runtime.schedules.list(ANN)


async def test_a_user_has_a_limited_number_of_schedules() -> None:
    calls: Sequence[Any] = [call("set_schedule", message=f"Report {number}.", cron=CRON) for number in range(4)]
    office = Office(calls, "Set.", calls[0], "Set.", most=3)
    outcomes = results(await office.turn())
    assert sum("the most that are allowed" in each for each in outcomes) == 1
    assert len(await office.runtime.schedules.list(ANN)) == 3
    assert "message" in json.loads(*results(await office.turn(BOB)))


async def test_a_run_without_a_user_sets_nothing() -> None:
    office = Office(call("set_schedule", message="Report.", cron=CRON), "Sorry.")
    (refused,) = results(await office.turn(Scope("acme")))
    assert "belongs to no user" in refused


async def test_a_repeated_call_sets_one_schedule() -> None:
    office = Office()
    first, second = [
        await office.runtime.schedules.create(ANN, "desk", "Report.", Cron(CRON), key="k") for _ in range(2)
    ]
    other = await office.runtime.schedules.create(BOB, "desk", "Report.", Cron(CRON), key="k")
    assert first == second
    assert other.id != first.id
    assert len(await office.runtime.schedules.list(ANN)) == 1


@pytest.mark.parametrize("settings", [{"most": 0}, {"every": 3_600}, {"zone": "Mars/Base"}])
def test_an_invalid_setting_is_named(settings: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match=str(next(iter(settings.values())))):
        Office(**settings)


async def test_the_frequency_is_a_setting() -> None:
    office = Office(call("set_schedule", message="Report.", cron="* * * * *"), "Set.", every=timedelta(minutes=1))
    assert "cron" in json.loads(*results(await office.turn()))
