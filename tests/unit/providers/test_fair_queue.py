"""`FairQueue`: tenants take turns by their weights, also after refused requests have left the queue."""

from __future__ import annotations

import pytest

from concertino.providers.fair_queue import FairQueue


def popped(*, refilled: bool, weights: dict[str, float]) -> list[str]:
    """Return the order of two tenants' items; *refilled*: they move to a new queue after each turn."""
    queue, order = FairQueue[str](), list[str]()
    for item in "aaabbbbbbbb":
        queue.add(item, "ann", item)
    queue.weigh(weights)
    while queue:
        order.append(queue.pop())
        if refilled:
            left, queue = queue, queue.emptied()
            for tenant, user, item in left.items():
                queue.add(tenant, user, item)
    return order


@pytest.mark.parametrize("refilled", [False, True])
def test_a_tenant_of_less_weight_misses_turns(refilled: bool) -> None:
    assert popped(refilled=refilled, weights={}) == list("abababbbbbb")
    assert popped(refilled=refilled, weights={"a": 0.25}) == list("abbbbabbbba")
