"""`concertino usage`: sums over the ledger."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Context, Decimal
from functools import reduce
from typing import Any

from ...errors import ConfigurationError
from ...storage.types import UsageSum
from ...usage import Tokens
from ..context import Desk
from ..render.format import exact, money
from ..render.table import table

BY = ("run", "agent", "model", "user", "organization", "day")
_EXACT = Context(prec=2000)
_RIGHT = ("ATTEMPTS", "PROMPT", "CACHED", "COMPLETION", "COST")
_NOTHING = UsageSum(by=(), attempts=0, tokens=Tokens(), cost=Decimal(0), unpriced=0, estimated=0, unknown=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """Which sums."""

    by: tuple[str, ...]
    since: str | None = None
    until: str | None = None


async def usage(asked: Asked, desk: Desk) -> int:
    """Print them, and their total. Raises `ConfigurationError` for a word or a date that is none."""
    words = tuple(dict.fromkeys(word.strip() for given in asked.by for word in given.split(",")))
    for word in words:
        if word not in BY:
            raise ConfigurationError(f"--by {word}: usage cannot be summed by that; give some of {', '.join(BY)}")
    since = None if asked.since is None else _moment(asked.since, "--since", end=False)
    until = None if asked.until is None else _moment(asked.until, "--until", end=True)
    if since is not None and until is not None and since >= until:
        raise ConfigurationError(f"--since {asked.since} is not before --until {asked.until}")
    sums = await desk.store.usage_sums(words, since=since, until=until)
    total = reduce(_added, sums, _NOTHING)
    if desk.screen.as_json:
        for one in sums:
            desk.screen.object({"by": dict(zip(words, one.by, strict=True)), **_figures(one)})
        desk.screen.object({"by": {}, "total": True, **_figures(total)})
        return 0
    rows = [[*(str(value) or "(none)" for value in one.by), *_cells(one)] for one in sums]
    rows.append(["total", *[""] * (len(words) - 1), *_cells(total)])
    *lines, (last, _) = table([*(word.upper() for word in words), *_RIGHT, "NOTES"], rows, right=_RIGHT)
    desk.screen.lines([*lines, (last, "bold")])
    return 0


def _added(one: UsageSum, other: UsageSum) -> UsageSum:
    return UsageSum(
        by=(),
        attempts=one.attempts + other.attempts,
        tokens=one.tokens + other.tokens,
        cost=_EXACT.add(one.cost, other.cost),
        unpriced=one.unpriced + other.unpriced,
        estimated=one.estimated + other.estimated,
        unknown=one.unknown + other.unknown,
    )


def _cells(one: UsageSum) -> list[str]:
    tokens = one.tokens
    cost = None if one.attempts and one.unpriced == one.attempts else one.cost
    notes = ((one.estimated, "estimated"), (one.unknown, "unknown"), (one.unpriced, "without a price"))
    figures = (one.attempts, tokens.prompt, tokens.cached, tokens.completion)
    told = ", ".join(f"{count:,} {what}" for count, what in notes if count)
    return [*(f"{figure:,}" for figure in figures), "?" if cost is None else money(cost), told]


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
    """A date or a time, in UTC unless it says otherwise. A date alone is its beginning, or with *end* its end."""
    try:
        if ":" not in text:
            day = datetime.combine(date.fromisoformat(text.strip()), time(), UTC)
            return (day + timedelta(days=int(end))).timestamp()
        at = datetime.fromisoformat(text.strip())
        return (at if at.tzinfo is not None else at.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError) as error:
        raise ConfigurationError(f"{option} {text}: give a date, such as 2026-11-30, or 2026-11-30T12:00") from error
