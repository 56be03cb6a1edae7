"""A queue in which tenants take turns, and each tenant's users take turns within it."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterable, Iterator, Mapping
from typing import Generic, TypeVar

T = TypeVar("T")


class FairQueue(Generic[T]):
    """Items by tenant and user. The head is the first item of the tenant, and of its user, whose turn it is.

    A tenant with less weight than another misses turns.
    """

    __slots__ = ("_missed", "_rounds", "_tenants")

    def __init__(self) -> None:
        self._tenants: OrderedDict[str, OrderedDict[str, deque[T]]] = OrderedDict()
        self._rounds: dict[str, float] = {}
        """Rounds per turn of the tenants that have more than one."""
        self._missed: dict[str, float] = {}
        """Turns that a tenant has yet to miss. They outlast its items: it may add the next one at once."""

    def __bool__(self) -> bool:
        return bool(self._tenants)

    def __len__(self) -> int:
        return sum(len(queue) for users in self._tenants.values() for queue in users.values())

    def __iter__(self) -> Iterator[T]:
        """Yield the items in the order in which `pop` would return them."""
        if not self._rounds and not self._missed:
            return _in_turn(_in_turn(users.values()) for users in self._tenants.values())
        return self._weighted()

    @property
    def tenants(self) -> list[str]:
        """The tenants whose items wait."""
        return list(self._tenants)

    @property
    def head(self) -> T:
        """The item whose turn it is."""
        return next(iter(next(iter(self._tenants.values())).values()))[0]

    def items(self) -> list[tuple[str, str, T]]:
        """Return each item with its tenant and user."""
        return [
            (tenant, user, item)
            for tenant, users in self._tenants.items()
            for user, queue in users.items()
            for item in queue
        ]

    def add(self, tenant: str, user: str, item: T) -> None:
        """Add an item behind the others of its user."""
        self._tenants.setdefault(tenant, OrderedDict()).setdefault(user, deque()).append(item)

    def pop(self) -> T:
        """Remove and return the head. The next turn is the next tenant's."""
        tenant, users = next(iter(self._tenants.items()))
        user, queue = next(iter(users.items()))
        item = queue.popleft()
        users.move_to_end(user)
        self._tenants.move_to_end(tenant)
        self._drop_empty(tenant, user)
        if tenant in self._rounds:
            self._missed[tenant] = self._missed.get(tenant, 0.0) + self._rounds[tenant] - 1
        while self._tenants and _misses(self._missed, first := next(iter(self._tenants))):
            self._tenants.move_to_end(first)
        return item

    def weigh(self, weights: Mapping[str, float]) -> None:
        """Let tenants take turns in proportion to *weights*; 1 if not named."""
        most = max([weights.get(tenant, 1.0) for tenant in self._tenants], default=1.0)
        rounds = {tenant: most / weights.get(tenant, 1.0) for tenant in self._tenants}
        self._rounds = {tenant: each for tenant, each in rounds.items() if each > 1}
        self._missed = {tenant: missed for tenant, missed in self._missed.items() if tenant in self._rounds}

    def emptied(self) -> FairQueue[T]:
        """Return an empty queue with the same weights."""
        queue = FairQueue[T]()
        queue._rounds, queue._missed = self._rounds, self._missed
        return queue

    def remove(self, tenant: str, user: str, item: T) -> None:
        """Remove an item, if it is in the queue."""
        users = self._tenants.get(tenant)
        queue = None if users is None else users.get(user)
        if queue is not None and item in queue:
            queue.remove(item)
            self._drop_empty(tenant, user)

    def _weighted(self) -> Iterator[T]:
        pending = deque((tenant, _in_turn(users.values())) for tenant, users in self._tenants.items())
        missed, first = dict(self._missed), True  # the head has its turn, whatever it has yet to miss
        while pending:
            tenant, items = pending.popleft()
            if first or not _misses(missed, tenant):
                first = False
                for item in items:
                    yield item
                    missed[tenant] = missed.get(tenant, 0.0) + self._rounds.get(tenant, 1.0) - 1
                    break
                else:
                    continue
            pending.append((tenant, items))

    def _drop_empty(self, tenant: str, user: str) -> None:
        users = self._tenants[tenant]
        if not users[user]:
            del users[user]
            if not users:
                del self._tenants[tenant]


def _misses(missed: dict[str, float], tenant: str) -> bool:
    """Tell whether *tenant* misses this turn, and count it."""
    if missed.get(tenant, 0.0) < 1 - 1e-9:
        return False
    missed[tenant] -= 1
    return True


def _in_turn(sources: Iterable[Iterable[T]]) -> Iterator[T]:
    """Yield one item of each source in turn."""
    pending = deque(map(iter, sources))
    while pending:
        source = pending.popleft()
        for item in source:
            yield item
            pending.append(source)
            break
