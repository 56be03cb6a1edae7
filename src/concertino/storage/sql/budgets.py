"""Accounts with budgets: reservations before an attempt, charges after it, and corrections by the provider's bill."""

from __future__ import annotations

from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal

from ...errors import BudgetError, ConfigurationError, StorageError, UnknownRunError
from ...scope import AnyScope, Scope, TenantScope
from ...usage import UsageRecord
from ..types import Account, AccountKind, Budget, Claim, Reservation, Settlement
from .rows import account_keys, bill_row, claim_accounts
from .session import Cursor, Row, Session
from .statements import scoped

_WIDE = Context(prec=60)


def reserve(connection: Session, claim: Claim, wanted: Reservation) -> None:
    """Reserve *wanted* on each account of the claimed tree that has a budget, or raise `BudgetError`.

    An earlier reservation of the same id is replaced. After its settlement nothing is reserved.
    """
    sql = connection.queries
    if wanted.tokens < 0 or (wanted.money is not None and wanted.money < 0):
        raise StorageError(f"reservation {wanted.id!r}: amounts must not be negative")
    money = 0 if wanted.money is None else to_nano(wanted.money, up=True)
    drawn = claim_accounts(claim)
    connection.lock("lock_accounts", {"keys": [key for _, key in drawn]})
    for kind, key in drawn:
        row = connection.execute(sql["account"], (key,)).fetchone()
        if row is None or not row["limited"]:
            continue
        before = connection.execute(sql["reserved"], (wanted.id, key)).fetchone() or (0, 0, 0)
        if before[0]:
            continue
        if _shortfall(wanted, money, *_left(row, before)) is not None:  # trees may have leased what they do not need
            connection.lock("lock_whole_accounts", {"keys": [key]})
            row = connection.execute(sql["account"], (key,)).fetchone()
            left = _left(row, before)
            if (problem := _shortfall(wanted, money, *left)) is not None:
                tokens, nano = (None if each is None else max(0, each) for each in left)
                raise BudgetError(
                    f"the {kind}'s account {problem}", kind, tokens, None if nano is None else _from_nano(nano)
                )
        connection.execute(sql["reserve"], (wanted.id, key, wanted.tokens, money))
        connection.execute(sql["charge"], (wanted.tokens - before[1], money - before[2], 0, 0, key))


def settle(connection: Session, claim: Claim, done: Settlement) -> None:
    """Release the reservation with the id of *done*, and charge the final amount; once per account of the tree."""
    sql = connection.queries
    if done.tokens < 0 or (done.money is not None and done.money < 0):
        raise StorageError(f"settlement {done.id!r}: amounts must not be negative")
    money = 0 if done.money is None else to_nano(done.money, up=True)
    for _, key in claim_accounts(claim):
        row = connection.execute(sql["account"], (key,)).fetchone()
        before = connection.execute(sql["reserved"], (done.id, key)).fetchone()
        limited = row is not None and row["limited"]
        if (before is None and not limited) or (before is not None and before[0]):
            continue
        spent = (done.tokens, money) if limited else (0, 0)
        connection.execute(sql["settle"], (done.id, key, *spent))
        released = (0, 0) if before is None else (-before[1], -before[2])
        connection.execute(sql["charge"], (*released, *spent, key))


def charge_reserved(connection: Session, id: str) -> None:
    """Charge what is reserved under *id*: the worst case of an attempt that cannot be settled."""
    sql = connection.queries
    for key, settled, tokens, money in connection.execute(sql["charges"], (id,)).fetchall():
        if not settled:
            connection.execute(sql["settle"], (id, key, tokens, money))
            connection.execute(sql["charge"], (-tokens, -money, tokens, money, key))


def settle_usage(connection: Session, scope: AnyScope, record: UsageRecord) -> None:
    """Replace an unknown or estimated usage record by *record*, and correct the accounts that paid for it."""
    sql = connection.queries
    if record.tokens.negative or (record.cost is not None and record.cost < 0):
        raise StorageError(f"usage record {record.id!r}: counts and cost must not be negative")
    connection.lock("lock_tree", {"run_id": record.run_id})
    find, bound = scoped(connection, "run_number", scope)
    run = connection.execute(find, {**bound, "run_id": record.run_id}).fetchone()
    if run is None:
        raise UnknownRunError(f"unknown run {record.run_id!r} of usage record {record.id!r}")
    source = connection.execute(sql["usage_source"], {"id": record.id, "run": run[0]}).fetchone()
    if source is None:
        raise StorageError(f"run {record.run_id!r} has no usage record {record.id!r}: check the id")
    if source[0] == "measured":
        raise StorageError(f"usage record {record.id!r} is measured: only 'unknown' and 'estimated' can be settled")
    connection.execute(sql["correct_usage"], (*bill_row(record), record.id))
    _correct(connection, record)


def set_budget(connection: Session, scope: Scope | TenantScope, budget: Budget | None, run_id: str | None) -> None:
    """Set or remove the limit of the account of a user, a tenant or a run; its spending stays."""
    kind: AccountKind = "tenant" if isinstance(scope, TenantScope) else "user" if run_id is None else "run"
    key = dict(account_keys(scope, run_id)).get(kind)
    if key is None:
        raise ConfigurationError(f"{scope!r:.80} names no {kind} whose account could have a budget")
    tokens, money = (None, None) if budget is None else (budget.tokens, budget.money)
    bound = {
        "account": key,
        "limited": budget is not None,
        "tokens": tokens,
        "money": None if money is None else to_nano(money, up=False),
    }
    connection.lock("lock_whole_accounts", {"keys": [key]})  # slices that were leased under another limit
    connection.execute(connection.queries["set_budget"], bound)


def accounts(connection: Session, scope: Scope | TenantScope, run_id: str | None) -> tuple[Account, ...]:
    """Return the accounts with a budget that a tree of *scope* draws on."""
    return tuple(map(to_account, ask_accounts(connection, scope, run_id).fetchall()))


def ask_accounts(connection: Session, scope: Scope | TenantScope, run_id: str | None) -> Cursor:
    """Send the query of `accounts`."""
    bound = {"run": None, "user": None, "tenant": None, **dict(account_keys(scope, run_id))}
    return connection.execute(connection.queries["limited_accounts"], bound)


def to_account(row: Row) -> Account:
    """Return the account of *row*."""
    money = None if row["limit_money"] is None else _from_nano(row["limit_money"])
    return Account(
        kind=row["kind"],
        budget=Budget(tokens=row["limit_tokens"], money=money),
        reserved_tokens=row["reserved_tokens"],
        reserved_money=_from_nano(row["reserved_money"]),
        spent_tokens=row["spent_tokens"],
        spent_money=_from_nano(row["spent_money"]),
    )


def _correct(connection: Session, record: UsageRecord) -> None:
    sql, tokens = connection.queries, record.tokens.total
    for key, settled, old_tokens, old_money in connection.execute(sql["charges"], (record.id,)).fetchall():
        # Without a price the charge in money stays as it is: it was the worst case.
        money = old_money if record.cost is None else to_nano(record.cost, up=True)
        connection.execute(sql["settle"], (record.id, key, tokens, money))
        charge = (0, 0, tokens - old_tokens, money - old_money)
        if not settled:
            charge = (-old_tokens, -old_money, tokens, money)
        connection.execute(sql["charge"], (*charge, key))


def to_nano(money: Decimal, *, up: bool) -> int:
    """Return US dollars as whole billionths, rounded up (a charge) or down (a limit)."""
    return int(money.scaleb(9, _WIDE).to_integral_value(ROUND_CEILING if up else ROUND_FLOOR))


def _from_nano(nano: int) -> Decimal:
    """Return billionths as US dollars."""
    return Decimal(nano).scaleb(-9, _WIDE)


def _left(row: Row, before: Row | tuple[int, int, int]) -> tuple[int | None, int | None]:
    """Return the tokens and the money that an account has left, except what was reserved before under the same id."""
    tokens, money = row["limit_tokens"], row["limit_money"]
    return (
        None if tokens is None else tokens - row["spent_tokens"] - row["reserved_tokens"] + before[1],
        None if money is None else money - row["spent_money"] - row["reserved_money"] + before[2],
    )


def _shortfall(wanted: Reservation, money: int, tokens_left: int | None, money_left: int | None) -> str | None:
    """Return why an account cannot cover *wanted*, or None."""
    if tokens_left is not None and tokens_left < wanted.tokens + wanted.spare_tokens:
        asked = f"{wanted.tokens} tokens and {wanted.spare_tokens} to spare"
        return f"has {max(0, tokens_left)} tokens left, and {asked} are needed"
    if money_left is None:
        return None
    if wanted.money is None:
        return "is limited in money, and the model has no known price"
    if money_left < money + to_nano(wanted.spare_money, up=True):
        asked = f"${wanted.money} and ${wanted.spare_money} to spare"
        return f"has ${_from_nano(max(0, money_left))} left, and {asked} are needed"
    return None
