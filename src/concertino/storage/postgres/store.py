"""The store on PostgreSQL, for many processes on many machines."""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import TYPE_CHECKING, Any, Self

import psycopg

from ...errors import ConfigurationError, StorageError
from ..sql.claims import ClaimingDue
from ..sql.store import SqlStore
from ..sql.turn_claims import ClaimingTurns, close_turns
from .connection import SESSIONS, PooledConnection
from .errors import explain
from .schema import check_name, migrate
from .session import WatchedConnection
from .settings import conninfo, parsed
from .texts import adapt_texts

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from ...scope import Operator
    from ..call_store import Consumer
    from ..conversation_types import DueTurn
    from ..keys import KeyStore
    from ..types import Claim
    from .sealer import Sealer

log = logging.getLogger("concertino")

PATIENCE = 10.0
"""Seconds within which a statement must end, including retries after lost connections and conflicts."""


class PostgresStore(SqlStore):
    """`Store` and `Memories` in a PostgreSQL database: `PostgresStore.open("postgresql://user@host/database")`."""

    adds_apart = True
    """Whether batches of events are stored one by one: then a window gives each alone, and none waits for another."""

    _read_only = False
    _more_is_due = False
    _last_tenant: str | None = None
    """The tenant with which the last claim of trees has ended."""

    @classmethod
    async def open(
        cls,
        url: str,
        *,
        schema: str = "concertino",
        sessions: int = SESSIONS,
        patience: float = PATIENCE,
        read_only: bool = False,
        keys: KeyStore | None = None,
    ) -> Self:
        """Open the store in *schema* of the database at *url*, with up to *sessions* connections.

        A statement must end within *patience* seconds. Until then, it is retried after lost connections, restarts of
        the server and conflicts between transactions. A missing schema is created, and an older one is migrated. With
        *read_only*, neither happens, and writing raises `StorageError`. Options in the URL, such as `sslmode` or
        several hosts, are libpq's.

        With *keys*, a `KeyFile` or a `KeyDatabase`, content is stored encrypted, and erasing it discards its key. The
        store closes *keys*. From then on, the database can be opened only with the same keys.

        Raises `ConfigurationError` for an invalid URL or other keys, `DatabaseVersionError` if the schema is newer or
        of another program, and `StorageError` if the database cannot be opened.
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
        sealer = await asyncio.to_thread(_sealer, connect, keys, name, read_only)
        connect = partial(connect, sealer=sealer)
        store = cls(PooledConnection(name, connect, sessions, patience, read_only, sealer))
        store._read_only = read_only
        return store

    async def claim_due(
        self,
        scope: Operator,
        owner: str,
        seconds: float,
        *,
        limit: int = 50,
        agents: Collection[str] | None = None,
        consumer: Consumer | None = None,
    ) -> Sequence[Claim]:
        """Claim up to *limit* trees that are due. Tenants take turns while more than that is due."""
        write = ClaimingDue(scope, owner, seconds, limit, agents, consumer)
        write.in_turn, write.last = self._more_is_due, self._last_tenant
        claims = await self._connection.write(write)
        self._more_is_due, self._last_tenant = 0 < limit == len(claims), write.last
        return claims

    async def claim_turns(
        self,
        scope: Operator,
        seconds: float,
        *,
        limit: int = 50,
        agents: Collection[str] | None = None,
        consumer: Consumer | None = None,
    ) -> Sequence[DueTurn]:
        """Claim queued turns to start, and close ended ones."""
        claim = ClaimingTurns(scope, seconds, limit, agents, consumer, self._last_owner)
        if self._read_only:
            return ()
        found = await self._connection.run(claim)
        self._last_owner = claim.last
        if claim.ended:
            try:
                await self._connection.run(close_turns)
            except StorageError as error:  # it does not keep what is claimed from starting
                log.warning("turns that have ended are closed later: %s", type(error).__name__)
        return found


def _connect(
    given: dict[str, Any], schema: str, patience: float, read_only: bool, sealer: Sealer | None = None
) -> WatchedConnection:
    connection = WatchedConnection.connect(conninfo(given, schema, patience, read_only=read_only), autocommit=True)
    connection.silence = patience + 1
    connection.prepare_threshold = 1  # the statements are few, and all are repeated
    adapt_texts(connection, sealer)
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


def _sealer(connect: partial[WatchedConnection], keys: KeyStore | None, name: str, read_only: bool) -> Sealer | None:
    """Return the sealer of *keys*. Raises `ConfigurationError` unless they are those of the database."""
    made = None if keys is None else keys.identity()
    try:
        with connect() as connection:
            if made is not None and not read_only:
                connection.execute("UPDATE identity SET keys = coalesce(keys, %s)", (made,))
            # A database that is only read may be older than the column.
            database, known = connection.execute("SELECT id, to_jsonb(i) ->> 'keys' FROM identity AS i").fetchone()  # type: ignore[misc]
    except psycopg.Error as error:
        raise explain(error, name) from error
    if known != made:
        if known is None:
            raise ConfigurationError(f"database {name} has no keys yet: open it once for writing")
        raise ConfigurationError(
            f"database {name} is encrypted with the keys of another key store: open it with its own, as `keys`, or as "
            "CONCERTINO_KEYS for commands"
        )
    if keys is None:
        return None
    from .sealer import Sealer  # noqa: PLC0415 - its library is an extra

    return Sealer(keys, database)
