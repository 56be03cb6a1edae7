"""The commands below `concertino runs`, and their options."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..options import App, AsJson, By, Corpus, Database, Key, Resume, RunId

if TYPE_CHECKING:
    from ..program import Work

runs = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    help="List, show, resume, fork, answer, stop, export and erase runs.",
    context_settings={"help_option_names": ["-h", "--help"]},
)


@runs.command("list")
def list_(
    user: Annotated[str | None, typer.Option(metavar="USER", help="Only this user's.")] = None,
    conversation: Annotated[str | None, typer.Option(metavar="ID", help="Only this conversation's.")] = None,
    state: Annotated[
        str | None,
        typer.Option(
            metavar="STATE",
            help="running, interrupted (its process died), suspended (it waits), completed, failed or cancelled.",
        ),
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="Sub-agents' runs too.")] = False,
    limit: Annotated[int, typer.Option(metavar="N", min=1, help="How many, at most.")] = 20,
    db: Database = None,
    as_json: AsJson = False,
) -> None:
    """List runs, the newest first."""
    from .runs_list import Wanted, list_runs  # noqa: PLC0415 - for a quick --help

    wanted = Wanted(user=user, conversation=conversation, state=state, sub_agents=everything, limit=limit)
    _perform(partial(list_runs, wanted), db, as_json)


@runs.command()
def show(run: RunId, db: Database = None, as_json: AsJson = False) -> None:
    """Show a run: its agents, its steps, what it waits for."""
    from .runs_show import show_run  # noqa: PLC0415

    _perform(partial(show_run, run), db, as_json)


@runs.command()
def resume(run: RunId, corpus: Corpus = None, app: App = None, db: Database = None, as_json: AsJson = False) -> None:
    """Take a run up where it was left, and show it. It goes on with the model that it had."""
    from .runs_resume import resume_run  # noqa: PLC0415

    _perform(partial(resume_run, run), db, as_json, corpus, app)


@runs.command()
def fork(
    run: RunId,
    step: Annotated[int, typer.Option(metavar="N", min=1, help="Before which step the new run begins.")],
    corpus: Corpus = None,
    app: App = None,
    db: Database = None,
    as_json: AsJson = False,
) -> None:
    """Begin a new run that stands where RUN stood before a step, and show it."""
    from .runs_resume import fork_run  # noqa: PLC0415

    _perform(partial(fork_run, run, step), db, as_json, corpus, app)


@runs.command()
def approve(
    key: Key,
    by: By = None,
    arguments: Annotated[
        str | None, typer.Option(metavar="JSON", help="Other arguments for the call: a JSON object.")
    ] = None,
    resume: Resume = False,
    corpus: Corpus = None,
    app: App = None,
    db: Database = None,
    as_json: AsJson = False,
) -> None:
    """Allow a call that waits for an approval."""
    from .runs_answer import Answer  # noqa: PLC0415
    from .runs_answer import approve as command  # noqa: PLC0415

    answer = Answer(key=key, by=by, resume=resume)
    _perform(partial(command, answer, arguments), db, as_json, corpus, app)


@runs.command()
def deny(
    key: Key,
    reason: Annotated[str, typer.Option(metavar="TEXT", help="Why; the model reads it.")] = "",
    by: By = None,
    resume: Resume = False,
    corpus: Corpus = None,
    app: App = None,
    db: Database = None,
    as_json: AsJson = False,
) -> None:
    """Forbid a call that waits for an approval."""
    from .runs_answer import Answer  # noqa: PLC0415
    from .runs_answer import deny as command  # noqa: PLC0415

    answer = Answer(key=key, by=by, resume=resume)
    _perform(partial(command, answer, reason), db, as_json, corpus, app)


@runs.command()
def resolve(  # noqa: PLR0913, PLR0917 - an option each
    key: Key,
    result: Annotated[
        str, typer.Argument(metavar="RESULT", help="What the model reads; - reads standard input.", show_default=False)
    ],
    failed: Annotated[bool, typer.Option("--failed", help="RESULT is an error.")] = False,
    by: By = None,
    resume: Resume = False,
    corpus: Corpus = None,
    app: App = None,
    db: Database = None,
    as_json: AsJson = False,
) -> None:
    """Give the result of a call that waits for it."""
    from .runs_answer import Answer  # noqa: PLC0415
    from .runs_answer import resolve as command  # noqa: PLC0415

    answer = Answer(key=key, by=by, resume=resume)
    _perform(partial(command, answer, result, failed), db, as_json, corpus, app)


@runs.command()
def stop(
    run: RunId,
    deadline: Annotated[
        float, typer.Option(metavar="S", min=0.1, max=3600, help="Seconds that what goes on may take to end.")
    ] = 5.0,
    db: Database = None,
    as_json: AsJson = False,
) -> None:
    """Stop a run and all below it, wherever it goes on, and say what became of what was going on."""
    from .runs_stop import stop_run  # noqa: PLC0415

    _perform(partial(stop_run, run, deadline), db, as_json)


@runs.command()
def export(
    run: RunId,
    db: Database = None,
    as_json: AsJson = True,  # noqa: ARG001 - all commands take it, and this one prints nothing else
) -> None:
    """Print a whole tree of runs as JSON lines, as its data policy leaves it."""
    from .runs_export import export_run  # noqa: PLC0415

    _perform(partial(export_run, run), db, as_json=True)


@runs.command()
def erase(
    user: Annotated[str, typer.Option(metavar="USER", help="Whose runs and memories.", show_default=False)],
    organization: Annotated[
        str | None, typer.Option(metavar="ORG", help="Only what belongs to this organization.")
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    db: Database = None,
    as_json: AsJson = False,
) -> None:
    """Erase all that is known of a user. The ledger stays, without the name."""
    from .runs_stop import erase_user  # noqa: PLC0415

    _perform(partial(erase_user, user, organization, yes), db, as_json)


def _perform(
    work: Work, db: Path | None, as_json: bool, corpus: list[str] | None = None, app: str | None = None
) -> None:
    from ..context import Given  # noqa: PLC0415
    from ..program import perform_at_desk  # noqa: PLC0415

    given = Given(database=db, corpus=tuple(corpus or ()), app=app)
    raise typer.Exit(perform_at_desk(work, given, as_json=as_json))
