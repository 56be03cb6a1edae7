"""When trees are due, in every store: by their lease, their answers, postponements and commands."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from concertino import OPERATOR
from concertino.errors import (
    ConfigurationError,
    RunClaimedError,
    RunEndedError,
    RunStateError,
    StorageError,
    UnknownRunError,
)
from concertino.storage import Claim, StoredRun, process_owner
from concertino.waits import Resolution

from .kit import SCOPE, FullStore, claim_tree, operation, result_of, start_tree, wait


async def stored(store: FullStore, run_id: str = "r1") -> StoredRun:
    run = await store.run(OPERATOR, run_id)
    assert run is not None
    return run


async def due_trees(store: FullStore) -> tuple[list[str], list[str]]:
    """Return the ready and the orphaned trees."""
    found = await store.due(OPERATOR)
    return list(found.ready), list(found.orphaned)


async def test_a_running_tree_is_due_when_its_lease_ends(store: FullStore) -> None:
    tree = await start_tree(store, seconds=3600.0)
    assert (await stored(store)).ready_at == pytest.approx(time.time() + 3600, abs=60)
    await store.renew(tree.claim, 7200.0)
    assert (await stored(store)).ready_at == pytest.approx(time.time() + 7200, abs=60)
    assert await due_trees(store) == ([], [])
    await store.renew(tree.claim, 0.0)
    assert await due_trees(store) == ([], ["r1"])
    await store.renew(tree.claim, 3600.0)
    assert await due_trees(store) == ([], [])
    await store.release(tree.claim)
    assert await due_trees(store) == ([], ["r1"])
    tree = await claim_tree(store)
    await tree.end()
    assert (await stored(store)).ready_at is None
    await store.release(tree.claim)
    assert await due_trees(store) == ([], [])


async def test_a_suspended_tree_is_due_when_it_is_answered(store: FullStore) -> None:
    tree = await start_tree(store)
    await tree.append("suspended", waits=[wait()])
    await store.release(tree.claim)
    assert (await stored(store)).ready_at is None
    await store.resolve(OPERATOR, "w1", result_of())
    assert (await stored(store)).ready_at is not None
    assert await due_trees(store) == (["r1"], [])


async def test_an_answer_makes_a_tree_due_once(store: FullStore) -> None:
    """A later suspension in the same turn must not find the old answer again."""
    tree = await start_tree(store)
    await tree.append("suspended", waits=[wait("a"), wait("b")])
    await store.resolve(OPERATOR, "a", Resolution(verdict="approved"))
    await tree.append("resumed")
    await tree.append("calls_changed", operations=[operation("a", state="done")])
    child = operation("c", state="waiting", waits_for="sub_agent")
    await tree.append("suspended", operations=[child])
    await store.release(tree.claim)
    assert await due_trees(store) == ([], [])
    await store.resolve(OPERATOR, "b", Resolution(verdict="denied"))
    assert await due_trees(store) == (["r1"], [])


async def test_an_answer_during_a_suspension_is_not_lost(store: FullStore) -> None:
    tree = await start_tree(store)
    await tree.append(waits=[wait()])
    await store.resolve(OPERATOR, "w1", result_of())
    await tree.append("suspended")
    assert await due_trees(store) == ([], [])  # its process may still continue it
    await store.release(tree.claim)
    assert await due_trees(store) == (["r1"], [])


async def test_a_sub_agent_that_waits_does_not_make_its_parent_due(store: FullStore) -> None:
    tree = await start_tree(store)
    await tree.child("r2")
    await tree.append(
        "suspended", operations=[operation("r2", kind="sub_agent", state="waiting", waits_for="sub_agent")]
    )
    await tree.append("suspended", "r2", waits=[wait("w1", "r2"), wait("w2", "r2")])
    await store.release(tree.claim)
    await store.resolve(OPERATOR, "w1", result_of())
    assert await due_trees(store) == ([], [])
    await store.resolve(OPERATOR, "w2", result_of())
    assert await due_trees(store) == (["r1"], [])


async def test_a_postponed_tree_is_due_later(store: FullStore) -> None:
    await start_tree(store, seconds=0.0)
    await store.postpone(SCOPE, "r1", reason="its process was killed", seconds=3600.0)
    run = await stored(store)
    assert (run.state, run.reason) == ("running", "its process was killed")
    assert run.ready_at == pytest.approx(time.time() + 3600, abs=60)
    assert await due_trees(store) == ([], [])
    await store.postpone(SCOPE, "r1", reason="again", seconds=0.0)
    assert await due_trees(store) == ([], ["r1"])
    tree = await claim_tree(store)
    assert (await stored(store)).reason == ""
    await store.release(tree.claim)
    assert await due_trees(store) == ([], ["r1"])


async def test_an_answer_does_not_shorten_a_postponement(store: FullStore) -> None:
    tree = await start_tree(store)
    await tree.append("suspended", waits=[wait()])
    await store.release(tree.claim)
    await store.postpone(SCOPE, "r1", reason="the provider is down", seconds=3600.0)
    await store.resolve(OPERATOR, "w1", result_of())
    assert await due_trees(store) == ([], [])
    assert (await stored(store)).ready_at is not None


async def test_a_dead_letter_is_not_due_until_it_is_retried(store: FullStore) -> None:
    await start_tree(store, seconds=0.0)
    await store.claim(OPERATOR, "r1", "you", 0.0)
    await store.postpone(SCOPE, "r1", reason="entry 2 is unreadable", seconds=None)
    run = await stored(store)
    assert (run.state, run.reason, run.ready_at, run.tries, run.end) == (
        "dead_letter",
        "entry 2 is unreadable",
        None,
        1,
        None,
    )
    assert await due_trees(store) == ([], [])
    assert [each.start.run_id for each in await store.runs(OPERATOR, state="dead_letter")] == ["r1"]
    await store.retry(SCOPE, "r1")
    run = await stored(store)
    assert (run.state, run.reason, run.tries) == ("running", "", 0)
    assert await due_trees(store) == ([], ["r1"])
    with pytest.raises(RunStateError, match="only a dead letter"):
        await store.retry(SCOPE, "r1")


async def test_a_dead_letter_may_be_ended_or_resumed_by_hand(store: FullStore) -> None:
    for run_id in ("r1", "r2"):
        await start_tree(store, run_id, seconds=0.0)
        await store.postpone(SCOPE, run_id, reason="x", seconds=None)
    tree = await claim_tree(store)
    assert (await stored(store)).reason == "x"
    await tree.end(status="cancelled")
    assert (await stored(store)).state == "cancelled"
    other = await claim_tree(store, "r2")
    await store.release(other.claim)
    assert await due_trees(store) == ([], [])
    other = await claim_tree(store, "r2")
    await other.append("resumed")
    assert (await stored(store, "r2")).state == "running"


async def test_invalid_postponements_and_retries_are_refused(store: FullStore) -> None:
    tree = await start_tree(store)
    await tree.child("r2")
    with pytest.raises(RunClaimedError, match="release the claim"):
        await store.postpone(SCOPE, "r1", reason="x", seconds=None)
    for unknown in ("r2", "never"):
        with pytest.raises(UnknownRunError):
            await store.postpone(SCOPE, unknown, reason="x", seconds=1.0)
        with pytest.raises(UnknownRunError):
            await store.retry(SCOPE, unknown)
    await tree.end()
    with pytest.raises(RunEndedError):
        await store.postpone(SCOPE, "r1", reason="x", seconds=1.0)
    with pytest.raises(RunEndedError):
        await store.retry(SCOPE, "r1")


@pytest.mark.parametrize("before", ["suspended", "postponed", "dead letter"])
async def test_a_stop_makes_a_tree_due_at_once(store: FullStore, before: str) -> None:
    tree = await start_tree(store)
    await tree.child("r2")
    await tree.append("suspended", waits=[wait()])
    await store.release(tree.claim)
    if before != "suspended":
        await store.postpone(SCOPE, "r1", reason="x", seconds=3600.0 if before == "postponed" else None)
    assert await due_trees(store) == ([], [])
    await store.send(OPERATOR, "r2" if before == "suspended" else "r1", "stop")
    assert await due_trees(store) == (["r1"], [])


async def test_a_failed_stop_may_be_postponed(store: FullStore) -> None:
    await start_tree(store, seconds=0.0)
    await store.send(OPERATOR, "r1", "stop")
    await store.postpone(SCOPE, "r1", reason="x", seconds=None)
    assert await due_trees(store) == ([], [])
    assert list((await store.due(OPERATOR)).stopping) == []


async def test_due_trees_are_those_of_the_given_agents(store: FullStore) -> None:
    for number, agent in enumerate(["a", "b", "a", "c"]):
        tree = await start_tree(store, f"r{number}", agent=agent)
        await store.release(tree.claim)
    assert sorted((await store.due(OPERATOR, agents=["a"])).orphaned) == ["r0", "r2"]
    assert sorted((await store.due(OPERATOR, agents={"b", "c"})).orphaned) == ["r1", "r3"]
    assert list((await store.due(OPERATOR, agents=[])).orphaned) == []
    assert len((await store.due(OPERATOR, 3)).orphaned) == 3


async def test_running_trees_to_stop_are_listed(store: FullStore) -> None:
    for number in range(3):
        await start_tree(store, f"r{number}")
    await store.send(OPERATOR, "r1", "stop")
    await store.send(OPERATOR, "r2", "steer", "left")
    found = await store.due(OPERATOR)
    assert (list(found.stopping), list(found.orphaned)) == (["r1"], [])


async def claimed(store: FullStore, owner: str = "you", seconds: float = 60.0, **more: Any) -> list[str]:
    return [claim.root_id for claim in await store.claim_due(OPERATOR, owner, seconds, **more)]


async def test_due_trees_are_claimed_the_longest_due_first(store: FullStore) -> None:
    await start_tree(store, "later", seconds=-1.0)
    await start_tree(store, "first", seconds=-2.0)
    await start_tree(store, "held", seconds=3600.0)
    await start_tree(store, "released", seconds=3600.0)
    await store.release(Claim(root_id="released", scope=SCOPE, epoch=1, owner="me", seconds=1.0))
    found = await store.claim_due(OPERATOR, "you", 60.0, limit=2)
    assert list(found) == [
        Claim(root_id=root, scope=SCOPE, epoch=2, owner="you", seconds=60.0, tries=1, sure=False)
        for root in ("first", "later")
    ]
    (last,) = await store.claim_due(OPERATOR, "you", 60.0)
    assert (last.root_id, last.tries, last.sure) == ("released", 0, True)
    assert await claimed(store) == []
    assert await due_trees(store) == ([], [])
    run = await stored(store, "first")
    assert (run.owner, run.epoch, run.tries) == ("you", 2, 1)
    assert run.ready_at == pytest.approx(time.time() + 60, abs=30)


async def test_a_due_tree_is_claimed_once(store: FullStore) -> None:
    for number in range(12):
        await start_tree(store, f"r{number}", seconds=0.0)
    asked = [claimed(store, f"owner {number}", limit=3) for number in range(8)]
    found = [root_id for roots in await asyncio.gather(*asked) for root_id in roots]
    found += await claimed(store, "the last", limit=12)
    assert sorted(found) == sorted(f"r{number}" for number in range(12))


async def test_doubtful_trees_are_not_claimed_with_the_others(store: FullStore) -> None:
    """A tree to stop, one that was resumed without progress, and one of the claimer's own process."""
    mine = process_owner()
    for root_id in ("fresh", "stopped", "tried", "own"):
        await start_tree(store, root_id, seconds=0.0, owner=mine if root_id == "own" else "me")
    await store.send(OPERATOR, "stopped", "stop")
    await store.claim(OPERATOR, "tried", "dead", 0.0)
    assert sorted((await store.due(OPERATOR, owner=mine)).doubtful) == ["own", "stopped", "tried"]
    assert sorted((await store.due(OPERATOR)).doubtful) == ["stopped", "tried"]
    assert await claimed(store, mine) == ["fresh"]
    assert await claimed(store) == ["own"]


async def test_a_claim_that_is_not_sure_leaves_no_sure_one(store: FullStore) -> None:
    """The process before may still be working, although the one that replaced it is gone."""
    await start_tree(store, seconds=0.0)
    (unsure,) = await store.claim_due(OPERATOR, "you", 60.0)
    await store.release(unsure)
    assert (await stored(store)).ready_at == pytest.approx(time.time(), abs=60), "it is due from its release on"
    again = await store.claim(OPERATOR, "r1", "she", 60.0)
    assert (unsure.sure, again.sure, again.tries) == (False, False, 1), "a release is no failed try"


async def test_due_trees_are_claimed_by_agent(store: FullStore) -> None:
    await start_tree(store, "r1", seconds=0.0, agent="clerk")
    await start_tree(store, "r2", seconds=0.0, agent="boss")
    assert await claimed(store, agents=[]) == []
    assert await claimed(store, agents=["boss", "other"]) == ["r2"]
    assert await claimed(store, limit=0) == []
    assert await claimed(store) == ["r1"]


async def test_an_expired_wait_makes_its_tree_claimable(store: FullStore) -> None:
    tree = await start_tree(store)
    await tree.append("suspended", waits=[wait(expires=0.0)])
    await store.release(tree.claim)
    assert await claimed(store) == ["r1"]
    found = await store.wait(OPERATOR, "w1")
    assert found is not None
    assert found.resolution is not None
    assert found.resolution.verdict == "expired"


async def test_a_claim_of_due_trees_clears_their_postponement(store: FullStore) -> None:
    await start_tree(store, seconds=0.0)
    await store.postpone(SCOPE, "r1", reason="its process was killed", seconds=3600.0)
    assert await claimed(store) == []
    await store.postpone(SCOPE, "r1", reason="its process was killed", seconds=0.0)
    assert await claimed(store) == ["r1"]
    assert (await stored(store)).reason == ""
    await store.release(Claim(root_id="r1", scope=SCOPE, epoch=2, owner="you", seconds=1.0))
    await store.postpone(SCOPE, "r1", reason="poison", seconds=None)
    assert await claimed(store) == []


async def test_claims_of_due_trees_need_an_operator_and_an_owner(store: FullStore) -> None:
    with pytest.raises(StorageError, match="without an owner"):
        await claimed(store, "")
    with pytest.raises(ConfigurationError, match="only the operator"):
        await store.claim_due(SCOPE, "you", 1.0)  # type: ignore[arg-type]
