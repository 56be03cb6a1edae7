"""The one place that knows all adapters by name, for programs that are set up by words and the environment."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from threading import Lock
from types import TracebackType
from typing import Self

from .errors import ConfigurationError, StorageError, UnknownModelError, UnknownProviderError
from .orchestrator.journal.lease import LEASE
from .orchestrator.resources import Resources
from .providers.base import Model
from .runtime import Runtime
from .storage.sqlite import SqliteStore
from .token_engine.counting.base import EstimatingCounter, TokenCounter
from .tools.base import Tool
from .tools.builtin.research import ResearchTools
from .tools.library import Library
from .tools.registry import ToolRegistry

DEMO = "demo"
"""The model that needs no key."""

# Each provider's variable and the model that is taken when none is named: the makers' general-purpose models as
# of November 2026.
_PROVIDERS: dict[str, tuple[tuple[str, ...], str]] = {
    "anthropic": (("ANTHROPIC_API_KEY",), "claude-sonnet-5-5"),
    "openai": (("OPENAI_API_KEY",), "gpt-6-luna"),
    "google": (("GEMINI_API_KEY", "GOOGLE_API_KEY"), "gemini-3.8-flash"),
}


def open_model(spec: str) -> Model:
    """The model named *spec*: `provider:model`, or a provider alone for its usual one, or `demo`.

    Besides the three makers there are the vendors of OpenAI's format (`groq:...`, `openrouter:...`, see
    `providers.openai.vendors`), and `openai-compatible:...`, which answers at `OPENAI_COMPATIBLE_URL` and may have its
    key in `OPENAI_COMPATIBLE_API_KEY`.

    Raises `UnknownProviderError`, `UnknownModelError`, `MissingKeyError` (naming the variable),
    `ConfigurationError` (naming the URL that is missing) or `MissingExtraError` (naming the extra).
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
        raise UnknownProviderError(f"there is no provider {provider!r} (in {spec!r}); there are: {names}")
    return _opener(provider)(name or _PROVIDERS[provider][1])


class Models:
    """Opens each model once, and closes them all: for `Chat(models=...)` and `Runtime(models=...)`.

        async with Models() as models:
            chat = Chat(model=models("anthropic"), message="...", models=models, fallback=["openai:gpt-6-luna"])

    One is enough for all chats of a program, in any number of threads and event loops. An SDK's client belongs to a
    loop: what the end of the block, or `close`, closes is what the running loop has opened. *opens* opens a model.
    """

    def __init__(self, opens: Callable[[str], Model] = open_model) -> None:
        self._opens = opens
        self._opened: dict[str, Model] = {}
        self._lock = Lock()

    def __call__(self, spec: str) -> Model:
        """The model named *spec*. Raises what opening it raises; see `open_model`."""
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
        """Release their connections, all of them, also where one fails at it. May be called twice."""
        async with AsyncExitStack() as stack:
            for model in list(self._opened.values()):
                stack.push_async_callback(model.close)


def model_from_environment(environ: Mapping[str, str] = os.environ) -> str:
    """The spec of the first provider whose key is set; else `demo`."""
    for provider, (variables, name) in _PROVIDERS.items():
        if any(environ.get(variable, "").strip() for variable in variables):
            return f"{provider}:{name}"
    return DEMO


async def open_library(
    paths: Sequence[str | Path],
    report: Callable[[str], None],
    environ: Mapping[str, str] = os.environ,
) -> Library:
    """What is searched: the files at *paths*; without any, the web if a search service is set up, else the
    documentation of this machine's Python standard library. *report* gets lines for people.

    Raises `CorpusError` for a path that is missing or has nothing to read.
    """
    from .tools.documents import open_documents  # noqa: PLC0415 - only programs that search need it

    if not paths:
        from .tools.web import web_library_from_environment  # noqa: PLC0415 - the client is an extra

        web = web_library_from_environment(environ)
        if web is not None:
            return web
    return await open_documents(list(paths) or None, report=report)


async def open_store(path: Path) -> SqliteStore:
    """The SQLite file at *path*; its folder is made if it is missing. Raises `StorageError`."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StorageError(f"cannot make the folder {path.parent}: {error.strerror}; choose another --db") from error
    return await SqliteStore.open(path)


def default_database(environ: Mapping[str, str] = os.environ) -> Path:
    """`$XDG_DATA_HOME/concertino/concertino.db`, else below `~/.local/share`."""
    base = environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
    return Path(base) / "concertino" / "concertino.db"


def research_team(library: Library) -> tuple[Tool, ...]:
    """The supervisor's tools: a researcher over *library*, and the report."""
    return _team(ResearchTools(library))


def open_runtime(
    store: SqliteStore,
    library: Library,
    *,
    models: Callable[[str], Model] = open_model,
    lease: float = LEASE,
) -> Runtime:
    """The `Runtime` of this program over *library*: its agents are `supervisor`, `researcher` and `main_thread`."""
    from .agents import DeepResearchSupervisor, MainThreadAgent, ResearcherAgent  # noqa: PLC0415 - as above
    from .tools.builtin.default import Settings, default_registry  # noqa: PLC0415
    from .tools.builtin.feedback import feedback_questions  # noqa: PLC0415

    tools = ResearchTools(library)
    return Runtime(
        [
            (DeepResearchSupervisor(), ToolRegistry((*_team(tools), feedback_questions()))),
            (ResearcherAgent(), ToolRegistry((tools.search(), tools.fetch(), tools.history()))),
            (MainThreadAgent(), default_registry(settings=Settings(library=library, memory=store))),
        ],
        Resources(store=store, models=models, counter=token_counter()),
        lease=lease,
    )


def _team(tools: ResearchTools) -> tuple[Tool, ...]:
    from .agents import ResearcherAgent, delegate  # noqa: PLC0415 - agents are not needed to open a model

    researcher = delegate(
        ResearcherAgent(),
        description="Sends out a researcher who searches and reads sources and answers one question with citations.",
        selection_rule="once for each sub-question, all in one turn",
        tools=(tools.search(), tools.fetch(), tools.history()),
    )
    return (researcher, tools.report())


@functools.cache
def token_counter() -> TokenCounter:
    """OpenAI's tokenizer where its ranks are on the machine; else an estimate."""
    try:
        from .token_engine.counting.tiktoken import TiktokenCounter  # noqa: PLC0415 - loading the ranks takes half a second
    except ImportError:
        return EstimatingCounter()
    return TiktokenCounter()


def _open_compatible(vendor: str, name: str) -> Model:
    from .providers.openai import OpenAICompatibleModel  # noqa: PLC0415 - only this provider's code is loaded

    if not name:
        raise UnknownModelError(f"{vendor or 'openai-compatible'} has no usual model: name one behind a colon")
    if vendor:
        return OpenAICompatibleModel(name, vendor=vendor)
    url = os.environ.get("OPENAI_COMPATIBLE_URL")
    if not url:
        raise ConfigurationError("openai-compatible models answer at a URL: set OPENAI_COMPATIBLE_URL")
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
