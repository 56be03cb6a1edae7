"""Fencing and claims, in every store: only the process that has claimed a run writes it."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from concertino import OPERATOR, Operator
from concertino.errors import (
    RunClaimedError,
    RunEndedError,
    StaleClaimError,
    StorageError,
    UnknownRunError,
    UnreadMessagesError,
)
from concertino.storage import Claim, Entry

from .kit import SCOPE, FullStore, claim_tree, end, record, start, start_tree, whole


async def test_an_entry_must_be_the_next(store: FullStore) -> None:
    tree = await start_tree(store)
    for seq in (0, 2, -1):
        with pytest.raises(StaleClaimError, match="'r1' has 1 entries"):
            await store.append(
                Entry(run_id="r1", seq=seq, claim=tree.claim, kind="model_requested", messages=[whole("a")])
            )
    head = await tree.append(messages=[whole("b")])
    assert (head.seq, head.commands, head.stop) == (2, 0, False)
    with pytest.raises(StaleClaimError):
        await store.append(Entry(run_id="r1", seq=1, claim=tree.claim, kind="model_requested"))
    assert len(await store.messages(OPERATOR, "r1")) == 1


async def test_a_run_ends_only_when_it_has_read_its_messages(store: FullStore) -> None:
    tree = await start_tree(store)
    await store.send(SCOPE, "r1", "stop")
    await store.send(SCOPE, "r1", "steer", "a")
    for read in (0, 1):
        with pytest.raises(UnreadMessagesError, match="has not read message 2") as refused:
            await store.append(tree.entry("ended", end=end(), read=read))
        assert refused.value.number == 2
    found = await store.run(OPERATOR, "r1")
    assert found is not None
    assert (found.end, found.entries) == (None, 1)
    await store.send(SCOPE, "r1", "stop")  # a stop is no message
    await tree.append("ended", end=end(), read=2)
    with pytest.raises(RunEndedError):
        await store.send(SCOPE, "r1", "steer", "b")


async def test_a_run_that_breaks_off_reads_nothing(store: FullStore) -> None:
    tree = await start_tree(store)
    await store.send(SCOPE, "r1", "steer", "a")
    await tree.end(status="failed")
    found = await store.run(OPERATOR, "r1")
    assert found is not None
    assert found.end is not None


async def test_one_of_concurrent_appends_is_written(store: FullStore) -> None:
    tree = await start_tree(store)
    entries = [tree.entry(messages=[whole(f"{n}")]) for n in range(5)]
    done = await asyncio.gather(*(store.append(entry) for entry in entries), return_exceptions=True)
    assert [type(each).__name__ for each in done].count("StaleClaimError") == 4
    assert len(await store.messages(OPERATOR, "r1")) == 1


async def test_a_stale_claim_writes_nothing(store: FullStore) -> None:
    old = await start_tree(store, seconds=0.0)
    await old.child("r2")
    new = await claim_tree(store)
    asked: list[Any] = [
        lambda: old.append(messages=[whole("a")]),
        lambda: old.append(run_id="r2", usage=[record(1, "r2")]),
        lambda: old.child("r3"),
        lambda: old.append("usage_booked", usage=[record(1)]),
        lambda: store.renew(old.claim, 9.0),
    ]
    for ask in asked:
        with pytest.raises(StaleClaimError, match="claimed by 'you'"):
            await ask()
    await store.release(old.claim)
    found = await store.run(OPERATOR, "r2")
    assert found is not None
    assert (found.owner, found.epoch) == ("you", 2)
    assert len(await store.runs(OPERATOR)) == 2
    assert not await store.messages(OPERATOR, "r1")
    assert not await store.usage(OPERATOR, "r1")
    await new.append(run_id="r2")
    assert (await new.append("resumed")).seq == 2


async def test_epoch_and_owner_both_count(store: FullStore) -> None:
    tree = await start_tree(store, seconds=0.0)
    await store.release(tree.claim)
    with pytest.raises(StaleClaimError, match="released"):
        await tree.append()
    again = await claim_tree(store, owner="me")
    assert again.claim.epoch == 2
    with pytest.raises(StaleClaimError):
        await tree.append()
    tree.claim = Claim(root_id="r1", scope=SCOPE, epoch=2, owner="else", seconds=9.0)
    with pytest.raises(StaleClaimError):
        await tree.append()
    await again.append()


async def test_a_child_begins_under_its_own_root_only(store: FullStore) -> None:
    tree = await start_tree(store)
    other = await start_tree(store, "r9")
    with pytest.raises(StaleClaimError):
        await other.begin(start("r2", root_id="r1", parent_id="r1"))
    assert await store.run(OPERATOR, "r2") is None
    await tree.begin(start("r2", root_id="r1", parent_id="r1"))


async def test_an_expired_lease_is_valid_until_another_claim(store: FullStore) -> None:
    tree = await start_tree(store, seconds=-1.0)
    await tree.append()
    await store.renew(tree.claim, 60.0)
    with pytest.raises(RunClaimedError):
        await store.claim(OPERATOR, "r1", "you", 9.0)


async def test_the_end_of_a_tree_releases_its_claim(store: FullStore) -> None:
    tree = await start_tree(store)
    await tree.append("ended", end=end())
    run = await store.run(OPERATOR, "r1")
    assert run is not None
    assert run.owner == ""
    assert (await store.renew(tree.claim, 9.0)).seq == 2  # a renewal that was under way does no harm
    await store.release(tree.claim)
    await tree.append("usage_booked", usage=[record(1)])
    assert len(await store.usage(OPERATOR, "r1")) == 1
    with pytest.raises(StaleClaimError):
        await store.renew(replace(tree.claim, epoch=2), 9.0)


async def test_a_claim_is_refused_while_the_lease_lasts(store: FullStore) -> None:
    tree = await start_tree(store, owner="me")
    for owner in ("you", "me"):
        with pytest.raises(RunClaimedError, match="'r1' is claimed by 'me'") as caught:
            await store.claim(OPERATOR, "r1", owner, 9.0)
        assert caught.value.owner == "me"
    await store.release(tree.claim)
    claim = await store.claim(OPERATOR, "r1", "me", 9.0)
    assert claim == Claim(root_id="r1", scope=SCOPE, epoch=2, owner="me", seconds=9.0, tries=0)


async def test_tries_count_claims_that_were_not_released(store: FullStore) -> None:
    await start_tree(store, seconds=0.0)
    assert (await store.claim(OPERATOR, "r1", "a", 0.0)).tries == 1
    assert (await store.claim(OPERATOR, "r1", "b", 0.0)).tries == 2
    last = await claim_tree(store, owner="c", seconds=60.0)
    assert last.claim.tries == 3
    await last.append("resumed")
    run = await store.run(OPERATOR, "r1")
    assert run is not None
    assert (run.tries, run.epoch) == (3, 4)
    await last.append()  # a repeated request is no progress
    assert (await store.run(OPERATOR, "r1")).tries == 3  # type: ignore[union-attr]
    await last.child("r2")
    run = await store.run(OPERATOR, "r1")
    assert run is not None
    assert run.tries == 0
    await store.release(last.claim)
    assert (await store.claim(OPERATOR, "r1", "d", 9.0)).tries == 0


@pytest.mark.parametrize("run_id", ["r1", "r2"])
async def test_progress_anywhere_in_the_tree_resets_its_tries(store: FullStore, run_id: str) -> None:
    tree = await start_tree(store, seconds=0.0)
    await tree.child("r2")
    tree = await claim_tree(store, owner="a")
    for kind, tries in (("model_requested", 1), ("model_answered", 0)):
        await tree.append(kind, run_id)  # type: ignore[arg-type]
        root = await store.run(OPERATOR, "r1")
        assert root is not None
        assert root.tries == tries


async def test_one_of_concurrent_claims_wins(store: FullStore) -> None:
    await start_tree(store, seconds=0.0)
    asked = [store.claim(OPERATOR, "r1", f"owner {number}", 60.0) for number in range(8)]
    done = await asyncio.gather(*asked, return_exceptions=True)
    assert [type(each).__name__ for each in done].count("Claim") == 1
    assert [type(each).__name__ for each in done].count("RunClaimedError") == 7


async def test_invalid_claims_are_refused(store: FullStore) -> None:
    tree = await start_tree(store, seconds=0.0)
    await tree.child("r2")
    with pytest.raises(UnknownRunError, match="sub-agent"):
        await store.claim(OPERATOR, "r2", "you", 9.0)
    with pytest.raises(StorageError, match="without an owner"):
        await store.claim(OPERATOR, "r1", "", 9.0)
    await tree.end()
    with pytest.raises(RunEndedError):
        await store.claim(OPERATOR, "r1", "you", 9.0)


async def test_heads_carry_commands_and_the_stop_of_the_root(store: FullStore) -> None:
    tree = await start_tree(store)
    await tree.child("r2")
    await store.send(Operator("ann"), "r2", "steer", "left")
    await store.send(OPERATOR, "r2", "steer", "right\ud800")
    head = await tree.append(run_id="r2")
    assert (head.commands, head.stop) == (2, False)
    await store.send(Operator("bob"), "r1", "stop")
    head = await tree.append(run_id="r2")
    assert (head.commands, head.stop) == (2, True)
    head = await store.renew(tree.claim, 9.0)
    assert (head.seq, head.commands, head.stop) == (1, 1, True)
    found = await store.commands(OPERATOR, "r2")
    assert [(each.number, each.kind, each.text, each.by) for each in found] == [
        (1, "steer", "left", "ann"),
        (2, "steer", "right\ufffd", ""),
    ]
    assert [each.number for each in await store.commands(OPERATOR, "r2", 1)] == [2]


async def test_states_follow_from_entries(store: FullStore) -> None:
    tree = await start_tree(store)
    for kind, state in (("model_requested", "running"), ("suspended", "suspended"), ("resumed", "running")):
        await tree.append(kind)  # type: ignore[arg-type]
        run = await store.run(OPERATOR, "r1")
        assert run is not None
        assert run.state == state
