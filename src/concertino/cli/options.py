"""The options that several commands share, each declared once."""

from __future__ import annotations

import inspect
import re
import shlex
from collections.abc import Callable, Coroutine
from functools import wraps
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

from ..records import record

if TYPE_CHECKING:
    from ..waits import Wait


@record(kw_only=True)
class Options:
    """The shared options of one command line; a command that does not take an option has its default."""

    corpus: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PATH...",
            help="Files and folders to search. Repeatable; several paths may follow a question. Default: the web if a "
            "search service is configured, else the documentation of Python's standard library.",
        ),
    ] = None
    app: Annotated[
        str | None,
        typer.Option(
            metavar="MODULE:NAME",
            help="For runs of your own agents: a function, importable from this folder, that takes the store and "
            "returns your concertino.runtime.Runtime. Default: the agents of research and chat.",
        ),
    ] = None
    model: Annotated[
        str | None,
        typer.Option(
            metavar="PROVIDER:MODEL",
            help="The model: anthropic, openai or google with a key in the environment; ollama:NAME, such as "
            "ollama:qwen3, for a local Ollama server without a key; openai-compatible:NAME for any other server, whose "
            "address is in OPENAI_COMPATIBLE_URL. Default: the first provider with a key, else the built-in model, "
            "which quotes sources and involves no language model.",
        ),
    ] = None
    context: Annotated[
        int | None,
        typer.Option(
            metavar="TOKENS",
            min=1_000,
            help="Maximum tokens of a request with its answer. Default: the model's context window.",
        ),
    ] = None
    db: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="The SQLite file that stores the runs, or a postgresql:// URL. "
            "Default: concertino/concertino.db in the user's data folder.",
        ),
    ] = None
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object per line to standard output.")] = False
    raw: Annotated[
        bool,
        typer.Option("--raw", help="Print the answer unchanged to a pipe or a file, with its control characters."),
    ] = False

    def answer_commands(self, wait: Wait) -> tuple[str, ...]:
        """Return the commands that answer *wait*; one of them is to be run."""
        if wait.kind == "result":
            return (self.command("resolve", wait.key, "RESULT"),)
        by = ("--by", wait.who[0]) if wait.who else ()
        return self.command("approve", wait.key, *by), self.command("deny", wait.key, *by)

    def resume_command(self, run_id: str) -> str:
        """Return the command that resumes a run."""
        app = () if self.app is None else ("--app", self.app)
        corpus = [argument for path in self.corpus or () for argument in ("--corpus", path)]
        return self.command("resume", run_id, *app, *corpus)

    def command(self, *arguments: str) -> str:
        """Return a command of the group `runs` on the same database."""
        database = () if self.db is None else ("--db", without_password(self.db))
        return shlex.join(("concertino", "runs", *arguments, *database))


def without_password(database: str) -> str:
    """Return the name of a database, which may be a URL, as it may be shown."""
    return re.sub(r"(?<=://)([^/@]*?):[^/@]*@", r"\1@", re.sub(r"([?&]password=)[^&]*", r"\1", database))


ContextCommand = Callable[..., Coroutine[Any, Any, int]]
"""Works in an opened context, its last argument, and returns the exit status."""
Execute = Callable[[Options], int]
"""Executes a command with its shared options and returns the exit status."""


def takes(*names: str, group: type[Any] | None = None) -> Callable[[Callable[..., Execute]], Callable[..., None]]:
    """Add the options *names* of `Options` to the declaration of a command.

    With *group*, the command's own options are the fields of this record, and the command gets one of it.
    """

    def decorate(declared: Callable[..., Execute]) -> Callable[..., None]:
        @wraps(declared)
        def perform(**given: Any) -> None:
            options = Options(**{name: given.pop(name) for name in names})
            execute = declared(**given) if group is None else declared(group(**given))
            raise typer.Exit(execute(options))

        own = (
            inspect.signature(declared, eval_str=True).parameters.values() if group is None else _fields(group).values()
        )
        fields = _fields(Options)
        shared = [fields[name] for name in names]
        perform.__signature__ = inspect.Signature([*own, *shared])  # type: ignore[attr-defined]  # Typer reads it
        return perform

    return decorate


def _fields(group: type[Any]) -> dict[str, inspect.Parameter]:
    """Return the fields of a record of options, as parameters with their annotations."""
    hints = get_type_hints(group, include_extras=True)
    return {name: field.replace(annotation=hints[name]) for name, field in inspect.signature(group).parameters.items()}
