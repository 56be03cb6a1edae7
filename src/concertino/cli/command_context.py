"""The context of a command: its options and the resources opened for them."""

from __future__ import annotations

import asyncio
import getpass
import os
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from .. import wiring
from ..errors import ConfigurationError, CorpusError, MissingKeyError
from ..orchestrator.resources import Resources, limits_within
from ..providers.base import Model, model_id
from ..records import record
from ..scope import Scope
from ..storage.sql import SqlStore
from ..tools.library import Library
from .options import Options, without_password
from .render.console import Console
from .signals import Signals

DEMO = wiring.model_from_environment({})
"""The model for an environment without keys."""
_PATIENCE = 1.0
"""Seconds of silence after which the program explains the delay."""


@record(kw_only=True)
class CommandContext:
    """The resources of every command."""

    store: SqlStore
    database: str
    """Its path, or its URL without the password."""
    folder: Path
    """For files next to the database."""
    options: Options
    console: Console
    signals: Signals


@record(kw_only=True)
class NewRunContext(CommandContext):
    """The resources of a command that starts runs."""

    resources: Resources
    library: Library
    scope: Scope
    is_demo: bool
    """True if the built-in model answers, which quotes and does not reason."""


@asynccontextmanager
async def open_new_run(options: Options, console: Console, signals: Signals) -> AsyncIterator[NewRunContext]:
    """Open the resources of a new run. Raises `ConfigurationError`, `CorpusError` and `StorageError`."""
    async with AsyncExitStack() as stack:
        models = await stack.enter_async_context(wiring.Models(_open_model))
        model = models(options.model if options.model is not None else wiring.model_from_environment())
        store = await wiring.open_store(_database(options))
        stack.push_async_callback(store.close)
        library = await open_library(options, console)
        stack.push_async_callback(library.close)
        is_demo = model.provider == DEMO
        note = " - no language model is involved: it quotes passages from the sources" if is_demo else ""
        console.notice(f"model: {model_id(model)}{note}")
        limits, counter = limits_within(options.context), wiring.token_counter()
        yield NewRunContext(
            resources=Resources(model=model, models=models, store=store, limits=limits, counter=counter),
            store=store,
            database=_shown(options),
            folder=_folder(options),
            options=options,
            library=library,
            scope=Scope(user=user_name()),
            is_demo=is_demo,
            console=console,
            signals=signals,
        )


@asynccontextmanager
async def open_store_only(options: Options, console: Console, signals: Signals) -> AsyncIterator[CommandContext]:
    """Open the database, and create it if needed. Raises `StorageError`."""
    async with await wiring.open_store(_database(options)) as store:
        yield _context(store, options, console, signals)


@asynccontextmanager
async def open_existing(
    options: Options, console: Console, signals: Signals, *, read_only: bool
) -> AsyncIterator[CommandContext]:
    """Open an existing database. Raises `ConfigurationError` if the path has no file; it is not created.

    With *read_only*, a database that cannot be written can be read. Its overdue waits do not expire, and the leases of
    dead processes do not end early.
    """
    database = _database(options)
    if isinstance(database, Path):
        if not database.is_file():
            raise ConfigurationError(f"no database at {database}: no run was stored there; name another file with --db")
        read_only &= not (os.access(database, os.W_OK) and os.access(database.parent, os.W_OK))
    else:
        read_only = False
    async with await wiring.open_store(database, read_only=read_only) as store:
        yield _context(store, options, console, signals)


async def open_library(options: Options, console: Console) -> Library:
    """Open the sources to search; a notice explains a long wait for the index. Raises `CorpusError`."""
    paths = _corpus(options)
    reason = "indexing the documents; this takes a few seconds, once ..."
    timer = asyncio.get_running_loop().call_later(_PATIENCE, console.notice, reason)
    try:
        return await wiring.open_library(paths, console.notice)
    finally:
        timer.cancel()


def user_name() -> str:
    """Return the login name of the current user."""
    try:
        return getpass.getuser()
    except (KeyError, OSError, ImportError):  # a container whose user has no entry in the password database
        return "local"


def _database(options: Options) -> Path | str:
    if options.db is not None and wiring.is_url(options.db):
        return options.db
    return Path(options.db or wiring.default_database()).expanduser()


def _shown(options: Options) -> str:
    return without_password(str(_database(options)))


def _folder(options: Options) -> Path:
    database = _database(options)
    return (database if isinstance(database, Path) else wiring.default_database()).parent


def _context(store: SqlStore, options: Options, console: Console, signals: Signals) -> CommandContext:
    return CommandContext(
        store=store,
        database=_shown(options),
        folder=_folder(options),
        options=options,
        console=console,
        signals=signals,
    )


def _corpus(options: Options) -> list[Path]:
    corpus = options.corpus or ()
    if not all(path.strip() for path in corpus):
        raise CorpusError("--corpus is empty: name a file or a folder, or omit the option")
    return [Path(path).expanduser() for path in corpus]


def _open_model(spec: str) -> Model:
    try:
        return wiring.open_model(spec)
    except MissingKeyError as error:
        raise MissingKeyError(f"--model {spec}: {error}; or use --model {DEMO}, which needs no key") from error
