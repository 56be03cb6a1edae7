"""Damaged rows of one conversation, and turns whose start is refused, change nothing for other conversations."""

from __future__ import annotations

import json
from typing import Any

import pytest

from concertino import Chat, Conversation, DataPolicy, KeepFor, MemoryStore, Resources, Scope, ToolOrchestrator
from concertino.runtime import Runtime

from .test_conversations import ANN, RIVAL, Desk, Held, echoes, process, say, shown, until

DAMAGE: dict[str, Any] = {
    "no JSON": '{"message": "tw',
    "no object": "[1]",
    "no UTF-8": b'{"message": "\xff"}',
    "no message": "{}",
    "another type": '{"message": 7}',
    "another field": '{"message": "two", "history": [1]}',
    "an unknown field": '{"message": "two", "tempo": 1}',
    "no files": '{"message": "two", "attachments": 3}',
    "no number": '{"message": "two", "budget": [1, "x"]}',
    "missing": None,
}


async def change(store: MemoryStore, sql: str, *bound: Any) -> None:
    """Change rows behind the store's back."""
    await store._connection.run(lambda connection: connection.execute(sql, bound))


async def damage(store: MemoryStore, run_id: str, body: Any) -> None:
    """Replace the stored input of a queued turn."""
    turn = "kind = 'input' AND turn = (SELECT number FROM turns WHERE run_id = ?)"
    if body is None:
        await change(store, f"DELETE FROM conversation_texts WHERE {turn}", run_id)
    else:
        await change(store, f"UPDATE conversation_texts SET body = CAST(? AS TEXT) WHERE {turn}", body, run_id)


async def busy(runtime: Runtime, scope: Scope, held: Held) -> Conversation:
    """Return a conversation with a turn in progress."""
    conversation = await runtime.conversation(scope, "c", agent="desk")
    await conversation.send("one")
    await held.asked.wait()
    return conversation


@pytest.mark.parametrize("name", DAMAGE)
async def test_a_damaged_queued_turn_fails_alone(name: str) -> None:
    """The turns behind it and those of other tenants start."""
    store, held = MemoryStore(), Held()
    runtime = process(store, held.model)
    mine = await busy(runtime, ANN, held)
    bad, good = await mine.send("two"), await mine.send("three")
    await damage(store, bad.id, DAMAGE[name])
    assert [turn.run_id for turn in await mine.queue()] == [bad.id, good.id]
    held.go.set()
    other = await runtime.conversation(RIVAL, "c", agent="desk")
    assert await say(other, "hello") == "hello"
    assert (await good.result()).text == "one [damaged] three"
    result, turn = await bad.result(), await bad.read()
    assert (result.status, turn.state) == ("failed", "failed")
    assert turn.error == "the queued message is damaged: send it again"
    assert await shown(mine) == ["one", "[damaged]", "three"]
    assert json.loads(json.dumps(await mine.export()))
    assert await mine.queue() == []
    await runtime.close()


@pytest.mark.parametrize(
    "body",
    [
        *(DAMAGE["no JSON"], DAMAGE["no UTF-8"], '{"v": 1, "role": "user", "text": 5}', '{"v": 1, "role": ["x"]}'),
        '{"v": 1, "role": "tool", "name": ["x"], "call_id": "a", "content": "b"}',
    ],
    ids=str,
)
async def test_a_damaged_message_hides_its_turn_from_a_search_only(body: Any) -> None:
    """A turn that cannot be indexed keeps no queue from being looked at."""
    store, held = MemoryStore(), Held()
    runtime = process(store, held.model)
    mine, queued = await busy(runtime, ANN, held), None
    other = await process(store, echoes()).conversation(RIVAL, "c", agent="desk")
    queued = await mine.send("two")
    last = await (await other.send("hello")).read()
    await change(store, "UPDATE turns SET state = 'open' WHERE run_id = ?", last.run_id)
    sql = "UPDATE messages SET body = CAST(? AS TEXT) WHERE run = (SELECT number FROM runs WHERE run_id = ?)"
    await change(store, sql, body, last.run_id)
    held.go.set()
    assert (await queued.result()).text == "one two"
    await runtime.close()


async def test_a_queued_turn_whose_run_id_is_taken_is_postponed(caplog: pytest.LogCaptureFixture) -> None:
    """It is tried again after a delay, not at each look, and can be withdrawn."""
    store, held = MemoryStore(), Held()
    runtime = process(store, held.model)
    conversation = await busy(runtime, ANN, held)
    queued = await conversation.send("two")
    resources = Resources(model=echoes(), store=store)
    await ToolOrchestrator(Chat("mine"), Desk(), resources=resources, run_id=queued.id).run()
    held.go.set()
    await until(lambda: _is_in(caplog, "could not be started: RunExistsError"))
    for _ in range(3):
        await runtime.look()
    assert caplog.text.count("RunExistsError") == 1
    assert (await queued.read()).state == "queued"
    assert await conversation.withdraw(queued.id)
    assert await say(conversation, "three") == "one three"
    await runtime.close()


class ShortLived(Desk):
    """Its history is read anew for each turn, since it does not stay."""

    def get_data_policy(self) -> DataPolicy:
        return DataPolicy(text=KeepFor(3_600))


async def test_queued_turns_after_a_damaged_turn_end_with_an_error() -> None:
    """None is postponed forever, and a turn of another branch goes on."""
    store, held = MemoryStore(), Held()
    first = await (await process(store, echoes(), ShortLived()).conversation(ANN, "c", agent="desk")).send("zero")
    await first.result()
    runtime = process(store, held.model, ShortLived())
    conversation = await busy(runtime, ANN, held)
    after = [await conversation.send("two"), await conversation.send("three")]
    beside = await conversation.edit(first.id, "zero again", when_busy="queue")
    body = "UPDATE messages SET body = '{', kept = '{' WHERE run = (SELECT number FROM runs WHERE run_id = ?)"
    await change(store, body, first.id)
    held.go.set()
    assert (await beside.result()).text == "zero again"
    for turn, message in zip(after, ["two", "three"], strict=True):
        read = await turn.read()
        assert (read.state, read.message) == ("failed", message)
        assert "the history before this turn is damaged" in (read.error or "")
    assert await conversation.queue() == []
    await runtime.close()


async def _is_in(caplog: pytest.LogCaptureFixture, text: str) -> bool:
    return text in caplog.text
