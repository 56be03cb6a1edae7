"""Keys in a PostgreSQL database of their own, for processes on many machines."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from threading import Lock
from typing import Any, TypeVar

import psycopg

from ...errors import ConfigurationError
from ..keys import SqlKeyStore
from ..keys.key_store import SCHEMA, Statement
from .errors import explain, may_pass
from .schema import check_name, create_schema
from .session import WatchedConnection
from .settings import conninfo, parsed

T = TypeVar("T")

_PAUSE = 0.05

_TABLES = "SELECT to_regclass('key_store') UNION SELECT to_regclass('keys')"
"""Looks for the tables, which a role may use without the right to create them."""


class KeyDatabase(SqlKeyStore):
    """`KeyStore` in *schema* of the database at *url*, which is created if it is missing.

    Use another server than that of the content, without archives of its log, replicas that lag, or backups that live
    longer than erased content may. With *master*, 32 bytes from a key manager, each key is stored encrypted with it.
    Lost connections are made anew for *patience* seconds. Raises `ConfigurationError` for an invalid URL or schema.
    """

    def __init__(
        self, url: str, master: bytes | None = None, *, schema: str = "concertino_keys", patience: float = 10.0
    ) -> None:
        super().__init__(master)
        try:
            given = parsed(url)
            self._conninfo = conninfo(given, check_name(schema), patience, read_only=False)
        except ValueError as error:
            raise ConfigurationError(str(error)) from None
        self._name = f"{given.get('dbname', '')} at {given.get('host', 'localhost')}"
        self._schema, self._patience = schema, patience
        self._lock = Lock()
        self._connection: psycopg.Connection[Any] | None = None
        self._ready = False

    def close(self) -> None:
        """Close the connection. Closing twice is allowed."""
        with self._lock:
            self._disconnect()

    def _transaction(self, work: Callable[[Statement], T]) -> T:
        deadline = None
        with self._lock:
            while True:
                try:
                    if self._connection is None or self._connection.closed:
                        self._connection = self._connect()
                    with self._connection.transaction():
                        return work(self._execute)
                except psycopg.Error as error:
                    self._disconnect()
                    deadline = deadline or time.monotonic() + self._patience  # from the first failure on
                    if not may_pass(error) or time.monotonic() > deadline:
                        raise explain(error, self._name) from error
                    time.sleep(_PAUSE)

    def _connect(self) -> psycopg.Connection[Any]:
        made = WatchedConnection.connect(self._conninfo, autocommit=True)
        made.silence = self._patience + 1
        if not self._ready and (None,) in made.execute(_TABLES):
            with made.transaction():
                made.execute("SELECT pg_advisory_xact_lock(hashtext(%s))", (self._schema,))
                create_schema(made, self._schema)
                for statement in SCHEMA:
                    made.execute(statement.format(blob="BYTEA"))
        self._ready = True
        return made

    def _execute(self, sql: str, values: Sequence[Any]) -> Sequence[Sequence[Any]]:
        assert self._connection is not None
        cursor = self._connection.execute(sql.replace("?", "%s"), values)
        return cursor.fetchall() if cursor.description else ()

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
