"""Means: what a command works with, opened from its options and closed in the end, whatever happens."""

from __future__ import annotations

import asyncio
import getpass
import shlex
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from .. import wiring
from ..errors import ConfigurationError, CorpusError, MissingKeyError
from ..orchestrator.limits import LimitsFunction, limits_within
from ..providers.base import Model, model_id
from ..storage.sqlite import SqliteStore
from ..token_engine.counting.base import TokenCounter
from ..tools.base import Session
from ..tools.library import Library
from ..waits import Wait
from .render.console import Screen
from .signals import Stop

_SILENCE = 1.0
"""Seconds after which a user wants to know what is going on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What the user chose; both commands take the same."""

    corpus: tuple[str, ...] = ()
    model: str | None = None
    """None: by the keys in the environment."""
    context: int | None = None
    """Tokens that a request may have; None: as many as the model takes."""
    database: Path | None = None
    as_json: bool = False

    def with_corpus(self, corpus: tuple[str, ...]) -> Options:
        """These options, with other paths."""
        return replace(self, corpus=corpus)


class Models:
    """Opens each model once, and closes them all. *chosen*: with `--model`, by whoever uses this program."""

    def __init__(self, *, chosen: bool = True) -> None:
        self._opened: dict[str, Model] = {}
        self._chosen = chosen

    def find(self, spec: str) -> Model:
        """The model named *spec*. Raises `ConfigurationError`, with the remedy for this program."""
        if spec not in self._opened:
            try:
                self._opened[spec] = wiring.open_model(spec)
            except MissingKeyError as error:
                if not self._chosen:
                    raise
                problem = str(error).removesuffix(", or pass api_key=")  # which is for programs
                raise MissingKeyError(
                    f"--model {spec}: {problem}; or use --model {wiring.DEMO}, which needs no key"
                ) from error
        return self._opened[spec]

    async def close(self) -> None:
        """Close them all."""
        for model in self._opened.values():
            await model.close()


@dataclass(frozen=True, slots=True, kw_only=True)
class Desk:
    """What every command has: a store, and somebody to tell."""

    store: SqliteStore
    database: Path
    given: Given
    screen: Screen
    stop: Stop


@dataclass(frozen=True, slots=True, kw_only=True)
class Means(Desk):
    """All that a run needs, and where it is shown."""

    model: Model
    models: Models
    counter: TokenCounter
    library: Library
    session: Session
    limits: LimitsFunction

    @property
    def is_demo(self) -> bool:
        """Whether rules answer instead of a language model."""
        return self.model.provider == wiring.DEMO


@asynccontextmanager
async def opened(options: Options, screen: Screen, stop: Stop) -> AsyncIterator[Means]:
    """The means for *options*. Raises `ConfigurationError`, `CorpusError` and `StorageError`."""
    async with AsyncExitStack() as stack:
        models = Models()
        stack.push_async_callback(models.close)
        model = models.find(options.model if options.model is not None else wiring.model_from_environment())
        database = (options.database or wiring.default_database()).expanduser()
        with stop.cancels():
            store = await wiring.open_store(database)
            stack.push_async_callback(store.close)
            library = await opened_library(options.corpus, screen)
            stack.push_async_callback(library.close)
        _say_model(model, screen)
        yield Means(
            model=model,
            models=models,
            counter=wiring.token_counter(),
            store=store,
            database=database,
            given=Given(database=options.database, corpus=options.corpus),
            library=library,
            session=Session(user_id=user_name()),
            limits=limits_within(options.context),
            screen=screen,
            stop=stop,
        )


@asynccontextmanager
async def desk(given: Given, screen: Screen, stop: Stop) -> AsyncIterator[Desk]:
    """For what was kept before. A database that is not there is not made, but a `ConfigurationError`."""
    path = (given.database or wiring.default_database()).expanduser()
    if not path.exists():
        raise ConfigurationError(f"there is no database at {path}: no run was kept there; name another --db")
    store = await wiring.open_store(path)
    try:
        yield Desk(store=store, database=path, given=given, screen=screen, stop=stop)
    finally:
        await store.close()


async def opened_library(corpus: Sequence[str], screen: Screen) -> Library:
    """What is searched; that making its index takes long is said."""
    waits = "making the index of the documents; this is done once, and takes a few seconds ..."
    timer = asyncio.get_running_loop().call_later(_SILENCE, screen.notice, waits)
    try:
        return await wiring.open_library(_paths(corpus), screen.notice)
    finally:
        timer.cancel()


def _paths(corpus: Sequence[str]) -> list[Path]:
    if not all(path.strip() for path in corpus):
        raise CorpusError("--corpus is empty: name a file or a folder, or leave it out")
    return [Path(path).expanduser() for path in corpus]


def _say_model(model: Model, screen: Screen) -> None:
    if model.provider == wiring.DEMO:
        screen.notice("model: demo - no language model is involved: passages are quoted from the sources")
    else:
        screen.notice(f"model: {model_id(model)}")


def user_name() -> str:
    """Who sits here."""
    try:
        return getpass.getuser()
    except (KeyError, OSError, ImportError):  # a container without this user in its list
        return "local"


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """The options that the next command needs, too."""

    database: Path | None = None
    corpus: tuple[str, ...] = ()
    app: str | None = None
    """`module:name` of the function that makes a product's `Runtime`; None: this program's own."""

    def answering(self, wait: Wait) -> tuple[str, ...]:
        """How a wait is answered: with one of these."""
        if wait.kind == "result":
            return (self._command("resolve", wait.key, "RESULT"),)
        by = ("--by", wait.who[0]) if wait.who else ()
        return self._command("approve", wait.key, *by), self._command("deny", wait.key, *by)

    def resuming(self, run_id: str) -> str:
        """How a run is taken up."""
        app = () if self.app is None else ("--app", self.app)
        corpus = [word for path in self.corpus for word in ("--corpus", path)]
        return self._command("resume", run_id, *app, *corpus)

    def listing(self) -> str:
        """How all runs are listed."""
        return self._command("list", "--all")

    def _command(self, *words: str) -> str:
        database = () if self.database is None else ("--db", str(self.database))
        return shlex.join(("concertino", "runs", *words, *database))
