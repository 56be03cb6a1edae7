"""The page of a month's usage: tokens and cost by day, model and agent."""

from __future__ import annotations

import calendar
import re
from collections.abc import Sequence
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from starlette.exceptions import HTTPException
from starlette.responses import Response

from ...storage.types import UsageSum
from ..endpoint import ApiCall
from .site import Site, frame_values

_MONTH = re.compile(r"(20\d\d)-(0[1-9]|1[0-2])")
_HEIGHT = 120
_STEP = 20
"""Units of a day's width."""


async def month_usage(site: Site, call: ApiCall) -> Response:
    """Return the page of the month that the address names; by default the current one, UTC."""
    now = datetime.now(UTC)
    asked = call.request.query_params.get("month", f"{now:%Y-%m}")
    match = _MONTH.fullmatch(asked)
    if match is None:
        raise HTTPException(404, f"invalid month {asked!r:.40}: use 2026-11")
    year, month = int(match[1]), int(match[2])
    since = datetime(year, month, 1, tzinfo=UTC).timestamp()
    until = datetime(year + month // 12, month % 12 + 1, 1, tzinfo=UTC).timestamp()
    sums = {
        name: await call.runtime.store.usage_sums(call.scope, [name], since=since, until=until)
        for name in ("day", "model", "agent")
    }
    return site.page(
        call.request,
        "usage.html",
        **await frame_values(call, title="Usage", here="usage"),
        month=f"{calendar.month_name[month]} {year}",
        previous=f"{year - (month == 1)}-{(month - 2) % 12 + 1:02}",
        next=f"{year + month // 12}-{month % 12 + 1:02}" if asked < f"{now:%Y-%m}" else "",
        days=_days(sums["day"], calendar.monthrange(year, month)[1]),
        height=_HEIGHT,
        step=_STEP,
        models=_sorted(sums["model"]),
        agents=_sorted(sums["agent"]),
        tokens=sum(each.tokens.total for each in sums["day"]),
        cost=sum((each.cost or Decimal(0) for each in sums["day"]), Decimal(0)),
        attempts=sum(each.attempts for each in sums["day"]),
        unpriced=sum(each.unpriced for each in sums["day"]),
    )


def _sorted(sums: Sequence[UsageSum]) -> list[UsageSum]:
    return sorted(sums, key=lambda each: each.tokens.total, reverse=True)


def _days(sums: Sequence[UsageSum], count: int) -> list[dict[str, Any]]:
    """Return the bar of each day of a month."""
    found = {int(each.by[0][-2:]): each for each in sums if each.by[0][-2:].isdecimal()}
    most = max([1, *(each.tokens.total for each in sums)])
    made = []
    for day in range(1, count + 1):
        used = found.get(day)
        prompt, completion = (0, 0) if used is None else (used.tokens.prompt, used.tokens.completion)
        made.append(
            {
                "day": day,
                "x": (day - 1) * _STEP + 3,
                "prompt": round(prompt / most * _HEIGHT, 1),
                "completion": round(completion / most * _HEIGHT, 1),
                "tokens": prompt + completion,
                "cost": None if used is None else used.cost,
            }
        )
    return made
