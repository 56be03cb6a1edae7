"""The commands and their options."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .._version import __version__
from .asking import mend_input

if TYPE_CHECKING:
    from .program import Command

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,  # loading rich for the help alone would take a third of its time
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

Question = Annotated[list[str] | None, typer.Argument(metavar="QUESTION", help="In quotes; - reads standard input.")]
Message = Annotated[list[str] | None, typer.Argument(metavar="[MESSAGE]", help="In quotes; - reads standard input.")]
Corpus = Annotated[
    list[str] | None,
    typer.Option(
        metavar="PATH...",
        help="What to search: files and folders. May be repeated, and several may follow a question. "
        "Without it: the web if a search service is set up, else the documentation of Python's standard library.",
    ),
]
ModelName = Annotated[
    str | None,
    typer.Option(
        metavar="PROVIDER:MODEL",
        help="anthropic, openai, google or extractive, and its model. Without it: by the key in the environment; "
        "without a key extractive, which involves no language model.",
    ),
]
Database = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="The SQLite file that keeps the runs. Without it: concertino/concertino.db in the user's data folder.",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, an object per line, and nothing else, to stdout.")]


def run() -> int:
    """Do what the command line says; the program's exit status."""
    mend_input()
    try:
        app(prog_name="concertino")
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 1
    return 0


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"concertino {__version__}")
        raise typer.Exit


@app.callback()
def concertino(
    version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_print_version, help="Print the version and exit.")
    ] = False,
) -> None:
    """Research and chat with cited sources. Progress goes to standard error, the answer to standard output."""


@app.command()
def research(
    question: Question = None,
    corpus: Corpus = None,
    model: ModelName = None,
    db: Database = None,
    as_json: AsJson = False,
) -> None:
    """Research QUESTION in sources and write a report with citations."""
    from .research import research as command  # noqa: PLC0415 - for a quick --help

    _perform(command, question, corpus, model, db, as_json, needs_text=True)


@app.command()
def chat(
    message: Message = None,
    corpus: Corpus = None,
    model: ModelName = None,
    db: Database = None,
    as_json: AsJson = False,
) -> None:
    """Chat: one turn for MESSAGE; without it, one for each line of standard input until its end or /quit."""
    from .chat import chat as command  # noqa: PLC0415 - for a quick --help

    _perform(command, message, corpus, model, db, as_json, needs_text=False)


def _perform(
    command: Command,
    words: list[str] | None,
    corpus: list[str] | None,
    model: str | None,
    db: Path | None,
    as_json: bool,
    *,
    needs_text: bool,
) -> None:
    from .means import Options  # noqa: PLC0415 - for a quick --help
    from .program import perform  # noqa: PLC0415

    options = Options(corpus=tuple(corpus or ()), model=model, database=db, as_json=as_json)
    raise typer.Exit(perform(command, words or (), options, needs_text=needs_text))
