"""The log of events: numbers that hold in every process, nothing shown that a crash takes back, bounded memory."""

from __future__ import annotations

import asyncio
import dataclasses
import gc
import sys
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest

from concertino import (
    AgentConfig,
    Chat,
    DataPolicy,
    KeepFor,
    Resources,
    Scope,
    SqliteStore,
    TenantScope,
    delegate,
    tool,
)
from concertino.errors import ConfigurationError, OverloadedError, RunStateError, UnknownRunError
from concertino.events import (
    AttemptFailed,
    RunEnded,
    RunEvent,
    RunStarted,
    TextDelta,
    ToolDone,
    TurnCompleted,
    Voided,
)
from concertino.messages import AssistantMessage
from concertino.orchestrator import Limits, Retry
from concertino.runtime import Runtime
from concertino.storage import Store
from concertino.testing import Answer, ScriptedModel, call

from .kit import runtime, state

NOBODY = Scope()
Numbered = list[tuple[int, RunEvent]]


class Desk(AgentConfig):
    """Answers."""

    name = "desk"


async def read(process: Runtime, run_id: str, after: int = 0, *, until: Any = "ended", most: int = 10_000) -> Numbered:
    """Read to the end, or until *most* events were read."""
    found: Numbered = []
    async with aclosing(process.events(NOBODY, run_id, after, until=until)) as events:
        async for numbered in events:
            found.append(numbered)
            if len(found) == most:
                break
    return found


async def read_until(process: Runtime, run_id: str, text: str, found: Numbered) -> None:
    """Read into *found* until a piece of text contains *text*."""
    async with aclosing(process.events(NOBODY, run_id)) as events:
        async for numbered in events:
            found.append(numbered)
            if isinstance(numbered[1], TextDelta) and text in numbered[1].text:
                return


def shown(events: Numbered) -> str:
    """Return the text on a reader's screen: pieces in order, without what was voided."""
    pieces: dict[int, TextDelta] = {}
    for number, event in events:
        if isinstance(event, TextDelta):
            pieces[number] = event
        elif isinstance(event, Voided):
            pieces = {n: p for n, p in pieces.items() if not is_void(event, n, p)}
    return "".join(piece.text for piece in pieces.values())


def is_void(mark: Voided, number: int, piece: TextDelta) -> bool:
    """Apply the rule of docs/events.md."""
    mine = piece.run_id == mark.run_id and (not mark.attempt or piece.attempt == mark.attempt)
    return mine and mark.first <= number <= mark.last


async def test_a_browser_that_reconnects_to_the_next_process_sees_the_answer(store: Store) -> None:
    """Adoption, defect 4: the numbers began again, and the first events of the new process were skipped."""
    gate = asyncio.Event()
    first = ScriptedModel(Answer(text=" ".join(f"A{i}" for i in range(20)), midway=gate.wait))
    second = ScriptedModel(" ".join(f"B{i}" for i in range(40)))
    seen: Numbered = []
    async with Runtime([Desk()], Resources(store=store, models=lambda name: first)) as process:
        run = await process.start(Chat(model=first, message="x"), "desk")
        await read_until(process, run.id, "A9", seen)
    assert shown(seen).startswith("A0 ")
    async with Runtime([Desk()], Resources(store=store, models=lambda name: second)) as process:
        await process.resume(NOBODY, run.id)
        seen += await read(process, run.id, after=seen[-1][0])
        result = await process.result(NOBODY, run.id)
    numbers = [number for number, _ in seen]
    assert numbers == sorted(set(numbers))
    assert any(isinstance(event, Voided) for _, event in seen)
    assert any(isinstance(event, RunStarted) and event.resumed for _, event in seen)
    turn = next(event for _, event in seen if isinstance(event, TurnCompleted))
    assert turn.message.text == result.text == " ".join(f"B{i}" for i in range(40))
    assert result.text.startswith(shown(seen)) or shown(seen) == result.text
    assert isinstance(seen[-1][1], RunEnded)


async def test_another_process_follows_a_run_live(tmp_path: Path) -> None:
    """Capabilities, finding 6: a reader at another web worker saw nothing until the end."""
    gate = asyncio.Event()
    model = ScriptedModel(Answer(text="one two three four", midway=gate.wait))
    async with await SqliteStore.open(tmp_path / "r.db") as here, await SqliteStore.open(tmp_path / "r.db") as there:
        one, other = runtime(here, model, Desk()), runtime(there, model, Desk())
        run = await one.start(Chat(model=model, message="x"), "desk")
        assert other.live(NOBODY, run.id) is None
        seen: Numbered = []
        reader = asyncio.create_task(follow(other, run.id, seen))
        await state(lambda: any(isinstance(event, TextDelta) for _, event in seen))
        assert not any(isinstance(event, TurnCompleted) for _, event in seen)
        gate.set()
        await reader
        assert shown(seen) == "one two three four"
        assert [type(event) for _, event in seen].count(TurnCompleted) == 1
        assert isinstance(seen[-1][1], RunEnded)
        assert [number for number, _ in await read(other, run.id)] == [number for number, _ in await read(one, run.id)]
        await one.close()
        await other.close()


async def follow(process: Runtime, run_id: str, into: Numbered) -> None:
    """Read to the end, into a list that the test watches."""
    async for numbered in process.events(NOBODY, run_id):
        into.append(numbered)


async def test_every_reader_sees_the_same_numbers(store: Store) -> None:
    @tool(effect="read")
    async def look(place: int) -> str:
        """Look."""
        return f"seen {place}"

    model = ScriptedModel([call("look", place=1), call("look", place=2)], "end")
    agent = Desk()
    agent.tools = (look,)
    async with runtime(store, model, agent) as process:
        run = await process.start(Chat(model=model, message="x"), "desk")
        readers = await asyncio.gather(*(read(process, run.id) for _ in range(5)))
        late = dict(await read(process, run.id))
        for reader in readers:
            assert all(late[number] == plain(event) for number, event in reader if number in late)
        for after in (0, 1, max(late) // 2, max(late) - 1):
            assert [n for n, _ in await read(process, run.id, after)] == [n for n in sorted(late) if n > after]
        assert await read(process, run.id, max(late)) == []


def plain(event: RunEvent) -> RunEvent:
    """Return *event* as the store gives it back: the messages of a result are in the store already."""
    if isinstance(event, RunEnded):
        return dataclasses.replace(event, result=dataclasses.replace(event.result, messages=(), context=None))
    return event


async def test_the_pieces_of_a_retried_attempt_are_void(store: Store) -> None:
    model = ScriptedModel(Answer(text="wrong start", error=OverloadedError("busy")), "right")
    chat = Chat(model=model, message="x")
    async with runtime(store, model, Desk(), retry=Retry(attempts=2, first=0, restart=True)) as process:
        run = await process.start(chat, "desk")
        seen = [numbered async for numbered in run.events()]
        assert shown(seen) in ("", "right"), "a reader who came late gets the turn"
        failed = [event for _, event in seen if isinstance(event, AttemptFailed)]
        void = [event for _, event in seen if isinstance(event, Voided)]
        assert [event.attempt for event in void] == [failed[0].attempt]
        whole = await read(process, run.id)
        assert shown(whole) == "", "a late reader gets the turn instead of pieces"
        assert [e.message.text for _, e in whole if isinstance(e, TurnCompleted)] == ["right"]


@pytest.mark.parametrize("how", ["limit", "error", "stop"])
async def test_a_late_reader_gets_an_answer_that_was_cut_off(store: Store, how: str) -> None:
    gate = asyncio.Event()
    cut = {
        "limit": Answer(text="too long " * 500),
        "error": Answer(text="half of ", error=OverloadedError("busy")),
        "stop": Answer(text="half of the answer", midway=gate.wait),
    }
    model = ScriptedModel(cut[how], "Done.")

    def limits(*_: object) -> Limits:
        return Limits(output=100)

    async with runtime(store, model, Desk(), retry=Retry(attempts=1), limits=limits) as process:
        run = await process.start(Chat(model=model, message="x"), "desk")
        seen: Numbered = []
        if how == "stop":
            await read_until(process, run.id, "half", seen)
            await process.stop(NOBODY, run.id)
        result = await run.result()
        said = [each.text for each in result.messages if isinstance(each, AssistantMessage)]
        late = [event.message for _, event in await read(process, run.id) if isinstance(event, TurnCompleted)]
    assert len(said) == (2 if how == "limit" else 1)
    assert [each.text for each in late] == said
    assert late[0].stop_reason == "broken"


async def test_a_runtime_that_was_left_reads_what_is_stored_and_can_be_entered_again(store: Store) -> None:
    model = ScriptedModel("one", "two")
    process = runtime(store, model, Desk())
    async with process:
        first = await process.start(Chat("x", model=model), "desk")
        await first.result()
    assert await read(process, first.id) == await read(runtime(store, ScriptedModel(), Desk()), first.id)
    async with process:
        second = await process.start(Chat("x", model=model), "desk")
        assert isinstance((await read(process, second.id))[-1][1], RunEnded)


async def test_an_unknown_end_is_refused(store: Store) -> None:
    async with runtime(store, ScriptedModel(), Desk()) as process:
        with pytest.raises(ConfigurationError, match="invalid until 'suspend': choose from ended, suspended"):
            process.events(Scope(), "run_1", until="suspend")  # type: ignore[arg-type]  # on purpose


async def test_a_sub_agent_s_events_are_in_the_log_of_its_root(store: Store) -> None:
    """Its own id names no log, and the error names the one to read."""

    class Clerk(AgentConfig[None]):
        name = "clerk"

    class Boss(Desk):
        tools = (delegate(Clerk(), description="Look something up."),)

    model = ScriptedModel(call("clerk", query="look"), "found", "Done.")
    process = runtime(store, model, Boss())
    run = await process.start(Chat("go", model="scripted"), "desk")
    result = await run.result()
    (child,) = {event.run_id for _, event in await read(process, run.id)} - {result.run_id}
    with pytest.raises(
        RunStateError, match=f"{child} is a sub-agent's: its events are in the log of its root, {run.id}"
    ):
        await read(process, child)
    with pytest.raises(UnknownRunError):
        await anext(process.events(Scope("acme", "ann"), child))


async def test_another_scope_finds_no_run(store: Store) -> None:
    model = ScriptedModel("secret")
    async with runtime(store, model, Desk()) as process:
        run = await process.start(Chat(model=model, message="x"), "desk")
        await run.result()
        for scope in (Scope("acme", "ann"), Scope("acme"), Scope("", "ann"), TenantScope("acme")):
            for run_id in (run.id, "run_unknown"):
                with pytest.raises(UnknownRunError, match="there is no run"):
                    await anext(process.events(scope, run_id))


@pytest.mark.parametrize(("policy", "text"), [(DataPolicy(text="redact"), "[redacted]"), (DataPolicy(text="drop"), "")])
async def test_stored_events_obey_the_data_policy(tmp_path: Path, policy: DataPolicy, text: str) -> None:
    class Discreet(AgentConfig):
        name = "desk"

        def get_data_policy(self) -> DataPolicy:
            return policy

    model = ScriptedModel("canary-text")
    async with await SqliteStore.open(tmp_path / "r.db") as store:
        async with runtime(store, model, Discreet()) as process:
            run = await process.start(Chat(model=model, message="canary-question"), "desk")
            await run.result()
            await run.recorded()
            assert [e.result.text for _, e in await read(process, run.id) if isinstance(e, RunEnded)] == [text]
        page = await store.events(NOBODY, run.id)
        assert "canary" not in repr(page)
    assert b"canary-text" not in (tmp_path / "r.db").read_bytes()


async def test_content_that_is_kept_for_a_time_is_streamed(store: Store) -> None:
    class Timed(AgentConfig):
        name = "desk"

        def get_data_policy(self) -> DataPolicy:
            return DataPolicy(text=KeepFor(3600))

    model = ScriptedModel("the answer")
    async with runtime(store, model, Timed()) as process:
        run = await process.start(Chat(model=model, message="x"), "desk")
        await run.result()
        assert [e.message.text for _, e in await read(process, run.id) if isinstance(e, TurnCompleted)] == [
            "the answer"
        ]


async def test_erasing_a_user_erases_the_events(store: Store) -> None:
    model = ScriptedModel("the answer")
    async with runtime(store, model, Desk()) as process:
        chat = Chat(model=model, message="x", scope=Scope("acme", "ann"))
        run = await process.start(chat, "desk")
        await run.recorded()
        scope = Scope("acme", "ann")
        assert [event async for _, event in process.events(scope, run.id)]
        await store.erase(scope)
        with pytest.raises(UnknownRunError):
            await anext(process.events(scope, run.id))
        assert (await store.events(Scope("acme"), run.id)).rows == ()


async def test_a_waiting_run_is_followed_through_its_approval(store: Store) -> None:
    from concertino import Ask

    @tool
    async def pay() -> str:
        """Pay."""
        return "paid"

    class Clerk(AgentConfig):
        name, tools = "desk", (pay,)

        def authorize_tool_call(self, run: Any, call: Any, arguments: Any) -> Ask:
            return Ask()

    model = ScriptedModel(call("pay"), "done")
    async with runtime(store, model, Clerk()) as process:
        run = await process.start(Chat(model=model, message="x"), "desk")
        whole = asyncio.create_task(read(process, run.id))
        part = await read(process, run.id, until="suspended")
        assert isinstance(part[-1][1], RunEnded)
        assert part[-1][1].result.status == "suspended"
        await process.approve(NOBODY, part[-1][1].result.waiting[0].key)
        seen = await whole
    assert seen[-1][1].result.status == "completed"
    assert [event.content for _, event in seen if isinstance(event, ToolDone)] == ["paid"]
    assert not [event for _, event in seen if isinstance(event, Voided)], "nothing was undone"


async def test_a_run_that_ended_without_a_process_ends_its_log(store: Store) -> None:
    from concertino import Ask

    @tool
    async def pay() -> str:
        """Pay."""
        return "paid"

    class Clerk(AgentConfig):
        name, tools = "desk", (pay,)

        def authorize_tool_call(self, run: Any, call: Any, arguments: Any) -> Ask:
            return Ask()

    model = ScriptedModel(call("pay"))
    async with runtime(store, model, Clerk()) as process:
        run = await process.start(Chat(model=model, message="x"), "desk")
        await run.result()
        reader = asyncio.create_task(read(process, run.id))
        await process.stop(NOBODY, run.id)
        seen = await reader
        assert seen[-1][1].result.status == "cancelled"
        assert await read(process, run.id) == seen or dict(seen).items() >= dict(await read(process, run.id)).items()


async def test_the_work_per_delta_does_not_grow(store: Store) -> None:
    """Hostile input, M4: the work was quadratic. Counted in calls, so that no clock decides."""
    few, many = [await calls(store, words) for words in (4_000, 16_000)]
    assert many < 8 * few, "four times as much, not sixteen times; how many batches there are depends on the clock"


async def calls(store: Store, words: int) -> int:
    """Count the calls of Python functions for an answer of *words* pieces with three readers."""
    count = 0

    def note(frame: Any, event: str, _: Any) -> None:
        nonlocal count
        count += event == "call"

    model = ScriptedModel(Answer(text="a " * words))
    async with runtime(store, model, Desk(), sweep=3600) as process:
        run = await process.start(Chat(model=model, message="x"), "desk")
        sys.setprofile(note)
        try:
            await asyncio.gather(*(read(process, run.id, most=10**6) for _ in range(3)))
        finally:
            sys.setprofile(None)
    return count


async def test_a_reader_that_never_reads_and_many_deltas_cost_no_memory(store: Store) -> None:
    def pieces() -> int:
        gc.collect()
        return sum(isinstance(each, TextDelta) for each in gc.get_objects())

    words, before = 16_000, pieces()
    model = ScriptedModel(Answer(text="a " * words))
    async with runtime(store, model, Desk()) as process:
        run = await process.start(Chat(model=model, message="x"), "desk")
        never = process.events(NOBODY, run.id)
        assert await anext(never)
        result = await run.result()
        await run.recorded()
        assert pieces() - before <= 2_000, "a page and a tail"
        assert result.text == "a " * words
        await never.aclose()
