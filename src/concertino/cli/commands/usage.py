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
from ...records import record
from ...storage.types import UsageSum
from ...usage import Tokens, UsageRecord
from ..command_context import CommandContext
from ..render.console import table
from ..render.format import exact, money
from ..render.run_report import price_lines
from .run_state import attempt_of, find_run, step_of, tree_usage

FIELDS = ("run", "agent", "model", "user", "organization", "day")
RUN_FIELDS = ("run", "agent", "model", "step", "attempt")
"""The fields of the records of a single tree."""
_EXACT = Context(prec=2000)
_FIGURES = ("ATTEMPTS", "INPUT", "CACHED", "OUTPUT", "COST")


@record(kw_only=True)
class UsageQuery:
    """The sums to print."""

    by: tuple[str, ...]
    run_id: str | None = None
    since: str | None = None
    until: str | None = None


async def usage(query: UsageQuery, context: CommandContext) -> int:
    """Print the sums and their total. Raises `ConfigurationError` for an unknown field or an invalid date."""
    fields = _fields(query)
    sums, records = await _sums(query, fields, context)
    everything = _added((), sums)
    if context.console.as_json:
        for one in sums:
            context.console.json({"by": dict(zip(fields, one.by, strict=True)), **_figures(one)})
        context.console.json({"by": {}, "total": True, **_figures(everything)})
        return 0
    rows = [[*(str(value) or "(none)" for value in one.by), *_cells(one)] for one in sums]
    rows.append(["total", *[""] * (len(fields) - 1), *_cells(everything)])
    context.console.print(_table(fields, rows))
    context.console.print(*price_lines(records))
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
    made = table(heads, rows, right=_FIGURES, flexible=("AGENT", "MODEL", "USER", "ORGANIZATION", "NOTES"))
    made.rows[-1].style = "bold"
    return made


def _fields(query: UsageQuery) -> tuple[str, ...]:
    known = FIELDS if query.run_id is None else RUN_FIELDS
    fields = tuple(dict.fromkeys(field.strip() for given in query.by for field in given.split(",")))
    for field in fields:
        if field not in known:
            hint = " (with --run)" if query.run_id is not None else ""
            raise ConfigurationError(f"invalid --by {field!r}: choose from {', '.join(known)}{hint}")
    return fields


async def _sums(
    query: UsageQuery, fields: tuple[str, ...], context: CommandContext
) -> tuple[Sequence[UsageSum], list[UsageRecord]]:
    """Return the sums, and the records of a single tree."""
    since = None if query.since is None else _moment(query.since, "--since", end=False)
    until = None if query.until is None else _moment(query.until, "--until", end=True)
    if since is not None and until is not None and since >= until:
        raise ConfigurationError(f"--since {query.since} is not before --until {query.until}")
    if query.run_id is None:
        return await context.store.usage_sums(fields, since=since, until=until), []
    if since is not None or until is not None:
        raise ConfigurationError("--run takes no --since and no --until: a run's usage is one sum")
    run = await find_run(context, query.run_id)
    records = tree_usage(await context.store.usage(run.start.root_id), run)
    return _sums_of(records, fields), records


def _sums_of(records: Sequence[UsageRecord], fields: Sequence[str]) -> list[UsageSum]:
    """Return the sums of *records* for each combination of `RUN_FIELDS`, in the order of their first record."""
    groups: defaultdict[tuple[str, ...], list[UsageSum]] = defaultdict(list)
    for one in records:
        by = tuple(_value(one, field) for field in fields)
        of_one = UsageSum(
            by=by,
            attempts=1,
            tokens=one.tokens,
            cost=one.cost or Decimal(0),
            unpriced=int(one.cost is None),
            estimated=int(one.source == "estimated"),
            unknown=int(one.source == "unknown"),
        )
        groups[by].append(of_one)
    return [_added(by, group) for by, group in groups.items()]


def _value(record: UsageRecord, field: str) -> str:
    match field:
        case "run":
            return record.run_id
        case "agent":
            return record.agent_path
        case "model":
            return f"{record.provider}:{record.model}"
        case "step":
            return str(step_of(record))
        case _:
            return attempt_of(record)


def _added(by: tuple[str, ...], sums: Sequence[UsageSum]) -> UsageSum:
    return UsageSum(
        by=by,
        attempts=sum(one.attempts for one in sums),
        tokens=sum((one.tokens for one in sums), Tokens()),
        cost=reduce(_EXACT.add, (one.cost for one in sums), Decimal(0)),
        unpriced=sum(one.unpriced for one in sums),
        estimated=sum(one.estimated for one in sums),
        unknown=sum(one.unknown for one in sums),
    )


def _cells(one: UsageSum) -> list[str]:
    tokens = one.tokens
    cost = None if one.attempts and one.unpriced == one.attempts else one.cost
    counts = ((one.estimated, "estimated"), (one.unknown, "unknown"), (one.unpriced, "without a price"))
    figures = (one.attempts, tokens.prompt, tokens.cached, tokens.completion)
    notes = ", ".join(f"{count:,} {label}" for count, label in counts if count)
    return [*(f"{figure:,}" for figure in figures), "?" if cost is None else money(cost), notes]


def _figures(one: UsageSum) -> dict[str, Any]:
    return {
        "attempts": one.attempts,
        "tokens": dataclasses.asdict(one.tokens),
        "cost": exact(one.cost),
        "estimated": one.estimated,
        "unknown": one.unknown,
        "unpriced": one.unpriced,
    }


def _moment(text: str, option: str, *, end: bool) -> float:
    """Parse a date or a time, in UTC unless it has a time zone. A date is its beginning, or its end with *end*."""
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
