"""The command group `concertino runs` and its options."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..options import App, AsJson, By, Corpus, Database, Key, Resume, RunId

if TYPE_CHECKING:
    from ..program import StoredRunCommand

runs = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    help="List, show, resume, retry, fork, answer, stop, export and erase runs.",
    context_settings={"help_option_names": ["-h", "--help"]},
)


@runs.command("list")
def list_(
    user: Annotated[str | None, typer.Option(metavar="USER", help="Only runs of this user.")] = None,
    conversation: Annotated[str | None, typer.Option(metavar="ID", help="Only runs of this conversation.")] = None,
    state: Annotated[
        str | None,
        typer.Option(
            metavar="STATE",
            help="running, interrupted (its process has ended), suspended (it waits for answers), "
            "dead_letter (its processes did not survive it), completed, failed or cancelled.",
        ),
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="Include the runs of sub-agents.")] = False,
    limit: Annotated[int, typer.Option(metavar="N", min=1, help="Maximum number of runs.")] = 20,
    db: Database = None,
    as_json: AsJson = False,
) -> None:
    """List runs, newest first."""
    from .runs_list import RunFilter, list_runs  # noqa: PLC0415 - --help must not load it

    selected = RunFilter(user=user, conversation=conversation, state=state, sub_agents=everything, limit=limit)
    _perform(partial(list_runs, selected), db, as_json, read_only=True)


@runs.command()
def show(run: RunId, db: Database = None, as_json: AsJson = False) -> None:
    """Show a run: its agents with their costs, its timeline and its open waits."""
    from .runs_show import show_run  # noqa: PLC0415

    _perform(partial(show_run, run), db, as_json, read_only=True)


@runs.command()
def resume(run: RunId, corpus: Corpus = None, app: App = None, db: Database = None, as_json: AsJson = False) -> None:
    """Resume a run at the step where it stopped, with the model it had, and show it."""
    from .runs_resume import resume_run  # noqa: PLC0415

    _perform(partial(resume_run, run), db, as_json, corpus, app)


@runs.command()
def retry(run: RunId, db: Database = None, as_json: AsJson = False) -> None:
    """Make a dead letter resumable again: a run that its processes did not survive."""
    from .runs_resume import retry_run  # noqa: PLC0415

    _perform(partial(retry_run, run), db, as_json)


@runs.command()
def fork(
    run: RunId,
    step: Annotated[int, typer.Option(metavar="N", min=1, help="The step before which the new run starts.")],
    corpus: Corpus = None,
    app: App = None,
    db: Database = None,
    as_json: AsJson = False,
) -> None:
    """Start a copy of RUN as it was before a step, and show it."""
    from .runs_resume import fork_run  # noqa: PLC0415

    _perform(partial(fork_run, run, step), db, as_json, corpus, app)


@runs.command()
def approve(
    key: Key,
    by: By = None,
    arguments: Annotated[
        str | None, typer.Option(metavar="JSON", help="Replace the arguments of the call: a JSON object.")
    ] = None,
    resume: Resume = False,
    corpus: Corpus = None,
    app: App = None,
    db: Database = None,
    as_json: AsJson = False,
) -> None:
    """Approve a call that waits for approval."""
    from .runs_answer import AnswerOptions  # noqa: PLC0415
    from .runs_answer import approve as command  # noqa: PLC0415

    answer = AnswerOptions(key=key, by=by, resume=resume)
    _perform(partial(command, answer, arguments), db, as_json, corpus, app)


@runs.command()
def deny(
    key: Key,
    reason: Annotated[str, typer.Option(metavar="TEXT", help="The reason, which the model reads.")] = "",
    by: By = None,
    resume: Resume = False,
    corpus: Corpus = None,
    app: App = None,
    db: Database = None,
    as_json: AsJson = False,
) -> None:
    """Deny a call that waits for approval."""
    from .runs_answer import AnswerOptions  # noqa: PLC0415
    from .runs_answer import deny as command  # noqa: PLC0415

    answer = AnswerOptions(key=key, by=by, resume=resume)
    _perform(partial(command, answer, reason), db, as_json, corpus, app)


@runs.command()
def resolve(  # noqa: PLR0913, PLR0917 - an option each
    key: Key,
    result: Annotated[
        str,
        typer.Argument(
            metavar="RESULT", help="The text that the model reads; - reads standard input.", show_default=False
        ),
    ],
    failed: Annotated[bool, typer.Option("--failed", help="RESULT is an error message.")] = False,
    by: By = None,
    resume: Resume = False,
    corpus: Corpus = None,
    app: App = None,
    db: Database = None,
    as_json: AsJson = False,
) -> None:
    """Supply the result of a call that waits for it."""
    from .runs_answer import AnswerOptions  # noqa: PLC0415
    from .runs_answer import resolve as command  # noqa: PLC0415

    answer = AnswerOptions(key=key, by=by, resume=resume)
    _perform(partial(command, answer, result, failed), db, as_json, corpus, app)


@runs.command()
def stop(
    run: RunId,
    deadline: Annotated[
        float, typer.Option(metavar="S", min=0.1, max=3600, help="Seconds that open operations may take to end.")
    ] = 5.0,
    db: Database = None,
    as_json: AsJson = False,
) -> None:
    """Stop a run and its sub-agents in any process, and print a receipt of their open operations."""
    from .runs_stop import stop_run  # noqa: PLC0415

    _perform(partial(stop_run, run, deadline), db, as_json)


@runs.command()
def export(
    run: RunId,
    db: Database = None,
    as_json: AsJson = True,  # noqa: ARG001 - every command takes it; this one prints nothing else
) -> None:
    """Print a whole tree of runs as JSON lines, reduced by its data policy."""
    from .runs_export import export_run  # noqa: PLC0415

    _perform(partial(export_run, run), db, as_json=True, read_only=True)


@runs.command()
def erase(
    user: Annotated[
        str, typer.Option(metavar="USER", help="The user whose runs and memories to erase.", show_default=False)
    ],
    organization: Annotated[str | None, typer.Option(metavar="ORG", help="Only data of this organization.")] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Erase without a confirmation.")] = False,
    db: Database = None,
    as_json: AsJson = False,
) -> None:
    """Erase a user's runs and memories. The ledger stays, without the name."""
    from .runs_stop import erase_user  # noqa: PLC0415

    _perform(partial(erase_user, user, organization, yes), db, as_json)


def _perform(
    command: StoredRunCommand,
    db: Path | None,
    as_json: bool,
    corpus: list[str] | None = None,
    app: str | None = None,
    *,
    read_only: bool = False,
) -> None:
    from ..command_context import Options  # noqa: PLC0415 - --help must not load it
    from ..program import perform_on_stored_runs  # noqa: PLC0415

    options = Options(database=db, corpus=tuple(corpus or ()), app=app, as_json=as_json)
    raise typer.Exit(perform_on_stored_runs(command, options, read_only=read_only))
