"""The commands and their options."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .._version import __version__
from .commands.runs import runs
from .options import AsJson, Context, Corpus, Database, ModelName
from .render.console import mend_input

if TYPE_CHECKING:
    from .context import Options
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


app.add_typer(runs, name="runs")


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
    context: Context = None,
    db: Database = None,
    as_json: AsJson = False,
) -> None:
    """Research QUESTION in sources and write a report with citations."""
    from .commands.research import research as command  # noqa: PLC0415 - for a quick --help

    options = _options(corpus, model, context, db, as_json=as_json)
    _perform(command, question, options, needs_text=True)


@app.command()
def chat(
    message: Message = None,
    corpus: Corpus = None,
    model: ModelName = None,
    context: Context = None,
    db: Database = None,
    as_json: AsJson = False,
) -> None:
    """Chat: one turn for MESSAGE; without it, one for each line of standard input until its end or /quit."""
    from .commands.chat import chat as command  # noqa: PLC0415 - for a quick --help

    options = _options(corpus, model, context, db, as_json=as_json)
    _perform(command, message, options, needs_text=False)


@app.command()
def usage(
    by: Annotated[
        list[str] | None,
        typer.Option(
            metavar="WORD",
            help="What to sum by: run, agent, model, user, organization or day (UTC). May be repeated. "
            "Without it: model.",
        ),
    ] = None,
    since: Annotated[str | None, typer.Option(metavar="DATE", help="From this date on, or time; UTC.")] = None,
    until: Annotated[
        str | None, typer.Option(metavar="DATE", help="To the end of this date, or before this time; UTC.")
    ] = None,
    db: Database = None,
    as_json: AsJson = False,
) -> None:
    """Sum up tokens and cost over the ledger."""
    from .commands.usage import Asked  # noqa: PLC0415
    from .commands.usage import usage as command  # noqa: PLC0415
    from .context import Given  # noqa: PLC0415 - for a quick --help
    from .program import perform_at_desk  # noqa: PLC0415

    asked = Asked(by=tuple(by or ("model",)), since=since, until=until)
    raise typer.Exit(perform_at_desk(partial(command, asked), Given(database=db), as_json=as_json))


def _options(
    corpus: list[str] | None, model: str | None, context: int | None, db: Path | None, *, as_json: bool
) -> Options:
    from .context import Options  # noqa: PLC0415 - for a quick --help

    return Options(corpus=tuple(corpus or ()), model=model, context=context, database=db, as_json=as_json)


def _perform(command: Command, words: list[str] | None, options: Options, *, needs_text: bool) -> None:
    from .program import perform  # noqa: PLC0415 - for a quick --help

    raise typer.Exit(perform(command, words or (), options, needs_text=needs_text))
