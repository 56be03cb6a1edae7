"""The store on PostgreSQL, for many processes on many machines."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any, Self

import psycopg

from ...errors import ConfigurationError
from ..sql.store import SqlStore
from .connection import SESSIONS, PooledConnection
from .errors import explain
from .schema import check_name, migrate
from .session import WatchedConnection
from .settings import conninfo, parsed
from .texts import adapt_texts

PATIENCE = 10.0
"""Seconds in which a statement is to end, and in which lost connections and conflicts are overcome."""


class PostgresStore(SqlStore):
    """`Store` and `Memories` in a PostgreSQL database: `PostgresStore.open("postgresql://user@host/database")`."""

    @classmethod
    async def open(
        cls,
        url: str,
        *,
        schema: str = "concertino",
        sessions: int = SESSIONS,
        patience: float = PATIENCE,
        read_only: bool = False,
    ) -> Self:
        """Open the store in *schema* of the database at *url*, with up to *sessions* connections.

        A statement is to end within *patience* seconds, and lost connections, restarts of the server and conflicts
        between transactions are overcome for as long. A missing schema is created, and an older one migrated. With
        *read_only*, neither is done, and writing raises `StorageError`. Options in the URL, such as `sslmode` or
        several hosts, are libpq's.

        Raises `ConfigurationError` for an invalid URL, `DatabaseVersionError` if the schema is newer or of another
        program, and `StorageError` if the database cannot be opened.
        """
        given = parsed(url)
        try:
            check_name(schema)
        except ValueError as error:
            raise ConfigurationError(str(error)) from None
        if sessions < 1:
            raise ConfigurationError(f"sessions={sessions}: a store needs at least one connection")
        name = f"{given.get('dbname', '')} at {given.get('host', 'localhost')}"
        connect = partial(_connect, given, schema, patience, read_only)
        if not read_only:
            await asyncio.to_thread(_prepare, connect, schema, name)
        return cls(PooledConnection(name, connect, sessions, patience, read_only))


def _connect(given: dict[str, Any], schema: str, patience: float, read_only: bool) -> WatchedConnection:
    connection = WatchedConnection.connect(conninfo(given, schema, patience, read_only=read_only), autocommit=True)
    connection.silence = patience + 1
    adapt_texts(connection)
    return connection


def _prepare(connect: partial[WatchedConnection], schema: str, name: str) -> None:
    try:
        with connect() as connection:
            connection.silence = None  # a migration, or waiting for that of another process, takes as long as it takes
            connection.execute("SET statement_timeout = 0")
            connection.execute("SET lock_timeout = 0")
            migrate(connection, schema, name)
    except psycopg.Error as error:
        raise explain(error, name) from error
