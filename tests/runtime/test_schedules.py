"""Schedules: messages that are sent at given times, once each, in whichever process."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from concertino import OPERATOR, AgentConfig, Budget, Chat, MemoryStore, Resources, Runtime, Scope, SqliteStore
from concertino.errors import ConfigurationError
from concertino.orchestrator import DataPolicy
from concertino.runtime import Cron
from concertino.storage import Schedule, Store
from concertino.testing import ScriptedModel

ANN = Scope("acme", "ann")
PAST = datetime(2026, 1, 1, 9, tzinfo=UTC)
DAILY = Cron("0 9 * * *", zone="Europe/Berlin")


class Desk(AgentConfig[None]):
    name = "desk"


def runtime(store: Store) -> Runtime:
    return Runtime([Desk()], Resources(store=store, model=ScriptedModel(*["done"] * 50)), sweep=0.02)


@pytest.fixture
async def store() -> AsyncIterator[MemoryStore]:
    async with MemoryStore() as store:
        yield store


async def missed(store: Store, schedule: Schedule, **ago: float) -> Schedule:
    """Let a schedule have been due some time ago."""
    now, _ = await store.due_schedules(OPERATOR, 0)
    due_at = now - timedelta(**ago).total_seconds()
    assert await store.move_schedule(OPERATOR, schedule.id, due_at, since=schedule.due_at)
    return replace(schedule, due_at=due_at)


async def runs(store: Store) -> list[Any]:
    return list(await store.runs(OPERATOR, limit=100))


async def test_a_time_that_has_come_starts_a_run_in_the_conversation(store: MemoryStore) -> None:
    here = runtime(store)
    made = await here.schedules.create(ANN, "desk", "Report.", PAST, conversation_id="c1")
    assert (made.due_at, made.at) == (PAST.timestamp(), PAST.timestamp())
    await here.look()
    conversation = await here.conversation(ANN, "c1")
    (turn,) = await conversation.turns()
    result = await (await conversation.turn(turn.run_id)).result()
    assert (turn.message, result.text) == ("Report.", "done")
    assert await here.schedules.list(ANN) == ()  # it has no further time, so its text is gone
    await here.close()


async def test_a_repeated_schedule_starts_new_conversations_and_stays(store: MemoryStore) -> None:
    here = runtime(store)
    chat = Chat("Report.", budget=Budget(tokens=5000))
    made = await here.schedules.create(ANN, "desk", chat, replace(DAILY, missed="all", most=3))
    now, _ = await store.due_schedules(OPERATOR, 0)
    assert made.due_at is not None
    assert now < made.due_at <= now + 25 * 3600
    await here.look()
    assert await runs(store) == []
    await missed(store, made, days=9)
    await here.look()
    assert len(await here.conversations(ANN)) == 3
    started = await runs(store)
    assert [run.start.scope for run in started] == [ANN] * 3
    assert len({run.start.conversation_id for run in started}) == 3
    assert list(await here.schedules.list(ANN)) == [made]  # the next time, as at its creation
    await here.look()
    assert len(await runs(store)) == 3
    await here.close()


async def test_two_processes_start_a_time_once(tmp_path: Path) -> None:
    async with (
        await SqliteStore.open(tmp_path / "runs.db") as one,
        await SqliteStore.open(tmp_path / "runs.db") as two,
        runtime(one) as first,
        runtime(two) as second,
    ):
        made = [await first.schedules.create(ANN, "desk", f"Report {n}.", DAILY) for n in range(5)]
        for schedule in made:
            await missed(one, schedule, days=1.5)
        await asyncio.gather(first.look(), second.look(), first.look(), second.look())
        while not all(run.end for run in await runs(one)):  # noqa: ASYNC110 - either process ends them
            await asyncio.sleep(0.01)
        assert sorted(run.start.task for run in await runs(two)) == [f"Report {n}." for n in range(5)]


async def test_a_paused_schedule_starts_nothing_until_it_is_resumed(store: MemoryStore) -> None:
    here = runtime(store)
    made = await missed(store, await here.schedules.create(ANN, "desk", "Report.", DAILY), days=2)
    assert await here.schedules.pause(ANN, made.id)
    await here.look()
    assert await runs(store) == []
    assert [each.due_at for each in await here.schedules.list(ANN)] == [None]
    assert await here.schedules.resume(ANN, made.id)
    (resumed,) = await here.schedules.list(ANN)
    assert resumed.due_at is not None
    assert resumed.due_at > (await store.due_schedules(OPERATOR, 0))[0]
    await here.look()
    assert await runs(store) == []
    assert await here.schedules.delete(ANN, made.id)
    for change in (here.schedules.pause, here.schedules.resume, here.schedules.delete):
        assert not await change(ANN, made.id)
    once = await here.schedules.create(ANN, "desk", "Once.", PAST)
    await here.schedules.pause(ANN, once.id)
    await here.schedules.resume(ANN, once.id)
    await here.look()
    assert [run.start.task for run in await runs(store)] == ["Once."]
    await here.close()


async def test_a_process_without_the_agent_leaves_the_schedule_to_another(store: MemoryStore) -> None:
    here, other = runtime(store), Runtime(resources=Resources(store=store))
    await here.schedules.create(ANN, "desk", "Report.", PAST)
    await other.look()
    assert await runs(store) == []
    await here.look()
    assert len(await runs(store)) == 1
    await here.close()


async def test_a_schedule_whose_conversation_was_deleted_is_paused(
    store: MemoryStore, caplog: pytest.LogCaptureFixture
) -> None:
    here = runtime(store)
    await here.schedules.create(ANN, "desk", "Report.", PAST, conversation_id="c1")
    await store.delete_conversation(ANN, "c1")
    with caplog.at_level(logging.WARNING, "concertino"):
        await here.look()
    assert "is paused: there is no conversation 'c1'" in caplog.text
    assert [each.due_at for each in await here.schedules.list(ANN)] == [None]
    assert await here.conversations(ANN) == ()
    await here.close()


async def test_a_schedule_without_resources_is_tried_again(
    store: MemoryStore, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:

    available = Resources(model=ScriptedModel("done"))
    answers: list[Resources | Exception] = [available, OSError("vault"), OSError("vault"), available, available]

    def resources(scope: Scope, agent: AgentConfig[Any]) -> Resources:
        match answers.pop(0):
            case Resources() as found:
                return found
            case error:
                raise error

    clock = [0.0]
    monkeypatch.setattr("concertino.runtime.schedules.monotonic", lambda: clock[0])
    here = Runtime([Desk()], resources, store=store)
    await here.schedules.create(ANN, "desk", "Report.", PAST)
    for _ in range(3):
        await here.look()
    assert len(answers) == 3, "it is not tried again at once"
    clock[0] = 1.5
    await here.look()
    clock[0] = 3.0
    await here.look()
    assert len(answers) == 2, "the delay doubles"
    clock[0] = 4.0
    await here.look()
    assert [run.start.task for run in await runs(store)] == ["Report."]
    assert caplog.text.count("could not start") == 2
    await here.close()


async def test_messages_to_one_conversation_are_sent_in_the_order_in_which_they_became_due(store: MemoryStore) -> None:
    in_progress, most = 0, 0

    async def resources(_scope: Scope, _agent: AgentConfig[Any]) -> Resources:
        nonlocal in_progress, most
        in_progress += 1
        most = max(most, in_progress)
        await asyncio.sleep(0)  # any other start may go on meanwhile
        in_progress -= 1
        return Resources(model=ScriptedModel("done"))

    messages = [f"message {number}" for number in range(6)]
    for number in (3, 1, 5, 0, 4, 2):
        at = PAST + timedelta(hours=number)
        await runtime(store).schedules.create(ANN, "desk", messages[number], at, conversation_id="c1")
    here = Runtime([Desk()], resources, store=store, sweep=0.02)
    async with here:
        conversation = await here.conversation(ANN, "c1")
        while len(turns := await conversation.turns()) < len(messages) or turns[0].state != "completed":  # noqa: ASYNC110 - the watchdog starts them
            await asyncio.sleep(0.01)
    assert [turn.message for turn in reversed(turns)] == messages
    assert most == 1


async def test_schedules_that_cannot_start_hide_no_others(store: MemoryStore) -> None:
    async def resources(scope: Scope, _agent: AgentConfig[Any]) -> Resources:
        if scope == ANN:
            return Resources(model=ScriptedModel("done"))
        raise OSError

    for number in range(60):
        await runtime(store).schedules.create(Scope("globex", f"user {number}"), "desk", "Report.", PAST)
    await runtime(store).schedules.create(ANN, "desk", "Report.", PAST + timedelta(hours=1))
    here = Runtime([Desk()], resources, store=store)
    await here.look()
    (run,) = await runs(store)
    assert run.start.scope == ANN
    await here.close()


async def test_the_stored_message_is_redacted(store: MemoryStore) -> None:
    class Careful(Desk):
        async def get_data_policy(self) -> DataPolicy:
            from concertino.agents import EMAIL

            return DataPolicy(patterns=[EMAIL])

    here = Runtime([Careful()], Resources(store=store, model=ScriptedModel("done")))
    made = await here.schedules.create(ANN, "desk", "Write to ann@example.org.", DAILY)
    assert "ann@example.org" not in str(made.input)
    await here.close()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"scope": OPERATOR}, "belongs to a Scope"),
        ({"message": " "}, "message is empty"),
        ({"when": datetime(2026, 1, 1)}, "a datetime with a time zone"),
        ({"when": "tomorrow"}, "invalid time 'tomorrow'"),
        ({"agent": "clerk"}, "clerk"),
        ({"conversation_id": "other"}, "answered by 'other', not by 'desk'"),
    ],
)
async def test_invalid_schedules(store: MemoryStore, change: dict[str, Any], message: str) -> None:
    here = runtime(store)
    await store.open_conversation(ANN, "other", "other")
    given: dict[str, Any] = {"scope": ANN, "agent": "desk", "message": "Report.", "when": PAST, **change}
    with pytest.raises(ConfigurationError, match=message):
        await here.schedules.create(**given)
    assert await here.schedules.list(OPERATOR) == ()
    await here.close()
