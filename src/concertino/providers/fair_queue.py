"""A queue in which tenants take turns, and each tenant's users take turns within it."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterable, Iterator
from typing import Generic, TypeVar

T = TypeVar("T")


class FairQueue(Generic[T]):
    """Items by tenant and user. The head is the first item of the tenant, and of its user, whose turn it is."""

    __slots__ = ("_tenants",)

    def __init__(self) -> None:
        self._tenants: OrderedDict[str, OrderedDict[str, deque[T]]] = OrderedDict()

    def __bool__(self) -> bool:
        return bool(self._tenants)

    def __len__(self) -> int:
        return sum(len(queue) for users in self._tenants.values() for queue in users.values())

    def __iter__(self) -> Iterator[T]:
        """Yield the items in the order in which `pop` would return them."""
        return _in_turn(_in_turn(users.values()) for users in self._tenants.values())

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
        return item

    def remove(self, tenant: str, user: str, item: T) -> None:
        """Remove an item, if it is in the queue."""
        users = self._tenants.get(tenant)
        queue = None if users is None else users.get(user)
        if queue is not None and item in queue:
            queue.remove(item)
            self._drop_empty(tenant, user)

    def _drop_empty(self, tenant: str, user: str) -> None:
        users = self._tenants[tenant]
        if not users[user]:
            del users[user]
            if not users:
                del self._tenants[tenant]


def _in_turn(sources: Iterable[Iterable[T]]) -> Iterator[T]:
    """Yield one item of each source in turn."""
    pending = deque(map(iter, sources))
    while pending:
        source = pending.popleft()
        for item in source:
            yield item
            pending.append(source)
            break
