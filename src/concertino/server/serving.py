"""`serve`: an application on uvicorn, which drains before its process ends."""

from __future__ import annotations

import asyncio
import gc
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from starlette.applications import Starlette
from uvicorn import Config, Server

from ..errors import ConfigurationError
from .server_state import ServerState

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_CLOSING = 5
"""Seconds for answers in progress after the runs are parked."""
_COLLECTIONS = (100_000, 20, 50)
"""New objects before a collection, and collections before one of older objects."""


class _Server(Server):
    """A server whose signals `serve` handles."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave the signals alone."""
        yield


async def serve(
    app: Starlette,
    *,
    host: str = "127.0.0.1",
    port: int = 8000,
    grace: float = 20.0,
    started: Callable[[str], None] = print,
) -> None:
    """Serve an application of `create_app` until SIGTERM or SIGINT, and then drain it.

    New work is refused, runs in progress have *grace* seconds to end, and all others are parked for another process. A
    second signal ends at once. *started* is called with the address. Raises `ConfigurationError` if the address cannot
    be bound.
    """
    state: ServerState = app.state.server
    listener = _bound(host, port)
    server = _Server(
        Config(app, log_level="warning", timeout_graceful_shutdown=_CLOSING, server_header=False, lifespan="off")
    )
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()

    def stop() -> None:
        if stopping.is_set():
            server.should_exit = server.force_exit = True
        stopping.set()

    async def drain() -> None:
        await stopping.wait()
        await state.drain(grace)
        server.should_exit = True

    for number in _SIGNALS:
        with suppress(NotImplementedError):  # Windows
            loop.add_signal_handler(number, stop)
    draining = asyncio.create_task(drain())
    try:
        shown = f"[{host}]" if ":" in host else host
        started(f"http://{shown}:{listener.getsockname()[1]}")
        with _rare_collections():
            await server.serve(sockets=[listener])
    finally:
        for number in _SIGNALS:
            with suppress(NotImplementedError):
                loop.remove_signal_handler(number)
        draining.cancel()
        await asyncio.gather(draining, return_exceptions=True)


@contextmanager
def _rare_collections() -> Iterator[None]:
    """Let the garbage collector run rarely, and leave out what was there at the start: it never becomes garbage.

    With hundreds of streams, collections took a third of the time of a delta, and found nothing.
    """
    before = gc.get_threshold()
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_COLLECTIONS)
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()


def _bound(host: str, port: int) -> socket.socket:
    """Return a listening socket."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        raise ConfigurationError(
            f"the address {host}:{port} cannot be bound ({error.strerror}): choose another --port"
        ) from error
    listener.listen(2048)
    return listener
