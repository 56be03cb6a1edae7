"""Calls of a target, in every store: one process takes a call, and the end of its run answers it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest

from concertino import OPERATOR, Scope
from concertino.errors import BudgetError, ConfigurationError, RunEndedError
from concertino.storage import Budget, Claim, Consumer, Reservation, Settlement
from concertino.waits import Resolution

from .kit import SCOPE, FullStore, Tree, end, record, result_of, start, start_tree, wait
from .store_conversations import queued

REPLY = Resolution(verdict="result", id="mine", content="three", by="clerk")


async def calling(store: FullStore, run_id: str = "r1", *keys: str, **changes: Any) -> Tree:
    """A tree that waits for calls of the target `batch`."""
    tree = await start_tree(store, run_id)
    changes = {"kind": "result", "who": (), "target": "batch", "task": '{"agent":"clerk"}', **changes}
    waits = [wait(key, run_id, **changes) for key in keys or ("w1",)]
    await tree.append("suspended", waits=waits)
    await store.release(tree.claim)
    return tree


async def called(store: FullStore, run_id: str = "r2", *, payer: str = "", **changes: Any) -> Tree:
    """A root run that works for the call `w1` of `r1`."""
    changes = {"parent_id": "r1", "parent_call": "w1", "agent": "clerk", "agent_path": "supervisor/clerk-1", **changes}
    claim = Claim(root_id=run_id, scope=SCOPE, epoch=1, owner="me", seconds=60.0, payer=payer)
    return await Tree(store, claim).begin(start(run_id, **changes))


async def stopped(store: FullStore, run_id: str = "r2") -> bool:
    run = await store.run(OPERATOR, run_id)
    assert run is not None
    return run.stop


async def test_a_call_is_taken_by_its_target_and_again_after_a_while(store: FullStore) -> None:
    await calling(store, "r1", "w1", "w2")
    assert list(await store.claim_calls(OPERATOR, 60.0, targets=["other"])) == []
    assert list(await store.claim_calls(OPERATOR, 60.0, targets=[])) == []
    (first,) = await store.claim_calls(OPERATOR, 60.0, targets=["batch", "other"], limit=1)
    assert (first.scope, first.wait.key, first.wait.target) == (SCOPE, "w1", "batch")
    assert dict(first.task) == {"agent": "clerk"}
    assert 0 <= first.waited < 3_600, "by the store's clock"
    (second,) = await store.claim_calls(OPERATOR, 0.0)
    assert second.wait.key == "w2"
    assert [call.wait.key for call in await store.claim_calls(OPERATOR, 60.0)] == ["w2"]
    assert list(await store.claim_calls(OPERATOR, 60.0)) == []


async def test_a_postponed_call_is_left_to_other_processes(store: FullStore) -> None:
    await calling(store)
    (taken,) = await store.claim_calls(OPERATOR, 60.0)
    await store.postpone_call(OPERATOR, taken, 0.0)
    assert [call.wait.key for call in await store.claim_calls(OPERATOR, 0.0)] == ["w1"]
    await called(store)
    await store.postpone_call(OPERATOR, taken, 0.0)
    assert list(await store.claim_calls(OPERATOR, 60.0)) == [], "its run works for it"


async def test_calls_that_are_taken_together_keep_their_order(store: FullStore) -> None:
    await calling(store, "r1", "w3", "w1", "w2")
    first = [call.wait.key for call in await store.claim_calls(OPERATOR, 0.0)]
    assert first == ["w3", "w1", "w2"]
    await store.claim_calls(OPERATOR, -60.0)
    assert [call.wait.key for call in await store.claim_calls(OPERATOR, 0.0)] == first


async def test_only_overdue_calls_are_taken(store: FullStore) -> None:
    await calling(store)
    assert list(await store.claim_calls(OPERATOR, 60.0, overdue=60.0)) == []
    await store.claim_calls(OPERATOR, -60.0)
    assert [call.wait.key for call in await store.claim_calls(OPERATOR, 60.0, overdue=60.0)] == ["w1"]
    assert list(await store.claim_calls(OPERATOR, 60.0)) == []


async def test_a_wait_without_a_target_is_no_call(store: FullStore) -> None:
    await calling(store, target="")
    assert list(await store.claim_calls(OPERATOR, 60.0)) == []
    with pytest.raises(ConfigurationError, match="only the operator"):
        await store.claim_calls(SCOPE, 60.0)  # type: ignore[arg-type]


async def test_the_end_of_the_run_answers_its_call(store: FullStore) -> None:
    await calling(store)
    await store.claim_calls(OPERATOR, 0.0)
    tree = await called(store)
    assert list(await store.claim_calls(OPERATOR, 60.0)) == [], "its run works for it"
    assert list((await store.due(OPERATOR)).ready) == []
    await tree.append("ended", end=end(reply=REPLY))
    answer = await store.wait(SCOPE, "w1")
    assert answer is not None
    assert answer.resolution is not None
    assert replace(answer.resolution, at=0.0) == REPLY
    assert list((await store.due(OPERATOR)).ready) == ["r1"]
    assert not await stopped(store)
    run = await store.run(SCOPE, "r2")
    assert run is not None
    assert (run.start.parent_id, run.start.parent_call) == ("r1", "w1")


async def test_a_call_that_has_an_answer_gets_no_run(store: FullStore) -> None:
    await calling(store)
    await store.resolve(OPERATOR, "w1", result_of("elsewhere"))
    assert list(await store.claim_calls(OPERATOR, 60.0)) == []
    with pytest.raises(RunEndedError, match="waits for no result"):
        await called(store)
    assert await store.run(OPERATOR, "r2") is None


async def test_a_call_whose_deadline_has_passed_gets_no_run(store: FullStore) -> None:
    await calling(store, expires=0.0)
    with pytest.raises(RunEndedError, match="waits for no result"):
        await called(store)


@pytest.mark.parametrize("how", ["answer", "end"])
async def test_a_run_stops_when_its_call_is_answered_without_it(store: FullStore, how: str) -> None:
    await calling(store)
    tree = await called(store)
    other = await start_tree(store, "r9")
    if how == "answer":
        await store.resolve(OPERATOR, "w1", result_of("elsewhere"))
    else:
        claimed = Tree(store, await store.claim(OPERATOR, "r1", "you", 60.0))
        claimed.next["r1"] = 2
        await claimed.end()
    assert await stopped(store)
    assert list((await store.due(OPERATOR)).stopping) == ["r2"]
    assert not await stopped(store, other.claim.root_id)
    await tree.append("ended", end=end(reply=REPLY))  # the answer that came first counts
    answer = await store.wait(SCOPE, "w1")
    assert answer is not None
    assert answer.resolution is not None
    assert answer.resolution.content == ("elsewhere" if how == "answer" else "")


async def test_a_deadline_stops_the_run_of_the_call(store: FullStore) -> None:
    for n in range(8):  # until the run starts before the deadline, however slow the machine is
        await calling(store, f"r1-{n}", f"w{n}", expires=0.02 * 4**n)
        with suppress(RunEndedError):
            await called(store, parent_id=f"r1-{n}", parent_call=f"w{n}")
            break
    while not await stopped(store):
        await store.due(OPERATOR)
    assert f"r1-{n}" in (await store.due(OPERATOR)).ready


async def test_usage_of_the_run_is_part_of_the_callers_bill(store: FullStore) -> None:
    tree = await calling(store)
    below = await called(store)
    await below.append("suspended", waits=[wait("w2", "r2", kind="result", target="batch")])
    deep = await called(store, "r3", parent_id="r2", parent_call="w2")
    for one, run_id in ((below, "r2"), (deep, "r3")):
        await one.append("model_answered", usage=[record(run_id=run_id)])
    assert [each.run_id for each in await store.usage(SCOPE, "r1")] == ["r2", "r3"]
    assert [each.run_id for each in await store.usage(SCOPE, "r2")] == ["r2", "r3"]
    assert [each.run_id for each in await store.usage(SCOPE, "r3")] == ["r3"]
    assert list(await store.usage(Scope("o1", "u2"), "r1")) == []
    (total,) = await store.usage_sums(SCOPE, [])
    assert total.attempts == 2
    assert tree.claim.root_id == "r1"


async def test_the_callers_account_pays(store: FullStore) -> None:
    await store.set_budget(SCOPE, Budget(tokens=100), run_id="r1")
    await calling(store)
    tree = await called(store, payer="r1")
    await tree.append(reserve=Reservation(id="a1", tokens=80, money=None))
    with pytest.raises(BudgetError):
        await tree.append(reserve=Reservation(id="a2", tokens=30, money=None))
    await tree.append("model_answered", settle=[Settlement(id="a1", tokens=40, money=Decimal(0))])
    (account,) = await store.accounts(SCOPE, run_id="r1")
    assert (account.spent_tokens, account.reserved_tokens) == (40, 0)


async def test_erasure_takes_the_task(store: FullStore) -> None:
    await calling(store)
    await store.erase(SCOPE, force=True)
    assert list(await store.claim_calls(OPERATOR, 60.0)) == []
    assert await store.wait(OPERATOR, "w1") is None


async def test_a_target_has_one_consumer_at_a_time(store: FullStore) -> None:
    assert await store.claim_target(OPERATOR, "svc1_a", "me", 60.0) == "me"
    assert await store.claim_target(OPERATOR, "svc1_a", "you", 60.0) == "me"
    assert await store.claim_target(OPERATOR, "svc1_b", "you", 60.0) == "you"
    assert await store.claim_target(OPERATOR, "svc1_a", "me", 0.0) == "me", "it may shorten its own lease"
    assert await store.claim_target(OPERATOR, "svc1_a", "you", 60.0) == "you"
    await store.leave_target(OPERATOR, "svc1_a", "me")
    assert await store.claim_target(OPERATOR, "svc1_a", "me", 60.0) == "you"
    await store.leave_target(OPERATOR, "svc1_a", "you")
    assert await store.claim_target(OPERATOR, "svc1_a", "me", 60.0) == "me"
    with pytest.raises(ConfigurationError, match="only the operator"):
        await store.claim_target(SCOPE, "svc1_a", "me", 60.0)  # type: ignore[arg-type]


async def test_a_consumer_that_has_lost_a_target_claims_nothing(store: FullStore) -> None:
    await calling(store)
    tree = await start_tree(store, "r2")
    await store.release(tree.claim)
    await store.open_conversation(SCOPE, "c1", "supervisor")
    await store.queue_turn(SCOPE, "c1", queued("q1"), when="always")
    for target in ("svc1_a", "svc1_b"):
        await store.claim_target(OPERATOR, target, "me", 60.0)
    me = Consumer(owner="me", targets=("svc1_a", "svc1_b"))
    await store.claim_target(OPERATOR, "svc1_b", "me", 0.0)
    for why in ("its lease has ended", "another consumer has it"):
        assert list(await store.claim_calls(OPERATOR, 60.0, consumer=me)) == [], why
        assert list(await store.claim_due(OPERATOR, "me", 60.0, consumer=me)) == [], why
        assert list(await store.claim_turns(OPERATOR, 60.0, consumer=me)) == [], why
        await store.claim_target(OPERATOR, "svc1_b", "you", 60.0)
    await store.leave_target(OPERATOR, "svc1_b", "you")
    await store.claim_target(OPERATOR, "svc1_b", "me", 60.0)
    assert [call.wait.key for call in await store.claim_calls(OPERATOR, 60.0, consumer=me)] == ["w1"]
    assert [claim.root_id for claim in await store.claim_due(OPERATOR, "me", 60.0, consumer=me)] == ["r2"]
    assert [due.turn.run_id for due in await store.claim_turns(OPERATOR, 60.0, consumer=me)] == ["q1"]


async def work_of(store: FullStore, agents: Sequence[str] | None, consumer: Consumer | None) -> set[str]:
    """Return the trees and turns that a process may claim now, and let others claim them again."""
    trees = await store.claim_due(OPERATOR, "you", 60.0, agents=agents, consumer=consumer)
    for claim in trees:
        await store.release(claim)
    turns = await store.claim_turns(OPERATOR, 0.0, agents=agents, consumer=consumer)
    return {claim.root_id for claim in trees} | {due.turn.run_id for due in turns}


async def calls_of(store: FullStore, targets: Sequence[str] | None, consumer: Consumer | None) -> set[str]:
    """Return the calls that a process may claim now, and let others claim them again."""
    return {call.wait.key for call in await store.claim_calls(OPERATOR, 0.0, targets=targets, consumer=consumer)}


async def test_the_work_of_a_consumer_is_left_to_it(store: FullStore) -> None:
    """Also by processes that do not know the targets, or know the agent as one of another target."""
    for run_id, target in (("r1", "svc1_a"), ("r2", "batch")):
        await calling(store, run_id, f"w{run_id}", target=target)
    agents = ["supervisor", "tool:svc1_a:dig", "tool:svc1_ab:dig", "other"]
    for agent in agents:
        await store.release((await start_tree(store, f"run of {agent}", agent=agent)).claim)
    for agent in ("supervisor", "other"):
        await store.open_conversation(SCOPE, f"c of {agent}", agent)
        await store.queue_turn(SCOPE, f"c of {agent}", queued(f"turn of {agent}"), when="always")
    await store.claim_target(OPERATOR, "svc1_a", "me", 60.0, ["supervisor", "another"])
    await store.claim_target(OPERATOR, "svc1_other", "you", 60.0)
    me, you = Consumer(owner="me", targets=["svc1_a"]), Consumer(owner="you", targets=["svc1_other"])
    free = {"run of tool:svc1_ab:dig", "run of other", "turn of other"}
    own = {"run of supervisor", "run of tool:svc1_a:dig", "turn of supervisor"}
    for asked in (None, agents):
        for other in (None, you):
            assert await work_of(store, asked, other) == free
        assert await work_of(store, asked, me) == free | own
    for targets in (None, ["svc1_a", "batch"]):
        for other in (None, you):
            assert await calls_of(store, targets, other) == {"wr2"}
        assert await calls_of(store, targets, me) == {"wr1", "wr2"}


async def test_a_doubtful_tree_is_left_to_the_consumer_of_its_target(store: FullStore) -> None:
    for agent in ("supervisor", "other"):
        await start_tree(store, f"run of {agent}", agent=agent, seconds=0.0)
        await store.claim(OPERATOR, f"run of {agent}", "dead", 0.0)
    await store.claim_target(OPERATOR, "svc1_a", "me", 60.0, ["supervisor"])
    found = await store.due(OPERATOR)
    assert (sorted(found.orphaned), list(found.doubtful)) == (["run of other", "run of supervisor"], ["run of other"])
    me = Consumer(owner="me", targets=["svc1_a"])
    assert sorted((await store.due(OPERATOR, consumer=me)).doubtful) == ["run of other", "run of supervisor"]


@pytest.mark.parametrize("how", ["leaves", "dies"])
async def test_the_work_of_a_consumer_is_free_after_it(store: FullStore, how: str) -> None:
    await calling(store, "r1", target="svc1_a")
    await store.release((await start_tree(store, "r2")).claim)
    await store.open_conversation(SCOPE, "c1", "supervisor")
    await store.queue_turn(SCOPE, "c1", queued("q1"), when="always")
    await store.claim_target(OPERATOR, "svc1_a", "me", 60.0, ["supervisor"])
    if how == "leaves":
        await store.leave_target(OPERATOR, "svc1_a", "me")
    else:
        await store.claim_target(OPERATOR, "svc1_a", "me", 0.0, ["supervisor"])  # the end of its lease
    assert [claim.root_id for claim in await store.claim_due(OPERATOR, "you", 60.0)] == ["r2"]
    assert [due.turn.run_id for due in await store.claim_turns(OPERATOR, 60.0)] == ["q1"]
    assert [call.wait.key for call in await store.claim_calls(OPERATOR, 60.0)] == ["w1"]


async def test_two_consumers_that_name_an_agent_do_not_block_each_other(store: FullStore) -> None:
    """As while an agent moves to another target, process by process."""
    await store.release((await start_tree(store)).claim)
    for target, owner in (("svc1_a", "me"), ("svc1_b", "you")):
        await store.claim_target(OPERATOR, target, owner, 60.0, ["supervisor"])
    for owner, target in (("me", "svc1_a"), ("you", "svc1_b")):
        assert await work_of(store, ["supervisor"], Consumer(owner=owner, targets=[target])) == {"r1"}
    assert await work_of(store, ["supervisor"], None) == set()


async def test_one_of_concurrent_consumers_wins(store: FullStore) -> None:
    held = await asyncio.gather(*(store.claim_target(OPERATOR, "svc1_a", f"p{n}", 60.0) for n in range(10)))
    assert len(set(held)) == 1
