"""Servers for the session, and bells over them."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from concertino.runtime.bus.base import RemoteBell
from tests.postgres.conftest import schema, server, url

from .nats_server import NatsServer

__all__ = ["schema", "server", "url"]


@pytest.fixture(scope="session")
def nats() -> Iterator[NatsServer]:
    """A running NATS server, which a test may stop and start."""
    made = NatsServer()
    made.start()
    yield made
    made.stop()


@pytest.fixture(params=["nats", "postgres"])
def make_bell(request: pytest.FixtureRequest) -> Callable[[], RemoteBell]:
    """Make a bell as each process has one."""
    if request.param == "nats":
        from concertino.runtime import NatsBell

        found: NatsServer = request.getfixturevalue("nats")
        return lambda: NatsBell(found.url)
    from concertino.runtime import PostgresBell

    database, channel = request.getfixturevalue("url"), request.getfixturevalue("schema")
    return lambda: PostgresBell(database, schema=channel)
