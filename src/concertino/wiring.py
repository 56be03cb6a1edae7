"""Assembly by name: models, stores, libraries and the runtime from specs and environment variables."""

from __future__ import annotations

import difflib
import functools
import os
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, nullcontext
from pathlib import Path
from threading import Lock
from types import TracebackType
from typing import TYPE_CHECKING, Self

from .errors import ConfigurationError, StorageError, UnknownModelError, UnknownProviderError
from .orchestrator.journal.lease import LEASE
from .orchestrator.resources import Resources
from .providers.base import Model
from .runtime import Bell, LocalBell, Runtime
from .token_engine.counting.base import EstimatingCounter, TokenCounter
from .tools.base import Tool
from .tools.library import Library
from .tools.registry import ToolRegistry

if TYPE_CHECKING:
    from .agents import WorkerDefinition
    from .storage import KeyStore
    from .storage.sql import SqlStore
    from .tools.builtin import ResearchTools

DEMO = "demo"
"""Name of the demo model, which needs no key."""

# The key variables of each provider and its default model: the providers' general-purpose models as of November 2026.
_PROVIDERS: dict[str, tuple[tuple[str, ...], str]] = {
    "anthropic": (("ANTHROPIC_API_KEY",), "claude-sonnet-5-5"),
    "openai": (("OPENAI_API_KEY",), "gpt-6-luna"),
    "google": (("GEMINI_API_KEY", "GOOGLE_API_KEY"), "gemini-3.8-flash"),
}

_NO_PATH = re.compile(r"[A-Za-z0-9.-]{2,}:|[@=]")
"""A part of a URL or of a connection string."""
_PATH = re.compile(r"[./~\\]|[A-Za-z]:[/\\]")
"""The beginning of a text that can only be a path."""
_PREFIXES = {"claude": "anthropic", "gpt": "openai", "gemini": "google"}
"""The beginnings of the names of the providers' models."""


def open_model(spec: str) -> Model:
    """Open the model named *spec*: `provider:model`, a provider alone for its default model, or `demo`.

    The providers are `anthropic`, `openai` and `google`, vendors with OpenAI's format (`groq:...`, `openrouter:...`),
    `ollama:...` for the local Ollama server or the server at `OLLAMA_HOST`, and `openai-compatible:...` for a server at
    `OPENAI_COMPATIBLE_URL` with an optional key in `OPENAI_COMPATIBLE_API_KEY`.

    Raises `UnknownProviderError`, `UnknownModelError`, `MissingKeyError` (names the variable), `ConfigurationError`
    (names the missing URL) or `MissingExtraError` (names the extra).
    """
    provider, _, name = spec.strip().partition(":")
    if provider == DEMO:
        from .demo import DemoModel  # noqa: PLC0415 - as below

        model = DemoModel(token_counter().count)
        if name not in ("", model.name):
            raise UnknownModelError(f"unknown model {name!r}: the provider {DEMO!r} has only {model.name!r}")
        return model
    if provider not in _PROVIDERS:
        from .providers.openai.chat.vendors import COMPATIBLE, NAMES  # noqa: PLC0415 - as below

        if provider in NAMES:
            return _open_compatible(provider, name)
        names = ", ".join((*_PROVIDERS, DEMO, *NAMES, COMPATIBLE))
        if provider == COMPATIBLE:
            return _open_compatible("", name)
        likely = _likely_spec(provider, name, (*_PROVIDERS, *NAMES))
        hint = f"; or did you mean {likely!r}?" if likely else ""
        raise UnknownProviderError(f"unknown provider {provider!r} in {spec!r}: choose from {names}{hint}")
    return _opener(provider)(name or _PROVIDERS[provider][1])


def _likely_spec(provider: str, name: str, names: Sequence[str]) -> str:
    """Return the likely spec; an empty text if none is close."""
    first, slash, rest = provider.partition("/")
    if slash and not name and first in names:
        return f"{first}:{rest}"
    likely = next((known for prefix, known in _PREFIXES.items() if provider.startswith(prefix)), "")
    if likely and not name:
        return f"{likely}:{provider}"
    close = difflib.get_close_matches(provider, names, 1)
    return ":".join(filter(None, (*close, name))) if close else ""


def provider_names() -> tuple[str, ...]:
    """Return the names of the providers of the package. Other models may have any name, or that of their host."""
    from .providers.openai.chat.vendors import COMPATIBLE, VENDORS  # noqa: PLC0415 - as below

    return tuple(dict.fromkeys([*_PROVIDERS, *[vendor.name for vendor in VENDORS], COMPATIBLE, DEMO, "scripted"]))


class Models:
    """A cache of open models, for `Resources(models=...)`: it opens each model once and closes all of them.

        async with Models() as models:
            resources = Resources(models=models, fallback=["openai:gpt-6-luna"])

    One object serves all threads and event loops of a program. An SDK's client belongs to one event loop: the end of
    the block, or `close`, closes the clients of the running loop. *opens* opens a model.
    """

    def __init__(self, opens: Callable[[str], Model] = open_model) -> None:
        self._opens = opens
        self._opened: dict[str, Model] = {}
        self._lock = Lock()

    def __call__(self, spec: str) -> Model:
        """Return the model named *spec*; see `open_model` for the errors."""
        with self._lock:
            if spec not in self._opened:
                self._opened[spec] = self._opens(spec)
            return self._opened[spec]

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections of all models, even if one fails to close. Calling it again does nothing."""
        async with AsyncExitStack() as stack:
            for model in list(self._opened.values()):
                stack.push_async_callback(model.close)


def model_from_environment(environ: Mapping[str, str] = os.environ) -> str:
    """Return the spec of the first provider whose key is set, else `demo`."""
    for provider, (variables, name) in _PROVIDERS.items():
        if any(environ.get(variable, "").strip() for variable in variables):
            return f"{provider}:{name}"
    return DEMO


async def open_library(
    paths: Sequence[str | Path],
    report: Callable[[str], None],
    environ: Mapping[str, str] = os.environ,
) -> Library:
    """Open a library over the files at *paths*.

    Without paths, it is the web if a search service is configured, else the documentation of the installed Python
    standard library. *report* receives progress lines. Raises `CorpusError` if a path is missing or has no readable
    file.
    """
    from .demo.standard_library import StandardLibrary  # noqa: PLC0415 - as below
    from .tools.documents import open_documents  # noqa: PLC0415 - only programs that search need it

    if not paths:
        from .tools.web import web_library_from_environment  # noqa: PLC0415 - the client is an extra

        web = web_library_from_environment(environ)
        if web is not None:
            return web
    return await open_documents(list(paths) or StandardLibrary(), report=report)


def is_url(database: Path | str) -> bool:
    """Return whether *database* is the URL of a PostgreSQL database, and not the path of a SQLite file.

    Raises `ConfigurationError` for any other URL, and for a text that is rather an incomplete URL or a connection
    string than a path: it would become the name of a new file.
    """
    if isinstance(database, Path):
        return False
    kind, separator, _ = database.partition("://")
    if separator and kind in ("postgresql", "postgres"):
        return True
    if separator or (_NO_PATH.search(database) and not _PATH.match(database)):
        raise ConfigurationError(
            f"invalid database {_without_secrets(database)!r}: use a postgresql:// URL, or the path of a SQLite file, "
            "with ./ before an unusual name"
        )
    return False


def check_url(url: str) -> None:
    """Raise `ConfigurationError` if the *url* of a PostgreSQL database cannot be read."""
    from .storage.postgres.settings import parsed  # noqa: PLC0415 - the driver is an extra

    parsed(url)


def _without_secrets(database: str) -> str:
    """Return an invalid database as it may be shown: any part may be a password."""
    kind, separator, _ = database.partition("://")
    if separator:
        return f"{kind}://..."
    _, at, host = database.rpartition("@")
    return re.sub(r"(?i)(password\s*=\s*).*", r"\1...", f"...@{host}" if at else database)


async def open_store(database: Path | str, *, read_only: bool = False) -> SqlStore:
    """Open the PostgreSQL database at a URL, or the SQLite file at a path, whose folder is created if needed.

    An encrypted PostgreSQL database needs the keys of `open_keys`.

    Raises `ConfigurationError` for an invalid URL and `StorageError`.
    """
    if is_url(database):
        from .storage.postgres import PostgresStore  # noqa: PLC0415 - the driver is an extra

        return await PostgresStore.open(str(database), read_only=read_only, keys=open_keys())
    path = Path(database)
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)  # private, as runs are
    except OSError as error:
        raise StorageError(f"cannot create the folder {path.parent}: {error.strerror}; choose another --db") from error
    from .storage.sqlite import SqliteStore  # noqa: PLC0415 - only programs with a store load sqlite3

    return await SqliteStore.open(path, read_only=read_only)


def open_keys(environ: Mapping[str, str] = os.environ) -> KeyStore | None:
    """Open the key store that `CONCERTINO_KEYS` names, a file or a `postgresql://` URL; None if it is not set.

    Its master key is `CONCERTINO_MASTER_KEY`, 64 hexadecimal digits, if that is set. Raises `ConfigurationError` for an
    invalid value and `StorageError`.
    """
    named, master = environ.get("CONCERTINO_KEYS", ""), environ.get("CONCERTINO_MASTER_KEY", "")
    if not named:
        return None
    from .storage import KeyDatabase, KeyFile  # noqa: PLC0415 - encryption is an extra

    try:
        key = bytes.fromhex(master) if master else None
    except ValueError:
        raise ConfigurationError("CONCERTINO_MASTER_KEY is not hexadecimal: use 64 digits") from None
    return KeyDatabase(named, key) if is_url(named) else KeyFile(named, key)


def open_bell(database: Path | str, nats: str | None) -> AbstractAsyncContextManager[Bell]:
    """Return the bell of a process, to be entered: over NATS if a server is given, else over the database at a URL.

    Processes on a SQLite file need no bell: they poll the file. Raises `ConfigurationError`.
    """
    if nats:
        from .runtime import NatsBell  # noqa: PLC0415 - the client is an extra

        return NatsBell(nats)
    if is_url(database):
        from .runtime import PostgresBell  # noqa: PLC0415 - the driver is an extra

        return PostgresBell(str(database))
    return nullcontext(LocalBell())


def default_database(environ: Mapping[str, str] = os.environ) -> Path:
    """Return `$XDG_DATA_HOME/concertino/concertino.db`, by default below `~/.local/share`."""
    base = environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
    return Path(base) / "concertino" / "concertino.db"


def research_team(library: Library) -> tuple[Tool, ...]:
    """Return the supervisor's tools: a researcher over *library*, and the report."""
    from .tools.builtin import ResearchTools  # noqa: PLC0415 - only programs that search need it

    return _team(ResearchTools(library))


def open_runtime(
    store: SqlStore,
    library: Library,
    *,
    models: Callable[[str], Model] = open_model,
    model: Model | None = None,
    lease: float = LEASE,
    approvals: bool = False,
) -> Runtime:
    """Return a `Runtime` over *library* with the agents `supervisor`, `researcher`, `main_thread` and `librarian`.

    *model* answers chats that name no model. With *approvals*, the main thread asks before it remembers anything. If
    the process takes the target `sandbox`, it runs the code of all agents with the tool `run_code`.
    """
    from .agents import (  # noqa: PLC0415 - as above
        Approvals,
        DeepResearchSupervisor,
        MainThreadAgent,
        ResearcherAgent,
        WorkerAgent,
    )
    from .tools.builtin import ResearchTools, Settings, default_registry, feedback_questions  # noqa: PLC0415
    from .tools.sandbox import RunCode  # noqa: PLC0415

    tools = ResearchTools(library)
    main_thread = MainThreadAgent()
    if approvals:
        main_thread.parts = (Approvals("store_memory", rules=store, note="It is remembered for later chats"),)
    return Runtime(
        [
            (DeepResearchSupervisor(), ToolRegistry((*_team(tools), feedback_questions()))),
            (ResearcherAgent(), ToolRegistry((tools.search(), tools.fetch(), tools.history()))),
            (main_thread, default_registry(settings=Settings(library=library, memory=store))),
            WorkerAgent(librarian(), ToolRegistry((tools.search(), tools.fetch()))),
            RunCode(),
        ],
        Resources(store=store, model=model, models=models, counter=token_counter()),
        lease=lease,
    )


def librarian() -> WorkerDefinition:
    """Return the definition of the worker that searches a library."""
    from .agents import load_worker  # noqa: PLC0415 - as above

    return load_worker(Path(__file__).parent / "demo" / "librarian.toml")


def _team(tools: ResearchTools) -> tuple[Tool, ...]:
    from .agents import ResearcherAgent, delegate  # noqa: PLC0415 - agents are not needed to open a model

    researcher = delegate(
        ResearcherAgent(),
        description="Ask a researcher, who searches and reads sources, to answer one question with citations.",
        selection_rule="once for each sub-question, all in one turn",
        tools=(tools.search(), tools.fetch(), tools.history()),
    )
    return (researcher, tools.report())


@functools.cache
def token_counter() -> TokenCounter:
    """Return a counter with OpenAI's tokenizer if its data is installed, else an estimating counter."""
    try:
        from .providers.openai.tokenizer import TiktokenCounter  # noqa: PLC0415 - loading the ranks takes half a second
    except ImportError:
        return EstimatingCounter()
    return TiktokenCounter()


def _open_compatible(vendor: str, name: str) -> Model:
    from .providers.openai import OpenAICompatibleModel  # noqa: PLC0415 - only this provider's code is loaded

    if not name:
        raise UnknownModelError(f"{vendor or 'openai-compatible'} has no default model: name one after a colon")
    if vendor:
        return OpenAICompatibleModel(name, vendor=vendor)
    url = os.environ.get("OPENAI_COMPATIBLE_URL")
    if not url:
        raise ConfigurationError("openai-compatible models need a URL: set OPENAI_COMPATIBLE_URL")
    return OpenAICompatibleModel(name, url, api_key=os.environ.get("OPENAI_COMPATIBLE_API_KEY"))


def _opener(provider: str) -> Callable[[str], Model]:
    match provider:
        case "anthropic":
            from .providers.anthropic import AnthropicModel  # noqa: PLC0415 - only this provider's code is loaded

            return AnthropicModel
        case "openai":
            from .providers.openai import OpenAIModel  # noqa: PLC0415

            return OpenAIModel
        case _:
            from .providers.google import GoogleModel  # noqa: PLC0415

            return GoogleModel
