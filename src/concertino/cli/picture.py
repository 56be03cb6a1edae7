"""All that the store knows of one run, read at once."""

from __future__ import annotations

from dataclasses import dataclass

from ..events import StopReceipt
from ..orchestrator.tree import accounts_of
from ..storage.values import Account, StoredRun
from ..usage import UsageRecord
from ..waits import Wait
from .commands import Given
from .means import Desk
from .standing import ALL, Standing, find, own, standing, tree_of, with_all_below
from .timeline import Timeline, timeline


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """All that is known of a run."""

    given: Given
    """For the commands that are shown."""
    run: StoredRun
    stands: Standing
    tree: list[StoredRun]
    usage: list[UsageRecord]
    """Of the run and all below it."""
    timeline: Timeline
    waits: list[Wait]
    """Those that are open."""
    accounts: list[Account]
    receipt: StopReceipt | None


async def picture_of(run_id: str, desk: Desk) -> Picture:
    """What the store knows of the run. Raises `UnknownRunError`."""
    store = desk.store
    stands = await standing(store)
    run = await find(desk, run_id)
    start = run.start
    tree = await tree_of(store, run)
    usage = with_all_below(await store.usage(start.root_id), run)
    ids = {one.start.run_id for one in tree}
    waits = [w for w in await store.waits(root_id=start.root_id, open=False, limit=ALL) if w.run_id in ids]
    journal = await store.load(run_id)
    assert journal is not None
    seen = timeline(journal, own(usage, run), waits, interrupted=stands.of(run) == "interrupted")
    names = accounts_of(start.root_id, start.user_id, start.organization_id)
    return Picture(
        given=desk.given,
        run=run,
        stands=stands,
        tree=tree,
        usage=usage,
        timeline=seen,
        waits=[wait for wait in waits if wait.resolution is None],
        accounts=list(await store.accounts(names)),
        receipt=None if seen.receipt is None else StopReceipt.restored(seen.receipt),
    )
