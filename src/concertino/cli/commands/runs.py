"""The command group `concertino runs` and its options."""

from __future__ import annotations

from functools import partial
from typing import Annotated

import typer

from ..options import ContextCommand, Execute, takes

runs = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    help="Inspect and manage stored runs.",
    context_settings={"help_option_names": ["-h", "--help"]},
)

RunId = Annotated[str, typer.Argument(metavar="RUN", help="The run's id.", show_default=False)]
Key = Annotated[str, typer.Argument(metavar="KEY", help="The wait's key; runs show prints it.", show_default=False)]
By = Annotated[str | None, typer.Option(metavar="NAME", help="The person who answers. Default: your login name.")]
Tenant = Annotated[str | None, typer.Option(metavar="TENANT", help="Only runs of this tenant.")]
Resume = Annotated[bool, typer.Option("--resume", help="Resume the run at once if this answer is the first.")]


def on_stored_runs(command: ContextCommand, *, read_only: bool = False) -> Execute:
    """Return the execution of *command*; a *read_only* one needs no write access."""
    from ..program import manage_runs

    return partial(manage_runs, command, read_only=read_only)


@runs.command("list")
@takes("db", "as_json")
def list_(
    tenant: Tenant = None,
    user: Annotated[
        str | None, typer.Option(metavar="USER", help="Only runs of this user, of the tenant that --tenant names.")
    ] = None,
    conversation: Annotated[str | None, typer.Option(metavar="ID", help="Only runs of this conversation.")] = None,
    state: Annotated[
        str | None,
        typer.Option(
            metavar="STATE",
            help="running, interrupted (its process has ended), suspended (it waits for answers), "
            "dead_letter (its processes did not survive it), completed, limited, failed or cancelled.",
        ),
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="Include the runs of sub-agents.")] = False,
    limit: Annotated[int, typer.Option(metavar="N", min=1, help="Maximum number of runs.")] = 20,
) -> Execute:
    """List runs, newest first."""
    from .runs_list import list_runs

    return on_stored_runs(partial(list_runs, tenant, user, conversation, state, everything, limit), read_only=True)


@runs.command()
@takes("db", "as_json")
def show(run: RunId) -> Execute:
    """Show a run's costs, timeline and open waits."""
    from .runs_show import show_run

    return on_stored_runs(partial(show_run, run), read_only=True)


@runs.command()
@takes("corpus", "app", "db", "as_json", "raw")
def resume(run: RunId) -> Execute:
    """Resume a run at the step where it stopped.

    The run continues with the model that it had.
    """
    from .runs_resume import resume_run

    return on_stored_runs(partial(resume_run, run))


@runs.command()
@takes("db", "as_json")
def retry(run: RunId) -> Execute:
    """Make a dead letter resumable again.

    A run is a dead letter if its processes ended several times without progress.
    """
    from .runs_resume import retry_run

    return on_stored_runs(partial(retry_run, run))


@runs.command()
@takes("corpus", "app", "db", "as_json", "raw")
def fork(
    run: RunId,
    step: Annotated[int, typer.Option(metavar="N", min=1, help="The step before which the new run starts.")],
) -> Execute:
    """Start a copy of a run as it was before a step."""
    from .runs_resume import fork_run

    return on_stored_runs(partial(fork_run, run, step))


@runs.command()
@takes("corpus", "app", "db", "as_json", "raw")
def approve(
    key: Key,
    by: By = None,
    arguments: Annotated[
        str | None, typer.Option(metavar="JSON", help="Replace the arguments of the call: a JSON object.")
    ] = None,
    resume: Resume = False,
) -> Execute:
    """Approve a call that waits for approval."""
    from .runs_answer import approve as command

    return on_stored_runs(partial(command, key, by, resume, arguments))


@runs.command()
@takes("corpus", "app", "db", "as_json", "raw")
def deny(
    key: Key,
    reason: Annotated[str, typer.Option(metavar="TEXT", help="The reason, which the model reads.")] = "",
    by: By = None,
    resume: Resume = False,
) -> Execute:
    """Deny a call that waits for approval."""
    from .runs_answer import deny as command

    return on_stored_runs(partial(command, key, by, resume, reason))


@runs.command()
@takes("corpus", "app", "db", "as_json", "raw")
def resolve(
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
) -> Execute:
    """Supply the result of a call that waits for it."""
    from .runs_answer import resolve as command

    return on_stored_runs(partial(command, key, by, resume, result, failed))


@runs.command()
@takes("db", "as_json")
def stop(
    run: RunId,
    deadline: Annotated[
        float, typer.Option(metavar="S", min=0.1, max=3600, help="Seconds that open operations may take to end.")
    ] = 5.0,
) -> Execute:
    """Stop a run, in whichever process it is.

    Its sub-agents are stopped as well. The receipt lists the operations that were open.
    """
    from .runs_stop import stop_run

    return on_stored_runs(partial(stop_run, run, deadline))


@runs.command()
@takes("db", "as_json")
def export(run: RunId) -> Execute:
    """Print a whole tree of runs as JSON lines.

    Content that the data policy does not keep is left out.
    """
    from .runs_export import export_run

    return on_stored_runs(partial(export_run, run), read_only=True)


@runs.command("test")
@takes("app", "db", "as_json")
def write_test(
    run: RunId,
    save: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Default: test_AGENT_ID.py, with the end of the run's id."),
    ] = None,
) -> Execute:
    """Turn a run into a pytest file, in which a scripted model repeats its answers.

    It needs --app, and contains the messages and the results of the run.
    """
    from .runs_test import write_test as command

    return on_stored_runs(partial(command, run, save), read_only=True)


@runs.command()
@takes("db", "as_json")
def erase(
    tenant: Annotated[
        str | None, typer.Option(metavar="TENANT", help="The user's tenant; without --user, all users of it.")
    ] = None,
    user: Annotated[str | None, typer.Option(metavar="USER", help="The user whose runs and memories to erase.")] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Erase without a confirmation.")] = False,
) -> Execute:
    """Erase the runs and memories of a user, or of all users of a tenant.

    The ledger stays, without the user's name.
    """
    from .runs_stop import erase_owner

    return on_stored_runs(partial(erase_owner, tenant, user, yes))
