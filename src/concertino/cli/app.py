"""The commands `research`, `chat` and `usage`, and the group `runs`."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from .._version import __version__
from .commands.runs import runs
from .options import AsJson, ContextWindow, Corpus, Database, ModelName
from .render.console import replace_invalid_input

if TYPE_CHECKING:
    from .command_context import Options
    from .program import NewRunCommand

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,  # rich would add a third to the time of --help
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

Question = Annotated[list[str] | None, typer.Argument(metavar="QUESTION", help="In quotes; - reads standard input.")]
Message = Annotated[list[str] | None, typer.Argument(metavar="[MESSAGE]", help="In quotes; - reads standard input.")]


def run() -> int:
    """Execute the command line and return the exit status."""
    replace_invalid_input()
    try:
        app(prog_name="concertino")
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 1
    return 0


def _print_version(requested: bool) -> None:
    if requested:
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
    context: ContextWindow = None,
    db: Database = None,
    as_json: AsJson = False,
) -> None:
    """Research a question and write a report with citations."""
    from .command_context import Options  # noqa: PLC0415
    from .commands.research import research as command  # noqa: PLC0415 - --help must not load it

    options = Options(corpus=tuple(corpus or ()), model=model, window=context, database=db, as_json=as_json)
    _perform(command, question, options, needs_text=True)


@app.command()
def chat(
    message: Message = None,
    corpus: Corpus = None,
    model: ModelName = None,
    context: ContextWindow = None,
    db: Database = None,
    as_json: AsJson = False,
) -> None:
    """Chat with an assistant that searches and cites sources.

    One turn for MESSAGE; without it, a turn for each line of standard input until its end or /quit.
    """
    from .command_context import Options  # noqa: PLC0415
    from .commands.chat import chat as command  # noqa: PLC0415 - --help must not load it

    options = Options(corpus=tuple(corpus or ()), model=model, window=context, database=db, as_json=as_json)
    _perform(command, message, options, needs_text=False)


@app.command()
def usage(
    by: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FIELD",
            help="Sum by run, agent, model, user, organization or day (UTC); with --run also by step or attempt. "
            "Repeatable. Default: model.",
        ),
    ] = None,
    run: Annotated[str | None, typer.Option(metavar="RUN", help="Only this run and its sub-agents.")] = None,
    since: Annotated[str | None, typer.Option(metavar="DATE", help="From this date or time on; UTC.")] = None,
    until: Annotated[
        str | None, typer.Option(metavar="DATE", help="Up to the end of this date, or before this time; UTC.")
    ] = None,
    db: Database = None,
    as_json: AsJson = False,
) -> None:
    """Sum up tokens and cost over the ledger."""
    from .command_context import Options  # noqa: PLC0415
    from .commands.usage import UsageQuery  # noqa: PLC0415 - --help must not load it
    from .commands.usage import usage as command  # noqa: PLC0415
    from .program import perform_on_stored_runs  # noqa: PLC0415

    query = UsageQuery(by=tuple(by or ("model",)), run_id=run, since=since, until=until)
    options = Options(database=db, as_json=as_json)
    raise typer.Exit(perform_on_stored_runs(partial(command, query), options, read_only=True))


def _perform(command: NewRunCommand, arguments: list[str] | None, options: Options, *, needs_text: bool) -> None:
    from .program import perform_new_run  # noqa: PLC0415 - --help must not load it

    raise typer.Exit(perform_new_run(command, arguments or (), options, needs_text=needs_text))
