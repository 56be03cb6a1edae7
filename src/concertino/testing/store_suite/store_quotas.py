"""Quotas of provider keys, in every store: processes share them, and the store's clock decides."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from concertino import OPERATOR
from concertino.errors import ConfigurationError
from concertino.storage import QuotaDemand

from .kit import SCOPE, FullStore

_SLOW = (0.01, None)
"""One request at once, and none for hours."""


def quota_demand(owner: str, *waiting: int, **changes: Any) -> QuotaDemand:
    """Return the demand of *owner* on the quota `key`."""
    return QuotaDemand(**{"key": "key", "owner": owner, "rates": _SLOW, "waiting": waiting, **changes})


async def test_processes_share_a_quota(store: FullStore) -> None:
    first = await store.draw_quota(OPERATOR, quota_demand("a", 5, 7))
    assert (first.requests, first.tokens, dict(first.pauses)) == (1, 5, {})
    assert first.wait > 0
    assert (await store.draw_quota(OPERATOR, quota_demand("b", 5))).requests == 0
    assert (await store.draw_quota(OPERATOR, quota_demand("b", 5, key="other"))).requests == 1
    with pytest.raises(ConfigurationError, match="only the operator"):
        await store.draw_quota(SCOPE, quota_demand("a"))  # type: ignore[arg-type]


async def test_concurrent_processes_never_draw_more_than_there_is(store: FullStore) -> None:
    grants = await asyncio.gather(*(store.draw_quota(OPERATOR, quota_demand(f"p{n}", 5)) for n in range(20)))
    assert sum(grant.requests for grant in grants) == 1


async def test_pauses_debts_and_corrections_are_stored(store: FullStore) -> None:
    rates = (None, 1.0)
    await store.draw_quota(OPERATOR, quota_demand("a", rates=rates, correction=-10_000))
    assert (await store.draw_quota(OPERATOR, quota_demand("b", 1, rates=rates))).requests == 0
    await store.draw_quota(OPERATOR, quota_demand("a", rates=rates, correction=10_000))
    assert (await store.draw_quota(OPERATOR, quota_demand("b", 1, rates=rates))).requests == 1
    await store.draw_quota(OPERATOR, quota_demand("a", pauses={"": 5_000.0, "p:m": 9_000.0}))
    grant = await store.draw_quota(OPERATOR, quota_demand("c", 1, rates=(None, None)))
    assert grant.requests == 0
    assert 0 < grant.pauses[""] <= 5_000.0 < grant.pauses["p:m"] <= 9_000.0


async def test_a_process_that_waits_is_before_those_that_were_served(store: FullStore) -> None:
    rates = (None, 100.0)  # a burst of ten
    served = quota_demand("a", 10, rates=rates, tenants=("x",))
    assert (await store.draw_quota(OPERATOR, served)).requests == 1
    await store.draw_quota(OPERATOR, quota_demand("b", 90, rates=rates, tenants=("y",), unused=(0, 0)))
    again = quota_demand("a", 1, rates=rates, tenants=("x",), unused=(1, 10))
    assert (await store.draw_quota(OPERATOR, again)).requests == 0, "what there is, is left for the other"
