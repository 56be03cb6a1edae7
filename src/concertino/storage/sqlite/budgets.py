"""Accounts with budgets: what is set aside before an attempt, and what it took in the end."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from decimal import Decimal

from ...errors import BudgetError, StorageError
from ..types import Account, Budget, Reservation, Settlement
from .schema import account_key, from_nano, queries, to_nano, transaction


def reserve(connection: sqlite3.Connection, wanted: Reservation) -> None:
    """Set *wanted* aside on each of its accounts that has a budget, or raise BudgetError.

    What was set aside under the same id before is given back first; after its settlement nothing is set aside.
    """
    sql = queries()
    if wanted.tokens < 0 or (wanted.money is not None and wanted.money < 0):
        raise StorageError(f"reservation {wanted.id!r} is of less than nothing")
    money = 0 if wanted.money is None else to_nano(wanted.money, up=True)
    spare = to_nano(wanted.spare_money, up=True)
    for name in dict.fromkeys(wanted.accounts):
        key = account_key(name)
        row = connection.execute(sql["account"], (key,)).fetchone()
        if row is None or not row["limited"]:
            continue
        before = connection.execute(sql["reserved"], (wanted.id, key)).fetchone() or (0, 0, 0)
        if before[0]:
            continue
        tokens_left = _left(row["limit_tokens"], row["spent_tokens"] + row["reserved_tokens"] - before[1])
        money_left = _left(row["limit_money"], row["spent_money"] + row["reserved_money"] - before[2])
        if tokens_left is not None and tokens_left < wanted.tokens + wanted.spare_tokens:
            asked = f"{wanted.tokens} tokens and {wanted.spare_tokens} to spare"
            raise _no_room(name, f"has room for {tokens_left} tokens, not for {asked}", tokens_left, money_left)
        if money_left is not None:
            if wanted.money is None:
                says = "is limited in money, and the model has no known price"
                raise _no_room(name, says, tokens_left, money_left)
            if money_left < money + spare:
                says = (
                    f"has room for ${from_nano(money_left)}, not for ${wanted.money} and ${wanted.spare_money} to spare"
                )
                raise _no_room(name, says, tokens_left, money_left)
        connection.execute(sql["reserve"], (wanted.id, key, wanted.tokens, money))
        connection.execute(sql["charge"], (wanted.tokens - before[1], money - before[2], 0, 0, key))


def settle(connection: sqlite3.Connection, done: Settlement) -> None:
    """Give back what was set aside under the id of *done*, and add what it took; once for each account."""
    sql = queries()
    if done.tokens < 0 or (done.money is not None and done.money < 0):
        raise StorageError(f"settlement {done.id!r} is of less than nothing")
    money = 0 if done.money is None else to_nano(done.money, up=True)
    named = [account_key(name) for name in done.accounts]
    reserved = [row[0] for row in connection.execute(sql["reserved_for"], (done.id,)).fetchall()]
    for key in dict.fromkeys((*named, *reserved)):
        row = connection.execute(sql["account"], (key,)).fetchone()
        before = connection.execute(sql["reserved"], (done.id, key)).fetchone()
        limited = row is not None and row["limited"] and key in named
        if (before is None and not limited) or (before is not None and before[0]):
            continue
        connection.execute(sql["settle"], (done.id, key))
        back = (0, 0) if before is None else (-before[1], -before[2])
        spent = (done.tokens, money) if limited else (0, 0)
        connection.execute(sql["charge"], (*back, *spent, key))


def set_budget(connection: sqlite3.Connection, account: str, budget: Budget | None) -> None:
    """Give *account* a limit from now on, or none; what it has spent stays."""
    tokens, money = (None, None) if budget is None else (budget.tokens, budget.money)
    bound = {
        "name_key": account_key(account),
        "limited": budget is not None,
        "tokens": tokens,
        "money": None if money is None else to_nano(money, up=False),
    }
    with transaction(connection):
        connection.execute(queries()["set_budget"], bound)


def accounts(connection: sqlite3.Connection, names: Sequence[str]) -> tuple[Account, ...]:
    """Those of *names* that have a budget, in this order."""
    found = []
    for name in dict.fromkeys(names):
        row = connection.execute(queries()["account"], (account_key(name),)).fetchone()
        if row is None or not row["limited"]:
            continue
        money = None if row["limit_money"] is None else from_nano(row["limit_money"])
        found.append(
            Account(
                name=name,
                budget=Budget(tokens=row["limit_tokens"], money=money),
                reserved_tokens=row["reserved_tokens"],
                reserved_money=from_nano(row["reserved_money"]),
                spent_tokens=row["spent_tokens"],
                spent_money=from_nano(row["spent_money"]),
            )
        )
    return tuple(found)


def _left(limit: int | None, used: int) -> int | None:
    return None if limit is None else max(0, limit - used)


def _no_room(name: str, says: str, tokens: int | None, nano: int | None) -> BudgetError:
    money: Decimal | None = None if nano is None else from_nano(nano)
    return BudgetError(f"account {name!r} {says}", name, tokens, money)
