"""The rule of shared quotas, on a clock that is set by hand."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from concertino import OPERATOR, MemoryStore
from concertino.providers.fair_queue import FairQueue
from concertino.quotas import SLICE, QuotaDemand, QuotaGrant
from concertino.storage.sql.quotas import TURN, Quota, Share, exchange

START = 1_000.0


class Key:
    """A key's quota, and what its processes were granted and used."""

    def __init__(self, requests: float | None, tokens: float | None) -> None:
        self.rates = (requests, tokens)
        self.now = START
        self._quota = Quota(pauses={})
        self._shares: dict[str, Share] = {}
        self.used: list[tuple[float, int]] = []
        """When each request was sent, and its tokens."""

    def ask(self, owner: str, *waiting: int, expected: Sequence[int] = (), **fields: object) -> QuotaGrant:
        """Make an exchange."""
        fields = {"tenants": (owner,) if waiting else (), **fields}
        demand = QuotaDemand(
            key="key",
            owner=owner,
            rates=self.rates,
            waiting=waiting,
            expected=tuple(expected),
            **fields,  # type: ignore[arg-type]
        )
        grant, self._quota, self._shares[owner] = exchange(self._quota, list(self._shares.values()), demand, self.now)
        return grant


def test_the_burst_is_granted_and_then_the_rate() -> None:
    key = Key(600, None)
    assert key.ask("a", *[1] * 100).requests == 60
    assert key.ask("a", *[1] * 40).requests == 0
    key.now += 1.0
    assert key.ask("a", *[1] * 40).requests == 10
    assert 0 < key.ask("a", 1).wait <= SLICE / 2


def test_a_request_larger_than_the_burst_leaves_a_debt() -> None:
    key = Key(None, 6_000)
    assert key.ask("a", 6_000, 1) == QuotaGrant(requests=1, tokens=6_000, wait=SLICE / 2)
    key.now += 53.0
    assert key.ask("a", 1).requests == 0
    key.now += 2.0
    assert key.ask("a", 1).requests == 1


def test_what_is_handed_back_within_the_slice_counts() -> None:
    key = Key(600, 60_000)
    assert key.ask("a", *[100] * 60).tokens == 6_000
    key.now += SLICE / 2
    assert key.ask("a", *[100] * 60, unused=(60, 6_000)).requests == 60
    key.now += SLICE
    assert key.ask("a", *[100] * 60, unused=(60, 6_000)).requests == 10, "too late: what a second adds"


def test_a_large_request_is_not_kept_out_by_small_ones() -> None:
    key = Key(None, 60_000)  # a thousand a second
    key.ask("small", *[100] * 100)
    for _ in range(15):
        key.now += SLICE / 2
        granted = key.ask("large", 6_000).requests
        if granted:
            break
        key.ask("small", *[100] * 100)
    assert granted, "it gets its turn once the bucket has what it needs"
    assert key.ask("small", *[100] * 100).requests == 0


def test_processes_are_served_in_proportion_to_the_tenants_that_wait() -> None:
    key = Key(600, None)
    served = {"a": 0, "b": 0}
    tenants = {"a": ("x", "y", "z"), "b": ("x",)}
    for _ in range(400):
        for owner, names in tenants.items():
            served[owner] += key.ask(owner, *[1] * 50, tenants=names).requests
        key.now += SLICE / 4
    assert 1_000 <= sum(served.values()) <= 1_100
    assert 4.5 < served["a"] / served["b"] < 5.5, "x counts as half a tenant in each"


def test_a_process_that_joins_is_served_as_the_others_from_then_on() -> None:
    key = Key(600, None)
    for _ in range(100):
        key.ask("old", *[1] * 50)
        key.now += SLICE
    served = {"old": 0, "new": 0}
    for _ in range(20):
        for owner in served:
            served[owner] += key.ask(owner, *[1] * 50).requests
        key.now += SLICE
    assert 80 <= served["old"] <= 120


def test_what_is_only_expected_does_not_keep_others_waiting() -> None:
    key = Key(600, None)
    key.ask("b", *[1] * 60)
    assert key.ask("a", *[1] * 5).requests == 0
    assert key.ask("b", *[1] * 100).requests == 0
    key.now += SLICE
    assert key.ask("a", *[1] * 5, expected=[1] * 5).requests == 5
    assert key.ask("b", *[1] * 100).requests == 5
    key.now += 2 * TURN
    assert key.ask("a", 1, expected=[1] * 5).requests == 6


def test_a_killed_process_gives_its_turn_back() -> None:
    key = Key(600, None)
    key.ask("a", *[1] * 60)
    key.now += 0.1
    key.ask("killed", *[1] * 1_000)
    key.ask("a", *[1] * 10)
    key.now += SLICE
    assert key.ask("a", *[1] * 10).requests <= 1, "it leaves the other's part"
    key.now += TURN
    assert key.ask("a", *[1] * 10).requests == 10


def test_a_pause_holds_for_all_and_ends() -> None:
    key = Key(None, None)
    assert key.ask("a", pauses={"": 30.0, "p:big": 3_600.0}).pauses == {"": 30.0, "p:big": 3_600.0}
    key.now += 10.0
    assert key.ask("b", 1) == QuotaGrant(pauses={"": 20.0, "p:big": 3_590.0})
    assert key.ask("b", pauses={"": 5.0}).pauses[""] == 20.0, "a pause is never shortened"
    key.now += 20.0
    assert key.ask("b", 1, 1) == QuotaGrant(requests=2, tokens=2, pauses={"p:big": 3_570.0})


def test_processes_resume_gradually_after_a_pause() -> None:
    key = Key(600, None)
    assert key.ask("a", *[1] * 5, pauses={"": 30.0}).requests == 0
    key.now += 10.0
    assert key.ask("b", *[1] * 100).requests == 0
    key.now += 20.1  # no process has asked since, and the burst would be full
    granted = [key.ask(owner, *[1] * 100).requests for owner in "abc"]
    assert sum(granted) == 1, "what the tenth of a second since the pause has added, for all together"
    for _ in range(4):
        key.now += SLICE / 2
        granted += [key.ask(owner, *[1] * 100).requests for owner in "abc"]
    assert 15 <= sum(granted) <= 22, "ten a second"


def test_a_pause_of_one_model_leaves_the_burst_to_the_others() -> None:
    key = Key(600, None)
    assert key.ask("a", *[1] * 100, pauses={"p:big": 30.0}).requests == 60


def test_a_correction_is_added_up_to_the_burst() -> None:
    key = Key(None, 6_000)
    key.ask("a", 6_000)
    key.ask("a", correction=5_990)
    assert key.ask("a", 600).requests == 0
    assert key.ask("a", 590).requests == 1
    key.ask("a", correction=100_000)
    assert key.ask("a", *[60] * 100).requests == 10
    key.ask("a", correction=-3_000)
    key.now += 29.0
    assert key.ask("a", 1).requests == 0


def test_a_rate_that_is_added_later_begins_without_a_debt() -> None:
    key = Key(None, None)
    key.ask("a", *[1_000] * 100)
    key.rates = (60, 60_000)
    key.now += 6.0
    assert key.ask("a", 6_000).requests == 1


STEPS = st.lists(
    st.tuples(
        st.sampled_from("abc"),
        st.floats(0.0, 3.0),  # seconds since the last exchange of anyone
        st.lists(st.integers(0, 1_000), max_size=12),  # what waits
        st.lists(st.integers(0, 1_000), max_size=4),  # what is expected
        st.integers(0, 16),  # how many of those that were granted are sent, at the end of their slice
    ),
    max_size=40,
)


@settings(max_examples=80, deadline=None)
@given(STEPS, st.sampled_from([1, 7, 60, 900]), st.sampled_from([1_000, 5_000, 90_000]))
def test_no_window_has_more_than_the_limit_and_the_burst(steps: list[Any], requests: int, tokens: int) -> None:
    key = Key(requests, tokens)
    held: dict[str, tuple[float, list[int], int, int]] = {}

    def send(owner: str, most: int) -> tuple[int, int]:
        """Send up to *most* requests of the last grant as late as it allows, and return what is left of it."""
        asked, sizes, count, left = held.pop(owner, (0.0, [], 0, 0))
        at = min(key.now, asked + SLICE)
        for size in sizes[: min(most, count)]:
            key.used.append((at, size))
            count, left = count - 1, left - size
        return count, left

    for owner, seconds, waiting, expected, sent in steps:
        key.now += seconds
        unused = send(owner, sent)
        grant = key.ask(owner, *waiting, expected=expected, unused=unused)
        sizes = [*waiting, *expected]
        assert grant.tokens == sum(sizes[: grant.requests])
        held[owner] = (key.now, sizes, grant.requests, grant.tokens)
    for owner in list(held):
        send(owner, 100)

    used = sorted(key.used)
    for first in range(len(used)):
        for last in range(first, len(used)):
            part = used[first : last + 1]
            minutes = (part[-1][0] - part[0][0] + SLICE) / 60
            most = max(size for _, size in part)
            assert len(part) <= minutes * requests + max(requests / 10, 1) + 1e-6
            assert sum(size for _, size in part) <= minutes * tokens + max(tokens / 10, most) + 1e-6


async def test_a_clock_that_was_set_back_does_not_stop_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [1e9 + 3_600]
    monkeypatch.setattr("concertino.storage.sqlite.connection.SqliteSession.now", staticmethod(lambda: clock[0]))

    async def granted(**fields: Any) -> QuotaGrant:
        demand = QuotaDemand(key="key", owner="a", rates=(600, None), waiting=(1,) * 100, **fields)
        return await store.draw_quota(OPERATOR, demand)

    async with MemoryStore() as store:
        assert (await granted()).requests == 60
        assert (await granted(pauses={"other": 20.0})).requests == 0
        clock[0] -= 3_600
        assert dict((await granted()).pauses) == {"other": 20.0}
        clock[0] += 1
        assert (await granted()).requests == 10


def test_a_debt_is_at_most_a_minutes_quota() -> None:
    key = Key(None, 6_000)
    key.ask("a", correction=-(10**12))
    key.now += 61.0
    assert key.ask("a", 5).requests == 1


@pytest.mark.parametrize("processes", [1, 2, 4, 10])
def test_a_tenant_that_waits_in_one_process_is_served_as_much_as_one_that_waits_in_all(processes: int) -> None:
    key, served = Key(600, None), Counter[str]()
    queues = [FairQueue[str]() for _ in range(processes)]
    for step in range(1_200 * processes):
        key.now += 0.05 / processes
        number = step % processes
        queue, tenants = queues[number], ("everywhere", "once")[: 2 if number == 0 else 1]
        waiting = Counter(queue)
        for tenant in tenants:
            for _ in range(20 - waiting[tenant]):
                queue.add(tenant, "user", tenant)
        grant = key.ask(str(number), *[1] * len(queue), tenants=tuple(queue.tenants))
        queue.weigh(grant.weights)
        in_order = list(queue)[: grant.requests]
        popped = [queue.pop() for _ in range(grant.requests)]
        assert in_order == popped
        served.update(popped)
    assert served["once"] >= 0.45 * served.total(), served
