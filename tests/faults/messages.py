"""Faults 10 to 15, 23, 25, 32, 33, 35, 37 and 38: what people, other processes and old rows do to a run."""

from __future__ import annotations

import asyncio
import signal
from contextlib import aclosing, suppress

import pytest

from concertino import OPERATOR
from concertino.errors import RunStateError, UnknownWaitError
from concertino.messages import ToolMessage
from concertino.runtime import ConversationTurn
from concertino.waits import Wait

from .table import fault
from .world import ANN, CARLA, Case, until


async def waits_of(case: Case, turn: ConversationTurn, many: int) -> list[Wait]:
    """Wait until a turn waits for so much, and return its waits in the order of its calls."""

    async def waits() -> list[Wait]:
        run = await case.store.run(OPERATOR, turn.id)
        found = await case.store.waits(OPERATOR, root_id=turn.id, open=False)
        return list(found) if len(found) == many and run is not None and run.state == "suspended" else []

    return sorted(await until(waits), key=lambda wait: wait.key)


async def results(turn: ConversationTurn) -> list[str]:
    """Return the results of a turn's calls."""
    return [message.content for message in await turn.messages() if isinstance(message, ToolMessage)]


@fault(10, "two workers, one agent, many wake-ups, each message ten times")
async def woken_too_often(case: Case) -> None:
    async with case.web() as runtime:
        workers = [await case.worker(), await case.worker()]
        turns = []
        for number in range(4):
            sent = await asyncio.gather(*(case.send("pay", key=f"message {number}") for _ in range(10)))
            assert len({turn.id for turn in sent}) == 1
            turns.append(sent[0])
            for _ in range(100):
                case.ring("desks")
        await case.settled()
        conversation = await runtime.conversation(CARLA, "c1")
        started = await runtime.store.started_turns(CARLA, conversation.id, after="")
        assert list(started) == [turn.id for turn in turns], "in the order of the messages"
        for worker in workers:
            assert await worker.drained()


@fault(11, "wake-ups for nothing: unknown targets, ended and deleted conversations, before the row")
async def woken_for_nothing(case: Case) -> None:
    async with case.web() as runtime:
        worker = await case.worker()
        await case.send("hello")
        gone = await case.send("hello", "c2")
        await case.settled()
        await (await runtime.conversation(CARLA, "c2")).delete()
        case.accepted.remove(gone)
        for target in ("nobody", "desks", "batch"):
            case.ring(target)
        turn = await case.send("pay", "c3")
        await case.settled()
        assert (await turn.read()).answer == "all is paid"
        assert await worker.drained()


@fault(12, "a result comes ten times and from two processes, too late, and for an unknown call")
async def answered_too_often(case: Case) -> None:
    async with case.web() as runtime, case.process() as (other, _):
        turn = await case.send("wait")
        worker = await case.worker()
        first, second, late = await waits_of(case, turn, 3)
        answers = [(each, number) for each in (runtime, other) for number in range(10)]
        case.chance.shuffle(answers)
        done = await asyncio.gather(
            *(each.resolve(OPERATOR, first.key, f"{number}") for each, number in answers),
        )
        assert sum(each.won for each in done) == 1
        await runtime.resolve(OPERATOR, second.key, "second")
        with pytest.raises(UnknownWaitError):
            await runtime.resolve(OPERATOR, f"{turn.id}:9.9", "nobody asked")
        await case.settled()
        with suppress(RunStateError):
            assert not (await runtime.resolve(OPERATOR, late.key, "too late")).won
        won = next(each for each in done if each.won)
        assert won.wait.resolution is not None
        told = await results(turn)
        assert told[:2] == [won.wait.resolution.content, "second"]
        assert "too late" not in told
        assert await worker.drained()


@fault(13, "results out of order, and a missing one")
async def answered_out_of_order(case: Case) -> None:
    async with case.web() as runtime:
        turn = await case.send("wait")
        worker = await case.worker()
        first, second, _ = await waits_of(case, turn, 3)
        await runtime.resolve(OPERATOR, second.key, "the second")
        await runtime.resolve(OPERATOR, first.key, "the first")
        await case.settled()
        assert (await results(turn))[:2] == ["the first", "the second"]
        assert (await turn.read()).answer == "the waits are over"
        assert await worker.drained()


@fault(14, "a tool never answers, and two watchdogs see it")
async def never_answered(case: Case) -> None:
    async with case.web() as runtime:
        turn = await case.send("wait")
        workers = [await case.worker(sweep=0.05), await case.worker(sweep=0.05)]
        first, second, late = await waits_of(case, turn, 3)
        for wait in (first, second):
            await runtime.resolve(OPERATOR, wait.key, "in time")
        await case.settled()
        answered = await case.store.wait(OPERATOR, late.key)
        assert answered is not None
        assert answered.resolution is not None
        assert answered.resolution.verdict == "expired"
        for worker in workers:
            assert await worker.drained()


@fault(15, "an approval is never answered")
async def never_approved(case: Case) -> None:
    async with case.web():
        turn = await case.send("sign")
        worker = await case.worker(seconds=0.3)
        await case.settled(approve=False)
        assert (await turn.read()).state == "completed"
        assert case.effects("sign") == 0
        assert await worker.drained()


@fault(15, "an approval is answered twice, and after the run was cancelled")
async def approved_twice(case: Case) -> None:
    async with case.web() as runtime:
        one, two = await case.send("sign"), await case.send("sign", "c2")
        worker = await case.worker()
        (wait,), (other,) = await waits_of(case, one, 1), await waits_of(case, two, 1)
        yes = case.chance.random() < 0.5
        answers = [runtime.approve(ANN, wait.key), runtime.deny(ANN, wait.key)]
        first, second = [await each for each in (answers if yes else reversed(answers))]
        assert (first.won, second.won) == (True, False)
        await runtime.stop(CARLA, two.id)
        with suppress(RunStateError):
            assert not (await runtime.approve(ANN, other.key)).won
        await case.settled(approve=False)
        assert case.effects("sign") == yes
        assert await worker.drained()


@fault(23, "the clocks of workers are ten minutes wrong", "postgres")
async def wrong_clocks(case: Case) -> None:
    async with case.web() as runtime:
        turn = await case.send("wait")
        early = await case.worker(skew=-600.0)
        first, second, _ = await waits_of(case, turn, 3)
        early.send(signal.SIGKILL)
        late = await case.worker(skew=600.0)
        other = await case.send("work", "c2")
        for wait in (first, second):
            await runtime.resolve(OPERATOR, wait.key, "in time")
        await case.settled()
        assert {(await each.read()).state for each in (turn, other)} == {"completed"}
        assert await late.drained()


@fault(25, "an entry of the journal is damaged, and repaired later")
async def damaged_journal(case: Case) -> None:
    async with case.web() as runtime:
        turn, other = await case.send("pay"), await case.send("pay", "c2")
        assert await case.killed_at("append:model_answered:after")
        damaged = await case.store.run(OPERATOR, turn.id)
        if damaged is None or damaged.entries < 2:  # the other one was first
            turn, other = other, turn
        statement = "UPDATE journal SET body = ? WHERE seq = 1 AND run = (SELECT number FROM runs WHERE run_id = ?)"
        kept = case.read(
            "SELECT body FROM journal WHERE seq = 1 AND run = (SELECT number FROM runs WHERE run_id = ?)", turn.id
        )
        case.execute(statement, case.chance.choice(["{", "[]", '{"request": 7}']), turn.id)
        worker = await case.worker()

        async def is_set_aside() -> bool:
            run = await case.store.run(OPERATOR, turn.id)
            return run is not None and run.state == "dead_letter"

        await until(is_set_aside)
        case.execute(statement, kept, turn.id)
        await runtime.retry(OPERATOR, turn.id)
        await case.settled()
        assert {(await each.read()).state for each in (turn, other)} == {"completed"}
        assert await worker.drained()


@fault(25, "the message of a queued turn is damaged")
async def damaged_message(case: Case) -> None:
    async with case.web():
        turn, other = await case.send("pay"), await case.send("hello")
        case.execute(
            "UPDATE conversation_texts SET body = ? WHERE kind = 'input' AND turn = "
            "(SELECT number FROM turns WHERE run_id = ?)",
            case.chance.choice(["{", "[]", '{"message": 7}']),
            turn.id,
        )
        await case.finish()
        assert (await turn.read()).state == "failed"
        assert (await other.read()).state == "completed"


@fault(32, "the client cancels: in the queue, in the model call, in a tool, in a wait, twice")
async def cancelled(case: Case) -> None:
    async with case.web() as runtime:
        moment = case.chance.choice(["queue", "model", "tool", "wait", "anywhere"])
        text = {"model": "hello", "tool": "hold", "wait": "sign"}.get(moment, "pay")
        (case.folder / "hold").touch()
        if moment == "model":
            case.refuse({"stall": 1})
        turn = await case.send(text)
        worker = None if moment == "queue" else await case.worker(lease=30.0)
        match moment:
            case "queue":
                assert await (await runtime.conversation(CARLA, "c1")).withdraw(turn.id)
                case.accepted.remove(turn)
            case "model":
                await until(case.calls)
            case "tool":
                await until(lambda: case.effects("note"))
            case "wait":
                await waits_of(case, turn, 1)
            case _:
                await until(lambda: case.store.run(OPERATOR, turn.id))
                await asyncio.sleep(case.chance.uniform(0.0, 0.1))
        if worker is not None:
            await asyncio.gather(*(runtime.stop(CARLA, turn.id) for _ in range(2)), return_exceptions=True)
            await case.settled(approve=False)
        again = await case.send("hello")
        if worker is None:
            worker = await case.worker()
        await case.settled()
        assert (await again.read()).state == "completed"
        assert await worker.drained()


@fault(33, "the client disconnects, and reads on from its last event")
async def disconnected(case: Case) -> None:
    async with case.web():
        turn = await case.send("pay")
        worker = await case.worker()
        seen: list[int] = []
        ended = False
        while not ended:
            left = case.chance.randint(1, 4)
            async with aclosing(turn.events(seen[-1] if seen else 0)) as events:
                ended = True
                async for number, _ in events:
                    seen.append(number)
                    left -= 1
                    if not left:
                        ended = False
                        break
        whole = [number async for number, _ in turn.events()]
        assert seen == sorted(set(seen)), "nothing twice"
        assert set(whole) <= set(seen), "no gap"
        assert await worker.drained()


@fault(35, "the next version no longer has a tool that was called")
async def upgraded(case: Case) -> None:
    async with case.web():
        turn = await case.send("pay")
        assert await case.killed_at("append:model_answered:(before|after)")
        await case.finish(without=("mail",))
        stored = await turn.read()
        assert stored.state == "completed" or "mail" in (stored.error or "")


@fault(35, "kill -9 in the middle of the migration", "postgres", empty=True)
async def killed_in_the_migration(case: Case) -> None:
    for _ in range(3):
        worker = await case.worker()
        await asyncio.sleep(case.chance.uniform(0.0, 0.2))
        worker.send(signal.SIGKILL)
        await worker.killed()
    async with case.web():
        turn = await case.send("pay")
        await case.finish()
        assert (await turn.read()).state == "completed"


@fault(37, "many parked runs wake at once")
async def woken_at_once(case: Case) -> None:
    async with case.web():
        turns = [await case.send("sign", f"c{number}") for number in range(MANY)]
        first = await case.worker()

        async def all_wait() -> bool:
            return len(await case.store.waits(OPERATOR, limit=1000)) == MANY

        await until(all_wait)
        assert await first.drained()
        await case.approve()
        workers = [await case.worker(coroutines=2), await case.worker(coroutines=2)]
        await case.settled()
        assert case.effects("sign") == MANY
        assert {(await turn.read()).state for turn in turns} == {"completed"}
        for worker in workers:
            assert await worker.drained()


MANY = 20


@fault(38, "many messages to one conversation while others go on")
async def flooded(case: Case) -> None:
    async with case.web():
        flood = [await case.send("hello") for _ in range(MANY)]
        others = [await case.send("hello", f"c{number}") for number in range(2, 5)]
        await case.finish(coroutines=4)
        last = await case.store.run(OPERATOR, flood[-1].id)
        assert last is not None
        assert last.end is not None
        for turn in others:
            run = await case.store.run(OPERATOR, turn.id)
            assert run is not None
            assert run.end is not None
            assert run.end.ended < last.end.ended
