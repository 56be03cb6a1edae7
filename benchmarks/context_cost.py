"""The cost of requests at a provider with a prompt cache, and two reference policies.

Costs are in tokens of uncached input. A request hits the longest cached prefix that has not expired. With cache
breakpoints, entries end at breakpoints only, and each breakpoint looks back a number of blocks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from benchmarks.context_traces import Trace
from concertino.token_engine.caching.rules import CacheRule

KEPT = 10
"""The newest results stay, as in the engine."""


@dataclass
class Cache:
    """A provider's cache, and the bill so far."""

    rule: CacheRule
    live: dict[int, float] = field(default_factory=dict)
    cost: float = 0.0
    sent: int = 0
    hit: int = 0

    def bill(self, blocks: Sequence[tuple[object, int]], marks: Iterable[int] | None, now: float) -> int:
        """Charge a request of *blocks* (content, tokens); return the tokens read from the cache.

        *marks*: positions of cache breakpoints, for a provider that uses them.
        """
        rule, total, state = self.rule, 0, 0
        states, sums = [], []
        for what, tokens in blocks:
            state, total = hash((state, what)), total + tokens
            states.append(state)
            sums.append(total)
        hit = self._found(states, sums, marks, now)
        at = sorted(marks) if rule.breakpoints and marks is not None else range(len(states))
        for place in at:
            if sums[place] >= rule.minimum:
                self.live[states[place]] = now
        written = (sums[max(at)] if at else 0) if rule.breakpoints else total
        self.cost += rule.read * hit + rule.write * max(written - hit, 0) + (total - max(written, hit))
        self.sent += total
        self.hit += hit
        return hit

    def _found(self, states: list[int], sums: list[int], marks: Iterable[int] | None, now: float) -> int:
        rule = self.rule
        places: Iterable[int] = range(len(states) - 1, -1, -1)
        if rule.breakpoints:
            reach = rule.reach or len(states)
            places = (p for mark in sorted(marks or (), reverse=True) for p in range(mark, max(mark - reach, -1), -1))
        for place in places:
            if now - self.live.get(states[place], -1e18) <= rule.seconds:
                self.live[states[place]] = now
                found = sums[place] // rule.step * rule.step
                return found if found >= rule.minimum else 0
        return 0


def groups(trace: Trace) -> list[int]:
    """Return the group of each message; a call and its results form one."""
    found: list[int] = []
    for who, _ in trace.messages:
        found.append(found[-1] if who == "t" and found else (found[-1] + 1 if found else 0))
    return found


def sliding(trace: Trace, rule: CacheRule) -> float:
    """Return the cost of dropping the oldest groups at each request until it fits."""
    cache, now, first, group = Cache(rule), 0.0, 0, groups(trace)
    sizes = [tokens for _, tokens in trace.messages]
    used, seen = trace.system, 0
    for count, gap in trace.requests:
        now += gap
        used, seen = used + sum(sizes[seen:count]), count
        while used > trace.limit and first < count - 2:
            end = first
            while end < count and group[end] == group[first]:
                used -= sizes[end]
                end += 1
            first = end
        blocks: list[tuple[object, int]] = [("system", trace.system), *((n, sizes[n]) for n in range(first, count))]
        cache.bill(blocks, (0, len(blocks) - 1), now)
    return cache.cost


def optimum(trace: Trace, rule: CacheRule, reduced: Callable[[int], int]) -> float:
    """Return the lowest cost of any schedule of reductions, by dynamic programming with knowledge of the future.

    At each request the schedule reduces all results before some index; the newest ones stay. *reduced* returns the
    tokens of the digest for a result of the given tokens.
    """
    places = [n for n, (who, _) in enumerate(trace.messages) if who == "t"]
    saved = [max(trace.messages[n][1] - reduced(trace.messages[n][1]), 0) for n in places]
    before = [0]
    for _, tokens in trace.messages:
        before.append(before[-1] + tokens)
    gone = [0]
    for tokens in saved:
        gone.append(gone[-1] + tokens)
    places.append(len(trace.messages))
    start = [trace.system + before[places[k]] - gone[k] for k in range(len(gone))]
    best: dict[int, float] = {0: 0.0}
    last = 0
    for count, gap in trace.requests:
        most = max(sum(place < count for place in places[:-1]) - KEPT, 0)
        cold, here = gap > rule.seconds or not last, {}
        cheapest = float("inf")  # of all that reduce less, with what changing from there costs taken off
        for k in range(most + 1):
            size, was = trace.system + before[count] - gone[k], trace.system + before[last] - gone[k]
            known = best.get(k, float("inf"))
            warm = known + rule.read * was + rule.write * (size - was)
            stay = known + rule.write * size if cold else warm
            # A change keeps what stands before the first result that it reduces.
            move = cheapest + rule.write * size
            here[k] = min(stay, move)
            cheapest = min(cheapest, known - (0.0 if cold else (rule.write - rule.read) * start[k]))
        best, last = {k: cost for k, cost in here.items() if cost < float("inf")}, count
    return min(best.values())
