"""A run that is resumed reads what its model is shown, and the rest when it is asked for."""

from __future__ import annotations

import asyncio
from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest

from concertino import (
    OPERATOR,
    AgentConfig,
    Chat,
    MemoryStore,
    Message,
    ModelRequest,
    RunContext,
    ToolOrchestrator,
    ToolResult,
    delegate,
    tool,
)
from concertino.messages import AssistantMessage, Media, ToolMessage
from concertino.orchestrator import replay
from concertino.storage import SqliteStore
from concertino.testing import ScriptedModel, call

from .long_runs import (
    Looking,
    approved,
    assert_flat,
    counted_reads,
    look,
    most_read,
    pay,
    resources,
    resumed,
    suspended,
)

LONG = 120
"""Steps after which a run has had snapshots and summaries."""


@pytest.mark.parametrize(
    "marks",
    [(300, 700), pytest.param((200, 2_000, 5_000), marks=pytest.mark.slow)],
)
async def test_resuming_reads_as_much_late_as_early(tmp_path: Path, marks: tuple[int, ...]) -> None:
    async with await SqliteStore.open(tmp_path / "runs.db") as store:
        with counted_reads() as reads:
            other = await SqliteStore.open(tmp_path / "runs.db")
        async with other:
            assert_flat(await most_read(store, other, reads, marks))


async def test_a_resumed_run_sends_what_it_would_have_sent_and_reads_no_more(tmp_path: Path) -> None:
    """A look at all messages in the first request reads the rest, which is many times as much."""
    async with await SqliteStore.open(tmp_path / "runs.db") as store:
        result = await suspended(store, 400)
        await approved(store, result)
    with counted_reads() as reads:
        other = await SqliteStore.open(tmp_path / "runs.db")
    counts = []
    whole: list[Message] = []

    class Curious(Looking):
        async def should_send_tools(self, run: RunContext[None]) -> bool:
            counts.append(reads.rows)
            whole[:] = run.messages
            counts.append(reads.rows)
            return True

    async with other:
        model = ScriptedModel(call("look", n=1), "done", summaries=["in short"] * 9)
        ended = await resumed(other, result.run_id, model, Curious()).run()
        journal = await other.load(OPERATOR, result.run_id)
        assert journal is not None
    assert counts[0] < 400
    assert counts[1] > counts[0] + 1_000
    assert counts[2:] == sorted(counts[2:])
    assert ended.status == "completed"
    assert list(ended.messages) == [each.message for entry in journal.entries for each in entry.messages]
    assert list(ended.messages[:-1]) == whole


async def test_the_bill_of_a_resumed_run_is_exact() -> None:
    store = MemoryStore()
    result = await suspended(store, LONG)
    await approved(store, result)
    seen: list[int] = []

    class Counting(Looking):
        async def should_send_tools(self, run: RunContext[None]) -> bool:
            seen.append(len(run.usage))
            return True

    ended = await resumed(store, result.run_id, ScriptedModel("done"), Counting()).run()
    ledger = await store.usage(OPERATOR, result.run_id)
    assert ended.usage == tuple(ledger)
    assert len({each.id for each in ledger}) == len(ledger) > LONG
    assert seen == [len(ledger) - 1]
    (total,) = await store.usage_sums(OPERATOR, ())
    assert total.tokens.total == sum(each.tokens.total for each in ended.usage)


async def test_the_bill_is_in_the_order_of_booking_with_a_sub_agent_between_unread_calls() -> None:
    """The usage of a sub-agent is read at once, and that of the run around it later."""
    store = MemoryStore()

    class Helper(Looking):
        name = "helper"
        prompt = "You help."

    class Delegating(Looking):
        tools = (look, pay, delegate(Helper(), description="Helps."))

    steps = [call("look", n=n) for n in range(LONG)]
    begins, scripts = (call("look", n=0), call("helper", query="Help.")), {"You help": ["helped"]}
    first = ScriptedModel(*begins, *steps, call("pay"), summaries=["in short"] * LONG, scripts=scripts)
    agent = Delegating()
    result = await ToolOrchestrator(Chat("Go.", model=first), agent, resources=resources(store)).run()
    assert result.status == "suspended"
    await approved(store, result)
    ended = await resumed(store, result.run_id, ScriptedModel("done"), agent).run()
    assert ended.usage == tuple(await store.usage(OPERATOR, result.run_id))
    assert ended.usage[2].agent_path == "looking/helper-1"


async def test_a_limit_of_tokens_counts_what_was_used_before_the_snapshot() -> None:
    """The same run twice; the second one may use a little more than the first one has used."""
    used, most = 0, None
    for _ in range(2):
        store = MemoryStore()
        result = await suspended(store, LONG, tokens=most)
        used = sum(each.tokens.total for each in result.usage)
        most = used + 60
    await approved(store, result)
    model = ScriptedModel(*[call("look", n=1)] * LONG, summaries=["in short"] * LONG)
    ended = await resumed(store, result.run_id, model).run()
    assert ended.status == "limited"
    assert 2 <= len(ended.usage) - len(result.usage) <= 6


async def test_a_resumed_run_recalls_what_left_its_view_long_ago() -> None:
    store = MemoryStore()
    result = await suspended(store, LONG)
    await approved(store, result)
    found: list[str] = []

    def newest(request: ModelRequest) -> Any:
        found.extend(each.content for each in request.messages[-1:] if isinstance(each, ToolMessage))
        return "done"

    model = ScriptedModel(call("recall", query="number 000007"), newest)
    await resumed(store, result.run_id, model).run()
    assert "number 000007" in found[0]


async def test_the_calls_of_a_resumed_run_have_ids_of_their_own() -> None:
    """A server may count the calls from 1 again, also those that the process has not read."""
    store = MemoryStore()
    result = await suspended(store, LONG)
    await approved(store, result)
    model = ScriptedModel(*[call("look", n=1)] * 3, "done")
    ended = await resumed(store, result.run_id, model).run()
    ids = [each.id for m in ended.messages if isinstance(m, AssistantMessage) for each in m.tool_calls]
    assert len(set(ids)) == len(ids) == LONG + 4


async def test_a_run_that_is_resumed_again_and_again_stays_as_it_is() -> None:
    """Each process reads from the snapshot of another one that had not read all, either."""
    store = MemoryStore()
    result = await suspended(store, LONG)
    asked = LONG
    for _ in range(4):
        await approved(store, result)
        steps = [call("look", n=asked + n) for n in range(50)]
        model = ScriptedModel(*steps, call("pay"), summaries=["in short"] * 50)
        result = await resumed(store, result.run_id, model).run()
        assert result.status == "suspended"
        asked += 50
    await approved(store, result)
    ended = await resumed(store, result.run_id, ScriptedModel("done")).run()
    journal = await store.load(OPERATOR, result.run_id)
    assert journal is not None
    assert list(ended.messages) == [each.message for entry in journal.entries for each in entry.messages]
    assert ended.usage == tuple(await store.usage(OPERATOR, result.run_id))
    numbers = [m.content[34:41] for m in ended.messages if isinstance(m, ToolMessage) and m.name == "look"]
    assert len(set(numbers)) == asked


@pytest.mark.parametrize("fails", [False, True])
async def test_a_stopped_run_that_was_resumed_reports_all(monkeypatch: pytest.MonkeyPatch, fails: bool) -> None:
    """Also if the store fails at its end: then it reports what it has read."""
    store = MemoryStore()
    result = await suspended(store, LONG)
    await approved(store, result)

    class Stopping(Looking):
        async def should_send_tools(self, run: RunContext[None]) -> bool:
            if fails:
                monkeypatch.setattr(MemoryStore, "load", None)
            again.stop()
            await asyncio.sleep(0)
            return True

    again = resumed(store, result.run_id, ScriptedModel("never"), Stopping())
    ended = await again.run()
    assert ended.status == "cancelled"
    assert (len(ended.messages) > 2 * LONG) is not fails
    assert (len(ended.usage) > LONG) is not fails


async def test_a_resumed_run_reads_the_pictures_that_it_shows(tmp_path: Path) -> None:
    """A picture in view is there; those that have left it are read with the rest."""
    steps = LONG + 2  # after a summary, and before the next one

    @tool(name="look", effect="read")
    async def pictured(n: int) -> ToolResult:
        """Look something up."""
        media = (Media("image/png", data=picture(n)),) if n % 2 else ()
        return ToolResult(f"A line of what was found, number {n:06}. " * 20, media=media)

    async with await SqliteStore.open(tmp_path / "runs.db") as store:
        result = await suspended(store, steps, pictured)
        await approved(store, result)
    with counted_reads() as reads:
        other = await SqliteStore.open(tmp_path / "runs.db")
    async with other:
        journal = await other.load(OPERATOR, result.run_id, from_snapshot=True)
        size = reads.size
        ended = await resumed(other, result.run_id, ScriptedModel("done")).run()
    assert journal is not None
    shown = [each for m in replay(journal).view.shown if isinstance(m, ToolMessage) for each in m.media]
    every = [each for m in ended.messages if isinstance(m, ToolMessage) for each in m.media]
    assert [each.data for each in every] == [picture(n) for n in range(1, steps, 2)]
    assert shown == every[-len(shown) :] != []
    assert size < len(every) // 2 * len(picture(1))


def picture(n: int) -> str:
    """Return the data of a picture of 20 kB."""
    return b64encode(f"{n:06}".encode() * 2_500).decode()


async def test_a_resumed_run_hands_out_a_result_that_it_has_not_read() -> None:
    """The card of the first step has long left the view, and the snapshot does not name its message."""
    writer = AgentConfig[None]()
    writer.name, writer.prompt = "writer", "You write."
    agent, store = Looking(), MemoryStore()
    agent.tools = (look, pay, delegate(writer, description="Writes.", cards=True))
    first = ScriptedModel(*(call("look", n=n) for n in range(LONG)), call("pay"), summaries=["in short"] * (LONG + 9))
    waiting = await ToolOrchestrator(Chat("Go.", model=first), agent, resources=resources(store)).run()
    (shown,) = [message for message in first.requests[1].messages if isinstance(message, ToolMessage)]
    await approved(store, waiting)
    hands = call("writer", query="Write.", cards=[shown.handle])
    model = ScriptedModel(hands, "Done.", scripts={"You write": ["A text."]})
    result = await resumed(store, waiting.run_id, model, agent).run()
    assert result.text == "Done."
    assert shown.handle not in str(model.requests[0].messages)
    (request,) = [each for each in model.requests if "You write." in each.system]
    (given,) = [message for message in request.messages if isinstance(message, ToolMessage)]
    assert (given.content, given.handle) == (shown.whole, shown.handle)
