"""Budgets, in every store: nothing is set aside over a limit, and what is spent is spent once."""

from __future__ import annotations

import asyncio
import tempfile
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from concertino import OPERATOR, Budget, Scope, TenantScope
from concertino.errors import BudgetError, ConfigurationError
from concertino.storage import Account, Reservation, Settlement

from .kit import SCOPE, Factory, FullStore, Tree, record, start_tree, whole

ACCOUNTS: dict[str, tuple[Scope | TenantScope, str | None]] = {
    "run": (SCOPE, "r1"),
    "user": (SCOPE, None),
    "tenant": (TenantScope(SCOPE.tenant), None),
}
"""What names each account that the tree `r1` draws on."""


def wanted(id: str = "a", tokens: int = 10, money: str | None = "1", **more: Any) -> Any:
    return Reservation(id=id, tokens=tokens, money=None if money is None else Decimal(money), **more)


def done(id: str = "a", tokens: int = 10, money: str | None = "1") -> Settlement:
    return Settlement(id=id, tokens=tokens, money=None if money is None else Decimal(money))


async def limit(store: FullStore, kind: str, budget: Budget | None) -> None:
    scope, run_id = ACCOUNTS[kind]
    await store.set_budget(scope, budget, run_id=run_id)


async def accounts(store: FullStore) -> dict[str, Account]:
    return {each.kind: each for each in await store.accounts(SCOPE, run_id="r1")}


async def state(store: FullStore, kind: str = "user") -> tuple[int, Decimal, int, Decimal]:
    found = (await accounts(store))[kind]
    return found.reserved_tokens, found.reserved_money, found.spent_tokens, found.spent_money


async def test_an_account_without_a_budget_is_not_listed(store: FullStore) -> None:
    tree = await start_tree(store)
    await tree.append(reserve=wanted(tokens=10**12))
    await tree.append(settle=[done()])
    assert await accounts(store) == {}
    await limit(store, "user", Budget(tokens=100, money=Decimal("0.50")))
    (found,) = await store.accounts(SCOPE)
    assert found == Account(
        kind="user",
        budget=Budget(tokens=100, money=Decimal("0.5")),
        reserved_tokens=0,
        reserved_money=Decimal(0),
        spent_tokens=0,
        spent_money=Decimal(0),
    )


async def test_reserving_and_settling(store: FullStore) -> None:
    tree = await start_tree(store)
    await limit(store, "user", Budget(tokens=100, money=Decimal(5)))
    await limit(store, "run", Budget(tokens=10**9))
    await tree.append(reserve=wanted("a", 60, "2"))
    assert await state(store) == await state(store, "run") == (60, Decimal(2), 0, Decimal(0))
    await tree.append(settle=[done("a", 70, "0.0000000001")])
    assert await state(store) == await state(store, "run") == (0, Decimal(0), 70, Decimal("0.000000001"))
    await tree.append(settle=[done("a", 70, "3")])  # once
    assert await state(store) == (0, Decimal(0), 70, Decimal("0.000000001"))
    await tree.append("usage_booked", settle=[done("b", 50, None)])  # without a reservation, and over the limit
    assert await state(store) == (0, Decimal(0), 120, Decimal("0.000000001"))


@pytest.mark.parametrize(
    ("asked", "left"),
    [
        (wanted(tokens=41), "40 tokens"),
        (wanted(tokens=40, spare_tokens=1), "40 tokens"),
        (wanted(money="3.000000001"), r"\$3"),
        (wanted(money="3", spare_money=Decimal("0.0000000001")), r"\$3"),
        (wanted(money=None), "no known price"),
    ],
)
async def test_an_exceeded_budget_writes_nothing(store: FullStore, asked: Reservation, left: str) -> None:
    tree = await start_tree(store)
    await limit(store, "user", Budget(tokens=100, money=Decimal(5)))
    await limit(store, "run", Budget(tokens=10**9))
    await tree.append(reserve=wanted("before", 60, "2"))
    whole_run = await state(store, "run")
    before = await store.load(OPERATOR, "r1")
    with pytest.raises(BudgetError, match=left) as caught:
        await tree.append(reserve=asked, messages=[whole("a")], usage=[record()])
    assert (caught.value.account, caught.value.tokens, caught.value.money) == ("user", 40, Decimal(3))
    assert await store.load(OPERATOR, "r1") == before
    assert await state(store, "run") == whole_run
    await tree.append(reserve=wanted(tokens=39, money="2", spare_tokens=1, spare_money=Decimal(1)))


async def test_no_two_scopes_share_an_account(store: FullStore) -> None:
    pairs = [("a", "b"), ("a/", "b"), ("a", "/b"), ("a", "b/c"), ("a/b", "c"), ("a%2F", "b"), ("", "a/b"), ("1:a", "b")]
    for number, (tenant, user) in enumerate(pairs):
        await store.set_budget(Scope(tenant, user), Budget(tokens=number))
    for number, (tenant, user) in enumerate(pairs):
        (found,) = await store.accounts(Scope(tenant, user))
        assert found.budget.tokens == number


async def test_only_what_exists_can_have_a_budget(store: FullStore) -> None:
    for scope in (Scope(), Scope("o1"), TenantScope("")):
        with pytest.raises(ConfigurationError, match="names no"):
            await store.set_budget(scope, Budget(tokens=1))
        assert list(await store.accounts(scope)) == []


async def test_another_scopes_run_has_another_account(store: FullStore) -> None:
    tree = await start_tree(store)
    await store.set_budget(Scope("o2", "u1"), Budget(tokens=0), run_id="r1")
    await tree.append(reserve=wanted())
    assert await accounts(store) == {}


async def test_spending_survives_a_change_of_the_budget(store: FullStore) -> None:
    tree = await start_tree(store)
    await limit(store, "user", Budget(tokens=100))
    await tree.append(reserve=wanted("a", 60, None), settle=[done("b", 30, "1")])
    await limit(store, "user", Budget(tokens=50))
    with pytest.raises(BudgetError) as caught:
        await tree.append(reserve=wanted("c", 1))
    assert (caught.value.tokens, caught.value.money) == (0, None)
    await limit(store, "user", None)
    assert await accounts(store) == {}
    await tree.append(reserve=wanted("d", 10**9), settle=[done("a", 60)])
    await limit(store, "user", Budget(tokens=31))
    assert await state(store) == (0, Decimal(0), 30, Decimal(1))
    await tree.append(reserve=wanted("e", 1))


async def test_reserving_again_replaces(store: FullStore) -> None:
    tree = await start_tree(store)
    await limit(store, "user", Budget(tokens=100))
    for tokens in (60, 100, 20):
        await tree.append(reserve=wanted("a", tokens))
    assert (await state(store))[0] == 20
    await tree.append(settle=[done("a", 5)])
    await tree.append(reserve=wanted("a", 50))  # it is over
    assert (await state(store))[::2] == (0, 5)


NAMES = list(ACCOUNTS)
IDS = st.sampled_from("abcdef")
MONEY = st.none() | st.decimals(0, 20, places=10)


class Books(RuleBasedStateMachine):
    """A second set of books, kept beside the store's."""

    def __init__(self, factory: Factory) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.folder = tempfile.TemporaryDirectory()
        self.store = self.do(factory(Path(self.folder.name)))
        self.tree: Tree = self.do(start_tree(self.store))
        self.limits: dict[str, Budget | None] = dict.fromkeys(NAMES)
        self.reserved: dict[tuple[str, str], tuple[int, int]] = {}
        self.settled: dict[tuple[str, str], tuple[int, int]] = {}

    def do(self, asked: Any) -> Any:
        return self.loop.run_until_complete(asked)

    def sums(self, name: str) -> tuple[int, int, int, int]:
        kept = [value for (_, account), value in self.reserved.items() if account == name]
        spent = [value for (_, account), value in self.settled.items() if account == name]
        return (sum(v[0] for v in kept), sum(v[1] for v in kept), sum(v[0] for v in spent), sum(v[1] for v in spent))

    @rule(name=st.sampled_from(NAMES), tokens=st.none() | st.integers(0, 60), money=MONEY, none=st.booleans())
    def budget(self, name: str, tokens: int | None, money: Decimal | None, none: bool) -> None:
        self.limits[name] = None if none or (tokens, money) == (None, None) else Budget(tokens=tokens, money=money)
        self.do(limit(self.store, name, self.limits[name]))

    @rule(id=IDS, tokens=st.integers(0, 40), money=MONEY, spare=st.integers(0, 10))
    def reserve(self, id: str, tokens: int, money: Decimal | None, spare: int) -> None:
        asked = Reservation(id=id, tokens=tokens, money=money, spare_tokens=spare)
        try:
            self.do(self.tree.append(reserve=asked))
        except BudgetError as error:
            assert self.limits[error.account] is not None
            return
        for name in NAMES:
            limit = self.limits[name]
            if limit is None or (id, name) in self.settled:
                continue
            self.reserved[id, name] = (tokens, 0 if money is None else nano(money))
            left = self.sums(name)
            assert limit.tokens is None or left[0] + left[2] + spare <= limit.tokens
            assert limit.money is None or (money is not None and left[1] + left[3] <= nano(limit.money, up=False))

    @rule(id=IDS, tokens=st.integers(0, 60), money=MONEY)
    def settle(self, id: str, tokens: int, money: Decimal | None) -> None:
        self.do(self.tree.append("usage_booked", settle=[Settlement(id=id, tokens=tokens, money=money)]))
        for name in NAMES:
            was = self.reserved.pop((id, name), None)
            counts = self.limits[name] is not None
            if (id, name) not in self.settled and (was is not None or counts):
                self.settled[id, name] = (tokens, 0 if money is None else nano(money)) if counts else (0, 0)

    @invariant()
    def both_books_agree(self) -> None:
        found = self.do(accounts(self.store))
        assert found.keys() == {name for name, limit in self.limits.items() if limit is not None}
        for name, each in found.items():
            money = [int(value.scaleb(9)) for value in (each.reserved_money, each.spent_money)]
            kept = (each.reserved_tokens, money[0], each.spent_tokens, money[1])
            assert kept == self.sums(name)
            assert min(kept) >= 0

    def teardown(self) -> None:
        self.do(self.store.close())
        self.loop.close()
        self.folder.cleanup()


def nano(money: Decimal, *, up: bool = True) -> int:
    whole, rest = divmod(int(money.scaleb(10)), 10)
    return whole + (up and rest > 0)


def test_the_books_agree(factory: Factory) -> None:
    walk = settings(max_examples=15, stateful_step_count=25, deadline=None)
    run_state_machine_as_test(lambda: Books(factory), settings=walk)  # type: ignore[arg-type]  # it may be a function
