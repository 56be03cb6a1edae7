"""The ledger, in every store."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from concertino import OPERATOR, MemoryStore, Scope, TenantScope
from concertino.errors import StorageError, UnknownRunError
from concertino.scope import AnyScope
from concertino.usage import Tokens

from .kit import FullStore, record, start_tree, whole


async def test_usage_of_a_tree_in_the_order_of_booking(store: FullStore) -> None:
    tree = await start_tree(store)
    await tree.child("r2")
    other = await start_tree(store, "other")
    booked = [record(9), record(1, "r2", cost=None), record(5, cost=Decimal("1E-9")), record(0, "r2", source="unknown")]
    for each in booked:
        await tree.append(run_id=each.run_id, usage=[each])
    await other.append(usage=[record(1, "other")])
    found = await store.usage(OPERATOR, "r1")
    assert list(found) == booked
    assert [str(each.cost) for each in found] == [str(each.cost) for each in booked]
    assert list(await store.usage(OPERATOR, "r9")) == list(await store.usage(OPERATOR, "r2")) == []


async def test_an_entry_may_book_for_other_runs_of_the_tree(store: FullStore) -> None:
    tree = await start_tree(store, "r1")
    await tree.child("r2")
    await tree.append(usage=[record(1, "r2")])
    assert [(each.id, each.run_id) for each in await store.usage(OPERATOR, "r1")] == [("r2/1", "r2")]


async def test_an_entry_books_for_no_other_tree(store: FullStore) -> None:
    tree = await start_tree(store, "r1")
    await start_tree(store, "r2")
    for run_id in ("r2", "never"):
        with pytest.raises(UnknownRunError, match="not in the entry's tree"):
            await tree.append(usage=[record(1, run_id)])
    assert list(await store.usage(OPERATOR, "r2")) == list(await store.usage(OPERATOR, "r1")) == []


async def test_usage_is_booked_once(store: FullStore) -> None:
    tree = await start_tree(store)
    await tree.append(usage=[record(1), record(1)])
    again = record(1, model="other")
    await tree.append(messages=[whole("a")], usage=[again, record(2)])
    assert list(await store.usage(OPERATOR, "r1")) == [record(1), record(2)]
    journal = await store.load(OPERATOR, "r1")
    assert journal is not None
    assert [len(entry.usage) for entry in journal.entries] == [0, 1, 1]


async def test_sums(store: FullStore) -> None:
    one = await start_tree(store, "r1", scope=Scope("o1", "ann"))
    await one.child("c1", scope=Scope("o1", "ann"), agent_path="supervisor/helper")
    two = await start_tree(store, "r2", scope=Scope("o2", "bob"))
    await one.append(usage=[record(1), record(2, cost=None, source="unknown", model="large")])
    await one.append(run_id="c1", usage=[record(1, "c1", agent_path="supervisor/helper", source="measured")])
    await two.append(usage=[record(1, "r2")])

    async def sums(*by: str) -> dict[tuple[str, ...], tuple[int, int, str]]:
        found = await store.usage_sums(OPERATOR, by)
        return {each.by: (each.attempts, each.tokens.prompt, str(each.cost)) for each in found}

    cost, twice, thrice = (f"0.{n}00000000000000000000000000{n}" for n in (1, 2, 3))
    assert await sums("run") == {("r1",): (3, 20, twice), ("r2",): (1, 10, cost)}
    assert await sums("agent") == {("supervisor",): (3, 20, twice), ("supervisor/helper",): (1, 10, cost)}
    assert await sums("model") == {("scripted:large",): (1, 0, "None"), ("scripted:small",): (3, 30, thrice)}
    assert await sums("tenant", "user") == {("o1", "ann"): (3, 20, twice), ("o2", "bob"): (1, 10, cost)}
    with pytest.raises(StorageError, match="sum by 'tenant' and 'user'"):
        await sums("user")
    today = datetime.now(UTC).date().isoformat()
    assert (await sums("day"))[(today,)] == (4, 30, thrice)
    (total,) = await store.usage_sums(OPERATOR, [])
    assert (total.by, total.attempts, total.unpriced, total.estimated, total.unknown) == ((), 4, 1, 2, 1)
    assert total.tokens == Tokens(30, 15, 12, 9, 6, 3)
    assert total.unknown_tokens == Tokens(10, 5, 4, 3, 2, 1)
    assert (
        list(await store.usage_sums(OPERATOR, ["run"], until=1000.0))
        == list(await store.usage_sums(OPERATOR, [], since=4e9))
        == []
    )
    assert len(await store.usage_sums(OPERATOR, ["run"], since=1000.0, until=4e9)) == 2
    with pytest.raises(StorageError, match="'weather'"):
        await store.usage_sums(OPERATOR, ["run", "weather"])


async def test_unsettled_usage_is_listed_in_pages(store: FullStore) -> None:
    ann, bob = Scope("o1", "ann"), Scope("o2", "bob")
    one, two = await start_tree(store, "r1", scope=ann), await start_tree(store, "r2", scope=bob)
    await one.append(usage=[record(n, source="unknown", cost=None) for n in (1, 2, 3)])
    await one.append(usage=[record(4, source="measured"), record(5, source="estimated")])
    await two.append(usage=[record(1, "r2", source="unknown", cost=None)])

    async def ids(scope: AnyScope, **page: Any) -> list[str]:
        return [each.id for each in await store.unsettled_usage(scope, **page)]

    assert await ids(ann) == ["r1/1", "r1/2", "r1/3"]
    assert await ids(ann, limit=2) == ["r1/1", "r1/2"]
    assert await ids(ann, limit=-1) == await ids(ann, limit=0) == []
    assert await ids(ann, limit=2**63) == ["r1/1", "r1/2", "r1/3"]
    assert await ids(ann, after="r2/1") == await ids(ann, after="none") == ["r1/1", "r1/2", "r1/3"], "it is another's"
    assert await ids(ann, after="r1/2") == ["r1/3"]
    assert await ids(TenantScope("o2")) == ["r2/1"]
    assert await ids(OPERATOR, after="r1/3") == ["r2/1"]
    await store.settle_usage(ann, record(2, source="measured"))
    assert await ids(ann) == ["r1/1", "r1/3"]


@given(costs=st.lists(st.decimals(0, 10**9, places=12), max_size=30))
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_costs_are_added_exactly(costs: list[Decimal]) -> None:
    async def scenario() -> None:
        store = MemoryStore()
        tree = await start_tree(store)
        await tree.append(usage=[record(number, cost=cost) for number, cost in enumerate(costs)])
        found = await store.usage_sums(OPERATOR, ["run"])
        exact = sum(int(cost.scaleb(12)) for cost in costs)
        assert [int(each.cost.scaleb(12)) for each in found] == ([exact] if costs else [])

    asyncio.run(scenario())
