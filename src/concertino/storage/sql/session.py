"""The ports of a database: a session, in which statements run, and a connection, which gives work to sessions.

The rules of the store are written once, for all databases. Each session has the named statements in its own dialect.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, TypeVar

from ...scope import OPERATOR, AnyScope

P = ParamSpec("P")
T = TypeVar("T")


class Row(Protocol):
    """A row of a result: a sequence whose values have names."""

    def __getitem__(self, key: int | str) -> Any: ...

    def __iter__(self) -> Iterator[Any]: ...

    def __len__(self) -> int: ...


class Cursor(Protocol):
    """A statement's result."""

    @property
    def rowcount(self) -> int:
        """The number of rows that were changed."""
        ...

    @property
    def lastrowid(self) -> int | None:
        """The number of the row that was added."""
        ...

    def fetchone(self) -> Any:
        """Return the next row, or None."""
        ...

    def fetchall(self) -> list[Any]:
        """Return the other rows."""
        ...

    def __iter__(self) -> Iterator[Any]: ...


class Sealer(Protocol):
    """Seals content with keys, each named by its kind and a name; `sealing` has the rules."""

    def seal(self, text: str, kind: str, name: object) -> str:
        """Return *text* as it is to be stored. The session opens what it reads."""
        ...

    def open(self, text: str) -> str:
        """Return the text that was sealed as *text*, or *text* if it is not sealed; "" if its key was discarded."""
        ...

    def fetch_for(self, texts: Iterable[str]) -> None:
        """Get the keys of sealed *texts* at once."""
        ...

    def tag(self, text: str, kind: str, name: object) -> str:
        """Return a keyed hash of *text*."""
        ...

    def prepare(self, names: Sequence[tuple[str, object]]) -> None:
        """Get the keys of *names* at once."""
        ...

    def retire(self, names: Iterable[tuple[str, object]]) -> Sequence[str]:
        """Seal nothing more with the keys of *names*. Return the ids of all that they have had."""
        ...


class Session(Protocol):
    """A connection to a database, which one thread uses at a time."""

    @property
    def queries(self) -> Mapping[str, str]:
        """The named statements in the database's dialect."""
        ...

    @property
    def read_only(self) -> bool:
        """Return True if nothing can be written."""
        ...

    @property
    def sealer(self) -> Sealer | None:
        """Return the sealer that seals content; None where erased content is overwritten."""
        ...

    def execute(self, sql: str, parameters: Any = (), /) -> Cursor:
        """Run one statement."""
        ...

    def now(self) -> float:
        """Return the store's time. Everything that is scheduled is compared with it, and with no other clock."""
        ...

    def transaction(self) -> AbstractContextManager[object]:
        """Begin a transaction for a `with` block, which commits it, or rolls it back after an error."""
        ...

    def reading(self) -> AbstractContextManager[object]:
        """Begin a transaction for a `with` block that reads everything inside at one moment."""
        ...

    def batched(self) -> AbstractContextManager[object]:
        """Let the statements of a `with` block share round trips until a result of one is read.

        An error of a statement is raised then, or at the end of the block. `Cursor.rowcount` has no value before. The
        end is a round trip, so read the last results after it.
        """
        ...

    def lock(self, name: str, bound: Mapping[str, object], scope: AnyScope = OPERATOR) -> None:
        """Wait until no other transaction writes what the statement *name* selects for *scope*.

        It stays so until the end of this transaction.
        The order is: a conversation, then trees by their number, then accounts. Nothing to do where writers take turns.
        """
        ...

    def is_dead(self, owner: str) -> bool:
        """Return whether *owner* certainly names an ended process; False where only the lease decides."""
        ...

    def dead_processes(self) -> list[str]:
        """Return the processes with leases that have certainly ended; none where only the lease decides."""
        ...

    def rebuild_words(self) -> None:
        """Remove the words of erased memories from their index; inside a transaction."""
        ...

    def checkpoint(self) -> None:
        """Erase what logs and archives still have of erased content, as far as it can be done now."""
        ...


class Write(Generic[T]):
    """Work to do in one transaction, alone or together with other writes."""

    entry = 0
    """Number of the journal entry that the work added, in the order of all entries; 0: none."""
    erased = False
    """Whether the work erased content, so that the database's log must be truncated."""
    tree = ""
    """Root of the tree that the work is on. The writes to a tree are done in the order of their calls, and where there
    are several writers, while its root is locked."""
    lock = "lock_tree"
    """The statement that locks the root."""

    def work(self, connection: Session) -> T:
        """Do the work. It must only depend on *connection*, because it may be repeated after a rollback."""
        raise NotImplementedError


class WriteCall(Write[T]):
    """A call of one function with the session and *arguments*."""

    def __init__(self, function: Callable[Concatenate[Any, P], T], *arguments: P.args, **options: P.kwargs) -> None:
        self._function = function
        self._arguments, self._options = arguments, options

    def work(self, connection: Session) -> T:
        """Call the function."""
        return self._function(connection, *self._arguments, **self._options)


class TreeCall(WriteCall[T]):
    """A call that writes the tree of one root."""

    def __init__(
        self, tree: str, function: Callable[Concatenate[Any, P], T], *arguments: P.args, **options: P.kwargs
    ) -> None:
        super().__init__(function, *arguments, **options)
        self.tree = tree


class StoreConnection(Protocol):
    """Runs work in sessions."""

    async def run(self, work: Callable[Concatenate[Any, P], T], *arguments: P.args, **options: P.kwargs) -> T:
        """Return the result of *work*, called with a session and *arguments*.

        Raises `StorageError` if the database failed or the store is closed.
        """
        ...

    async def run_after(
        self, tree: str, work: Callable[Concatenate[Any, P], T], *arguments: P.args, **options: P.kwargs
    ) -> T:
        """Return the result of *work* as `run` does, after all earlier writes to the *tree* of a root."""
        ...

    async def write(self, write: Write[T]) -> T:
        """Return the result of *write* after its commit. Raises `StorageError` as `run` does."""
        ...

    def submit(self, writes: Sequence[Write[None]]) -> asyncio.Future[list[BaseException | None]]:
        """Queue *writes* ahead of all later work, and return their errors as a future; None: it is done.

        Raises `StorageError` if closed.
        """
        ...

    async def close(self) -> None:
        """Finish pending work, then close the connection. Closing twice is allowed."""
        ...
