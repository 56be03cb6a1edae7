"""The port of key stores, and the common part of its adapters on databases."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from secrets import token_bytes, token_hex
from typing import Any, NamedTuple, Protocol, TypeVar

from ...errors import DamagedDataError, StorageError
from .cipher import KEY_BYTES, Cipher

T = TypeVar("T")
Statement = Callable[[str, Sequence[Any]], Sequence[Sequence[Any]]]
"""Runs a statement with `?` for each parameter, and returns its rows."""

SCHEMA = (
    "CREATE TABLE IF NOT EXISTS key_store (one INTEGER PRIMARY KEY, id TEXT NOT NULL)",
    # A name has one current key. A retired key opens what it has sealed until it is discarded.
    "CREATE TABLE IF NOT EXISTS keys "
    "(id TEXT PRIMARY KEY, name TEXT NOT NULL, retired INTEGER NOT NULL, key {blob} NOT NULL)",
    "CREATE UNIQUE INDEX IF NOT EXISTS current_keys ON keys (name) WHERE retired = 0",
    "CREATE INDEX IF NOT EXISTS keys_of_name ON keys (name)",
)
_MOST = 500
"""Parameters of one statement."""


class StoredKey(NamedTuple):
    """A key, and the id by which it is found and discarded."""

    id: str
    key: bytes


class KeyStore(Protocol):
    """Stores keys by name, separate from the database whose content they encrypt and from its archives.

    The methods block: a store calls them from its own threads, several at once. Each may raise `StorageError`. A key
    is stored durably when the method that made it returns.
    """

    def identity(self) -> str:
        """Return the id of this key store, which never changes."""
        ...

    def current(self, names: Sequence[str]) -> Sequence[StoredKey]:
        """Return the current key of each of *names*, made if it is missing."""
        ...

    def find(self, ids: Sequence[str]) -> Mapping[str, bytes]:
        """Return the keys with these *ids*, without the discarded ones."""
        ...

    def retire(self, names: Sequence[str]) -> Sequence[str]:
        """Make no key of *names* current. Return the ids of all keys that they have had, without the discarded ones."""
        ...

    def discard(self, ids: Sequence[str]) -> None:
        """Erase the keys with these *ids*. Unknown ids are ignored."""
        ...

    def close(self) -> None:
        """Release files and connections. Closing twice is allowed."""
        ...


class SqlKeyStore:
    """`KeyStore` in a table. With *master*, 32 bytes, each key is stored encrypted with it."""

    def __init__(self, master: bytes | None) -> None:
        self._wrap = None if master is None else Cipher(master)

    def identity(self) -> str:
        """Return the id of this key store."""

        def read(execute: Statement) -> str:
            execute("INSERT INTO key_store (one, id) VALUES (1, ?) ON CONFLICT DO NOTHING", (token_hex(16),))
            return str(execute("SELECT id FROM key_store", ())[0][0])

        return self._transaction(read)

    def current(self, names: Sequence[str]) -> Sequence[StoredKey]:
        """Return the current key of each of *names*, made if it is missing."""
        find = "SELECT name, id, key FROM keys WHERE retired = 0 AND name IN ({marks})"

        def read(execute: Statement) -> dict[str, StoredKey]:
            found = {row[0]: row for row in _in_parts(execute, find, names)}
            missing = [name for name in names if name not in found]
            for name in missing:
                row = (token_hex(16), name, self._wrapped(token_bytes(KEY_BYTES)))
                execute("INSERT INTO keys (id, name, retired, key) VALUES (?, ?, 0, ?) ON CONFLICT DO NOTHING", row)
            if missing:  # another process may have been faster
                found = {row[0]: row for row in _in_parts(execute, find, names)}
            return {name: StoredKey(row[1], self._unwrapped(row[2])) for name, row in found.items()}

        made = self._transaction(read)
        return [made[name] for name in names]

    def find(self, ids: Sequence[str]) -> Mapping[str, bytes]:
        """Return the keys with these *ids*, without the discarded ones."""

        def read(execute: Statement) -> dict[str, bytes]:
            rows = _in_parts(execute, "SELECT id, key FROM keys WHERE id IN ({marks})", ids)
            return {row[0]: self._unwrapped(row[1]) for row in rows}

        return self._transaction(read)

    def retire(self, names: Sequence[str]) -> Sequence[str]:
        """Make no key of *names* current. Return the ids of all their keys."""

        def write(execute: Statement) -> list[str]:
            _in_parts(execute, "UPDATE keys SET retired = 1 WHERE retired = 0 AND name IN ({marks})", names)
            return [row[0] for row in _in_parts(execute, "SELECT id FROM keys WHERE name IN ({marks})", names)]

        return self._transaction(write)

    def discard(self, ids: Sequence[str]) -> None:
        """Erase the keys with these *ids*."""
        self._transaction(lambda execute: _in_parts(execute, "DELETE FROM keys WHERE id IN ({marks})", ids))

    def _transaction(self, work: Callable[[Statement], T]) -> T:
        """Return the result of *work* after its commit. It may be repeated. Raises `StorageError`."""
        raise NotImplementedError

    def _wrapped(self, key: bytes) -> bytes:
        return key if self._wrap is None else self._wrap.encrypt(key)

    def _unwrapped(self, stored: bytes) -> bytes:
        try:
            return bytes(stored) if self._wrap is None else self._wrap.decrypt(bytes(stored))
        except DamagedDataError:
            raise StorageError(
                "the master key does not open the stored keys: pass the one they were made with"
            ) from None


def _marks(values: Sequence[object]) -> str:
    return ", ".join("?" * len(values))


def _in_parts(execute: Statement, sql: str, values: Sequence[str]) -> list[Sequence[Any]]:
    """Run *sql* for *values*, a part of them at a time."""
    found: list[Sequence[Any]] = []
    for start in range(0, len(values), _MOST):
        part = values[start : start + _MOST]
        found += execute(sql.format(marks=_marks(part)), part)
    return found
