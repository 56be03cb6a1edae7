"""Logs of events: numbers without gaps, one writer, pages, what a crash undid, and erasure."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from concertino import Scope, TenantScope
from concertino.errors import StaleClaimError, StorageError, UnknownRunError
from concertino.scope import OPERATOR
from concertino.storage import EventBatch, EventRow

from .kit import SCOPE, Factory, FullStore, Tree, claim_tree, start_tree, traces

FIRST, SECOND = "1" * 64, "2" * 64
"""Digests of files."""
OTHERS = [Scope("o2", "u1"), Scope("o1", "u2"), TenantScope("o2")]


def row(text: str, entry: int = 1, run_id: str = "r1", source: int | None = None) -> EventRow:
    return EventRow(run_id=run_id, entry=entry, source=source, items=[[0, text]])


def batch(tree: Tree, number: int, *rows: EventRow, **more: Any) -> EventBatch:
    """Return a batch of one event."""
    return EventBatch(claim=tree.claim, first=number, last=number, rows=rows or [row(f"event {number}")], **more)


async def add(store: FullStore, added: EventBatch) -> None:
    """Append one batch. Raises its error."""
    (error,) = await store.add_events([added])
    if error is not None:
        raise error


async def read(store: FullStore, after: int = 0, limit: int = 64) -> list[tuple[int, str]]:
    page = await store.events(SCOPE, "r1", after, limit)
    return [(each.first, text) for each in page.rows for _, text in each.items]


async def test_events_are_read_in_order_and_by_page(store: FullStore) -> None:
    tree = await start_tree(store)
    for number in range(1, 6):
        await add(store, batch(tree, number))
    expected = [(number, f"event {number}") for number in range(1, 6)]
    assert await read(store) == expected
    assert await read(store, 3) == expected[3:]
    assert await read(store, 0, 2) == expected[:2]
    assert await read(store, 5) == []
    page = await store.events(SCOPE, "r1")
    assert (page.last, page.closed, page.ended) == (5, False, False)


async def test_a_run_without_events_has_an_empty_log(store: FullStore) -> None:
    await start_tree(store)
    page = await store.events(SCOPE, "r1")
    assert (tuple(page.rows), page.last) == ((), 0)
    assert await store.event_positions(SCOPE, ["r1", "never"]) == [("r1", 0, False, False)]


async def test_a_number_is_given_once(store: FullStore) -> None:
    tree = await start_tree(store)
    await add(store, batch(tree, 1))
    for number in (1, 3):
        with pytest.raises(StorageError, match="not the next"):
            await add(store, batch(tree, number, row("forged")))
    assert await read(store) == [(1, "event 1")]


async def test_the_process_that_lost_its_claim_adds_nothing(store: FullStore) -> None:
    old = await start_tree(store, seconds=0.0)
    await add(store, batch(old, 1))
    new = await claim_tree(store)
    with pytest.raises(StaleClaimError, match="claimed"):
        await add(store, batch(old, 2))
    await add(store, batch(new, 2, row("new")))
    assert await read(store) == [(1, "event 1"), (2, "new")]


async def test_nothing_follows_the_last_event(store: FullStore) -> None:
    tree = await start_tree(store)
    await add(store, batch(tree, 1))
    await tree.end()
    await add(store, batch(tree, 2, ends=True))
    page = await store.events(SCOPE, "r1")
    assert (page.closed, page.ended) == (True, True)
    with pytest.raises(StaleClaimError, match="closed"):
        await add(store, batch(tree, 3))
    await store.end_events(SCOPE, "r1", [[0, "again"]])
    assert len(await read(store)) == 2


async def test_the_log_of_a_run_that_ended_without_a_process_is_closed_once(store: FullStore) -> None:
    tree = await start_tree(store)
    await add(store, batch(tree, 1))
    await tree.end()
    for _ in range(2):
        await store.end_events(SCOPE, "r1", [[0, "ended"]])
    assert await read(store) == [(1, "event 1"), (2, "ended")]
    assert await store.event_positions(SCOPE, ["r1"]) == [("r1", 2, True, True)]


async def test_what_a_crash_undid_is_found(store: FullStore) -> None:
    """Events without the entry that covers them, and pieces that were never completed."""
    tree = await start_tree(store, seconds=0.0)
    await add(store, batch(tree, 1, row("covered", 0)))
    await add(store, batch(tree, 2, row("piece", 0, source=7)))
    await add(store, batch(tree, 3, row("whole", 0, source=8)))
    await add(store, batch(tree, 4, row("ahead", 1), completed=[8]))
    taken = await claim_tree(store)
    found = await store.open_tree(taken.claim)
    assert found.last_event == 4
    assert [text for each in found.undone for _, text in each.items] == ["piece", "ahead"]


async def test_a_complete_event_replaces_its_pieces(store: FullStore) -> None:
    tree = await start_tree(store)
    await add(store, batch(tree, 1, row("piece", 0, source=7)))
    await add(store, batch(tree, 2, row("complete", 0), completed=[7], dropped=[7]))
    assert await read(store) == [(2, "complete")]
    page = await store.events(SCOPE, "r1")
    (stored,) = page.rows
    await add(store, batch(tree, 3, row("more", 0), replaced=[(stored.number, [[0, "shorter"]])]))
    assert await read(store) == [(2, "shorter"), (3, "more")]


async def test_batches_of_many_trees_are_appended_with_one_call(store: FullStore) -> None:
    trees = [await start_tree(store, f"r{number}") for number in range(1, 4)]
    for number in (1, 2):
        batches = [batch(tree, number, row(f"event {number}", run_id=tree.claim.root_id)) for tree in trees]
        assert await store.add_events(batches) == [None] * 3
    assert await read(store) == [(1, "event 1"), (2, "event 2")]
    ids = ["r1", "r2", "r3"]
    assert sorted(await store.event_positions(SCOPE, ids)) == [(name, 2, False, False) for name in ids]


@pytest.mark.parametrize("more", [{}, {"completed": [7]}], ids=["plain", "with a source that is complete"])
async def test_of_batches_in_one_call_only_the_refused_are_missing(store: FullStore, more: dict[str, Any]) -> None:
    first, third = await start_tree(store), await start_tree(store, "r3")
    second = await start_tree(store, "r2", seconds=0.0)
    taken = await claim_tree(store, "r2")
    one = batch(first, 1, **more)
    refused = batch(second, 1, row("stale", run_id="r2"))
    gap = batch(third, 5, row("gap", run_id="r3"))
    errors = await store.add_events([one, refused, gap, batch(first, 2), batch(taken, 1, row("new", run_id="r2"))])
    assert [type(error) for error in errors] == [type(None), StaleClaimError, StorageError, type(None), type(None)]
    assert await read(store) == [(1, "event 1"), (2, "event 2")]
    assert [each.items for each in (await store.events(SCOPE, "r2")).rows] == [[[0, "new"]]]
    assert (await store.events(SCOPE, "r3")).last == 0


async def test_a_batch_changes_no_row_of_another_tree(store: FullStore) -> None:
    tree = await start_tree(store)
    await add(store, batch(tree, 1))
    (stored,) = (await store.events(SCOPE, "r1")).rows
    rival = await start_tree(store, "r2", scope=Scope("o2", "u1"))
    mine = row("mine", run_id="r2")
    await add(store, batch(rival, 1, mine, replaced=[(stored.number, [[0, "forged"]])]))
    assert await read(store) == [(1, "event 1")]


async def test_a_page_has_the_contents_that_its_rows_name_and_those_of_one_batch_only(store: FullStore) -> None:
    """Contents are large. A digest that is not named as `data_digest` needs no content."""
    tree = await start_tree(store)
    pictures = {digest: f"content {digest}" for digest in (FIRST, SECOND)}
    for number, digest in enumerate(pictures, 1):
        items = [[0, {"data_digest": digest}]]
        await add(store, batch(tree, number, EventRow(run_id="r1", entry=1, items=items, contents=pictures)))
    await add(store, batch(tree, 3, EventRow(run_id="r1", entry=1, items=[[0, {"digest": FIRST}]])))
    found = [await store.events(SCOPE, "r1", after) for after in range(3)]
    assert [[each.first for each in page.rows] for page in found] == [[1], [2], [3]]
    assert [page.contents for page in found] == [{FIRST: f"content {FIRST}"}, {SECOND: f"content {SECOND}"}, {}]
    await tree.end()
    await store.erase(SCOPE)
    assert (await store.events(OPERATOR, "r1")).contents == {}


async def test_a_page_of_large_rows_is_short(store: FullStore) -> None:
    """A reader that does not read keeps a page in memory."""
    tree = await start_tree(store)
    for number in range(1, 41):
        await add(store, batch(tree, number, row("x" * 10_000, 1)))
    seen: list[int] = []
    while (after := seen[-1] if seen else 0) < 40:
        page = await store.events(SCOPE, "r1", after)
        assert 1 <= len(page.rows) < 20
        seen += [each.first for each in page.rows]
    assert seen == list(range(1, 41))


@pytest.mark.parametrize("other", OTHERS, ids=repr)
async def test_a_log_out_of_reach_is_unknown(store: FullStore, other: Any) -> None:
    tree = await start_tree(store)
    await add(store, batch(tree, 1))
    for run_id in ("r1", "never"):
        with pytest.raises(UnknownRunError, match=f"no run '{run_id}'"):
            await store.events(other, run_id)
        with pytest.raises(UnknownRunError, match=f"no run '{run_id}'"):
            await store.end_events(other, run_id, [[0, "forged"]])
        assert await store.event_positions(other, [run_id]) == []
    assert await read(store) == [(1, "event 1")]


async def test_erased_events_leave_no_trace_and_readers_come_to_an_end(factory: Factory, tmp_path: Path) -> None:
    store = await factory(tmp_path)
    tree = await start_tree(store)
    await add(store, batch(tree, 1, row("xylophone")))
    await store.erase(SCOPE, force=True)
    with pytest.raises(StaleClaimError):
        await add(store, batch(tree, 2, row("xylophone")))
    found = await store.event_positions(OPERATOR, ["r1"])
    assert [ended for *_, ended in found] == [True]
    assert (await store.events(OPERATOR, "r1")).rows == ()
    await store.close()
    assert traces(tmp_path, "xylophone") == []
