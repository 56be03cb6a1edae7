"""`concertino usage`: sums over the ledger."""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Sequence
from datetime import UTC, date, datetime, time, timedelta
from decimal import Context, Decimal
from functools import reduce
from typing import Any

from rich.table import Table

from ...errors import ConfigurationError
from ...scope import OPERATOR
from ...storage.codec import receipt_json
from ...storage.types import UsageSum
from ...usage import Tokens, UsageRecord, total
from ..command_context import CommandContext
from ..render.console import table
from ..render.format import exact, money
from ..render.run_report import price_lines
from .run_state import attempt_of, find_run, step_of, tree_usage

FIELDS = ("run", "agent", "model", "tenant", "user", "day")
RUN_FIELDS = ("run", "agent", "model", "step", "attempt")
"""The fields of the records of a single tree."""
_EXACT = Context(prec=2000)
_FIGURES = ("ATTEMPTS", "INPUT", "CACHED", "OUTPUT", "COST")


async def usage(
    by: Sequence[str], run_id: str | None, since: str | None, until: str | None, context: CommandContext
) -> int:
    """Print the sums and their total. Raises `ConfigurationError` for an unknown field or an invalid date."""
    fields = _fields(by, in_run=run_id is not None)
    start, end = _moment(since, "--since", end=False), _moment(until, "--until", end=True)
    if start is not None and end is not None and start >= end:
        raise ConfigurationError(f"--since {since} is not before --until {until}")
    records: Sequence[UsageRecord] = ()
    receipts: dict[tuple[str, ...], list[dict[str, Any]]] = {}
    if run_id is None:
        sums = await context.store.usage_sums(OPERATOR, fields, since=start, until=end)
    elif start is None and end is None:
        run = await find_run(context, run_id)
        records = tree_usage(await context.store.usage(OPERATOR, run.start.root_id), run)
        sums = _sums_of(records, fields)
        receipts = _receipts(records, fields)
    else:
        raise ConfigurationError("--run takes no --since and no --until: a run's usage is one sum")
    in_all = _added((), sums)
    if context.console.as_json:
        for one in sums:
            found = {"receipts": receipts[one.by]} if one.by in receipts else {}
            context.console.json({**_figures(one), **found, "by": dict(zip(fields, one.by, strict=True))})
        context.console.json({**_figures(in_all), "by": {}, "total": True})
        return 0
    rows = [[*(str(value) or "(none)" for value in one.by), *_cells(one)] for one in sums]
    rows.append(["total", *[""] * (len(fields) - 1), *_cells(in_all)])
    context.console.print(_table(fields, rows), *price_lines(records))
    return 0


def _table(fields: Sequence[str], rows: list[list[str]]) -> Table:
    heads = [*(field.upper() for field in fields), *_FIGURES]
    if "attempt" in fields:  # the count would be 1 in every row
        count = heads.index("ATTEMPTS")
        heads.pop(count)
        rows = [[*row[:count], *row[count + 1 :]] for row in rows]
    if any(row[-1] for row in rows):
        heads.append("NOTES")
    else:
        rows = [row[:-1] for row in rows]
    made = table(heads, rows, right=_FIGURES, flexible=("AGENT", "MODEL", "TENANT", "USER", "NOTES"))
    made.rows[-1].style = "bold"
    return made


def _fields(by: Sequence[str], *, in_run: bool) -> tuple[str, ...]:
    known = RUN_FIELDS if in_run else FIELDS
    fields = tuple(dict.fromkeys(field.strip() for given in by for field in given.split(",")))
    if "user" in fields and "tenant" not in fields:  # users of two tenants may have the same id
        at = fields.index("user")
        fields = (*fields[:at], "tenant", *fields[at:])
    for field in fields:
        if field not in known:
            hint = " (with --run)" if in_run else ""
            raise ConfigurationError(f"invalid --by {field!r}: choose from {', '.join(known)}{hint}")
    return fields


def _sums_of(records: Sequence[UsageRecord], fields: Sequence[str]) -> list[UsageSum]:
    """Return the sums of *records* for each combination of `RUN_FIELDS`, in the order of their first record."""
    groups: defaultdict[tuple[str, ...], list[UsageSum]] = defaultdict(list)
    for one in records:
        by, sums = _values(one, fields), total([one])
        of_one = UsageSum(
            by=by,
            attempts=1,
            tokens=sums.tokens,
            unknown_tokens=sums.unknown_tokens,
            cost=one.cost,
            unpriced=int(one.cost is None),
            estimated=int(one.source == "estimated"),
            unknown=int(one.source == "unknown"),
        )
        groups[by].append(of_one)
    return [_added(by, group) for by, group in groups.items()]


def _receipts(records: Sequence[UsageRecord], fields: Sequence[str]) -> dict[tuple[str, ...], list[dict[str, Any]]]:
    """Return the receipts of *records* by the same groups, each with the id of its record."""
    groups: dict[tuple[str, ...], list[dict[str, Any]]] = {}
    for one in records:
        if one.receipt is not None:
            groups.setdefault(_values(one, fields), []).append({"id": one.id, **receipt_json(one.receipt)})
    return groups


def _values(one: UsageRecord, fields: Sequence[str]) -> tuple[str, ...]:
    model, step = f"{one.provider}:{one.model}", str(step_of(one))
    values = dict(zip(RUN_FIELDS, (one.run_id, one.agent_path, model, step, attempt_of(one)), strict=True))
    return tuple(values[field] for field in fields)


def _added(by: tuple[str, ...], sums: Sequence[UsageSum]) -> UsageSum:
    costs = [one.cost for one in sums if one.cost is not None]
    return UsageSum(
        by=by,
        attempts=sum(one.attempts for one in sums),
        tokens=sum((one.tokens for one in sums), Tokens()),
        unknown_tokens=sum((one.unknown_tokens for one in sums), Tokens()),
        cost=reduce(_EXACT.add, costs, Decimal(0)) if costs or not sums else None,
        unpriced=sum(one.unpriced for one in sums),
        estimated=sum(one.estimated for one in sums),
        unknown=sum(one.unknown for one in sums),
    )


def _cells(one: UsageSum) -> list[str]:
    tokens = one.tokens
    counts = ((one.estimated, "estimated"), (one.unknown, "unknown"), (one.unpriced, "without a price"))
    figures = (one.attempts, tokens.prompt, tokens.cached, tokens.completion)
    notes = ", ".join(f"{count:,} {label}" for count, label in counts if count)
    return [*(f"{figure:,}" for figure in figures), "?" if one.cost is None else money(one.cost), notes]


def _figures(one: UsageSum) -> dict[str, Any]:
    return {**dataclasses.asdict(one), "cost": exact(one.cost)}


def _moment(text: str | None, option: str, *, end: bool) -> float | None:
    """Parse a date or a time, in UTC unless it has a time zone. A date is its beginning, or its end with *end*."""
    if text is None:
        return None
    try:
        if ":" not in text:
            day = datetime.combine(date.fromisoformat(text.strip()), time(), UTC)
            return (day + timedelta(days=int(end))).timestamp()
        at = datetime.fromisoformat(text.strip())
        return (at if at.tzinfo is not None else at.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError) as error:
        raise ConfigurationError(
            f"invalid {option} {text!r}: use a date, such as 2026-11-30, or a time, such as 2026-11-30T12:00"
        ) from error
