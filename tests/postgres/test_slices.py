"""Slices of budgets: trees of one organization seldom write its account, and no budget is counted differently."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from decimal import Decimal
from random import Random
from typing import Any

import psycopg
import pytest

from concertino import Budget, MemoryStore, Scope, TenantScope
from concertino.errors import BudgetError
from concertino.storage import Account, PostgresStore, Reservation, Settlement
from concertino.testing.store_suite.kit import Tree, start_tree

TENANT = TenantScope("o1")
COUNTED = """
CREATE SEQUENCE written;
CREATE FUNCTION count_write() RETURNS TRIGGER LANGUAGE plpgsql AS $$
BEGIN PERFORM nextval('written'); RETURN NULL; END $$;
CREATE TRIGGER counted AFTER UPDATE ON accounts FOR EACH ROW EXECUTE FUNCTION count_write();
"""


@pytest.fixture
async def store(url: str, schema: str) -> AsyncIterator[PostgresStore]:
    async with await PostgresStore.open(url, schema=schema) as opened:
        yield opened


@pytest.fixture
def database(store: PostgresStore, url: str, schema: str) -> Any:
    """Return the rows of a query."""

    def rows(query: str) -> Any:
        with psycopg.connect(url, options=f"-c search_path={schema}", autocommit=True) as connection:
            cursor = connection.execute(query)
            return cursor.fetchall() if cursor.description else None

    return rows


def wanted(id: str, tokens: int = 100, **more: Any) -> Reservation:
    return Reservation(id=id, tokens=tokens, money=Decimal(tokens) / 1000, **more)


def done(id: str, tokens: int = 60) -> Settlement:
    return Settlement(id=id, tokens=tokens, money=Decimal(tokens) / 1000)


async def steps(tree: Tree, many: int) -> None:
    for number in range(many):
        id = f"{tree.claim.root_id}/{number}"
        await tree.append(reserve=wanted(id, spare_tokens=10))
        await tree.append("model_answered", settle=[done(id)])


async def spent(store: Any) -> tuple[int, Decimal, int, Decimal]:
    (found,) = await store.accounts(TENANT)
    return found.reserved_tokens, found.reserved_money, found.spent_tokens, found.spent_money


async def test_steps_of_many_trees_seldom_write_the_account(store: PostgresStore, database: Any) -> None:
    await store.set_budget(TENANT, Budget(tokens=10_000_000, money=Decimal(10_000)))
    trees = [await start_tree(store, f"r{n}", scope=Scope("o1", f"u{n}")) for n in range(6)]
    database(COUNTED)
    await asyncio.gather(*[steps(tree, 40) for tree in trees])
    assert await spent(store) == (0, Decimal(0), 6 * 40 * 60, Decimal(6 * 40 * 60) / 1000)
    ((written,),) = database("SELECT last_value FROM written")
    assert written <= 6 * 8  # 480 without slices
    for tree in trees:
        await tree.end()
    assert database("SELECT * FROM slices") == []
    assert await spent(store) == (0, Decimal(0), 6 * 40 * 60, Decimal(6 * 40 * 60) / 1000)


async def test_a_tree_that_waits_returns_its_slice(store: PostgresStore, database: Any) -> None:
    await store.set_budget(TENANT, Budget(tokens=1_000_000))
    tree = await start_tree(store)
    await steps(tree, 2)
    assert database("SELECT count(*) FROM slices") == [(1,)]
    await tree.append("suspended")
    assert database("SELECT count(*) FROM slices") == [(0,)]
    assert database("SELECT reserved_tokens, spent_tokens FROM accounts") == [(0, 120)]


async def test_a_tree_that_another_process_ends_returns_its_slice(store: PostgresStore, database: Any) -> None:
    await store.set_budget(TENANT, Budget(tokens=1_000_000))
    tree = await start_tree(store)
    await steps(tree, 2)
    await tree.append(reserve=wanted("in flight"))
    await store.erase(Scope("o1", "u1"), force=True)
    assert database("SELECT count(*) FROM slices") == [(0,)]


async def test_what_a_tree_has_leased_and_does_not_need_is_there_for_others(store: PostgresStore) -> None:
    await store.set_budget(TENANT, Budget(tokens=10_000))
    trees = [await start_tree(store, f"r{n}") for n in range(4)]
    for tree in trees:
        await tree.append(reserve=wanted(tree.claim.root_id))
    with pytest.raises(BudgetError) as caught:
        await trees[0].append(reserve=wanted("a", 9_601))
    assert caught.value.tokens == 9_600
    await trees[0].append(reserve=wanted("a", 9_600))
    with pytest.raises(BudgetError):
        await trees[1].append(reserve=wanted("b", 1))


async def test_a_lower_budget_holds_at_once(store: PostgresStore) -> None:
    await store.set_budget(TENANT, Budget(tokens=1_000_000))
    tree = await start_tree(store)
    await steps(tree, 1)
    await store.set_budget(TENANT, Budget(tokens=159))
    with pytest.raises(BudgetError):
        await tree.append(reserve=wanted("a"))
    await store.set_budget(TENANT, Budget(tokens=160))
    await tree.append(reserve=wanted("a"))


@pytest.mark.parametrize("seed", range(6))
async def test_the_same_outcomes_as_without_slices(store: PostgresStore, seed: int) -> None:
    outcomes = []
    for each in (store, MemoryStore()):
        random, found = Random(seed), list[Any]()
        users = [Scope("o1", "u0"), Scope("o1", "u1")]
        trees = [await start_tree(each, f"r{n}", scope=users[n % 2]) for n in range(4)]
        for _ in range(150):
            action, tree = random.random(), random.choice(trees)
            id, amount = f"{tree.claim.root_id}/{random.randrange(6)}", random.randrange(120)
            if action < 0.06:
                budget = Budget(
                    tokens=random.randrange(12_000), money=random.choice([None, Decimal(random.randrange(12))])
                )
                scope: Any = random.choice([TENANT, *users])
                await each.set_budget(scope, random.choice([budget, budget, budget, None]))
            elif action < 0.12:
                await tree.append(random.choice(["suspended", "resumed"]))
            elif action < 0.5:
                asked = Reservation(
                    id=id,
                    tokens=amount,
                    money=random.choice([None, *[Decimal(amount) / 1000] * 5]),
                    spare_tokens=random.randrange(20),
                )
                try:
                    await tree.append(reserve=asked, settle=random.choice([[], [done(f"{id}x", amount)]]))
                except BudgetError as error:
                    found.append((error.account, error.tokens, error.money))
            else:
                await tree.append("usage_booked", settle=[done(id, amount)])
            found.append(await accounts(each, users))
        outcomes.append(found)
    assert outcomes[0] == outcomes[1]


async def accounts(store: Any, users: list[Scope]) -> list[Account]:
    return [account for user in users for account in await store.accounts(user)]


async def test_trees_at_the_end_of_their_budgets_never_block_each_other(store: PostgresStore, database: Any) -> None:
    await store.set_budget(TENANT, Budget(tokens=40_000))
    trees = []
    for number in range(12):
        scope = Scope("o1", f"u{number % 3}")
        await store.set_budget(scope, Budget(tokens=15_000))
        trees.append(await start_tree(store, f"r{number}", scope=scope))

    async def until_refused(tree: Tree) -> int:
        for number in range(1000):
            id = f"{tree.claim.root_id}/{number}"
            try:
                await tree.append(reserve=wanted(id, spare_tokens=number % 7))
            except BudgetError:
                return number * 60
            await tree.append("model_answered", settle=[done(id)])
        raise AssertionError

    deadlocks = "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"
    before = database(deadlocks)
    used = await asyncio.gather(*[until_refused(tree) for tree in trees])
    reserved, _, tokens, _ = await spent(store)
    assert (reserved, tokens) == (0, sum(used))
    assert 40_000 - 12 * 107 <= tokens <= 40_000  # what was refused at most, while the others had reserved
    await store.close()  # its sessions report their deadlocks
    assert database(deadlocks) == before
