"""The commands `research`, `chat`, `serve`, `eval`, `replay` and `usage`, and the groups of commands.

The declarations load no command: `--help` stays fast.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from .._version import __version__
from .commands.runs import RunId, on_stored_runs, runs
from .eval_options import EvalOptions
from .options import Execute, takes
from .render.console import replace_invalid_input
from .schedule_options import ScheduleOptions

if TYPE_CHECKING:
    from .command_context import CommandContext

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,  # rich would add a third to the time of --help
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(runs, name="runs")


def _group(name: str, text: str) -> typer.Typer:
    """Add a group of commands."""
    made = typer.Typer(
        no_args_is_help=True,
        rich_markup_mode=None,
        help=text,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.add_typer(made, name=name)
    return made


worker = _group("worker", "List workers and give them tasks.")
fleet = _group("fleet", "Share the work of a database among processes.")
workflow = _group("workflow", "Start workflows, show their steps and resume them.")
schedule = _group("schedule", "Add, list, pause, resume and delete schedules.")
new = _group("new", "Write the first files of your own code.")
mcp = _group("mcp", "Offer agents to clients of the Model Context Protocol.")

_TEXT = "In quotes; - reads standard input."


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


@app.callback()
def concertino(
    version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_print_version, help="Print the version and exit.")
    ] = False,
) -> None:
    """Research and chat with cited sources. Progress goes to standard error, the answer to standard output."""


@app.command()
@takes("corpus", "model", "context", "db", "as_json", "raw")
def research(question: Annotated[list[str] | None, typer.Argument(metavar="QUESTION", help=_TEXT)] = None) -> Execute:
    """Research a question and write a report with citations."""
    from .commands.research import research as command
    from .program import start_runs

    return partial(start_runs, command, question, needs_text=True)


@app.command()
@takes("corpus", "model", "context", "db", "as_json", "raw")
def chat(message: Annotated[list[str] | None, typer.Argument(metavar="MESSAGE", help=_TEXT)] = None) -> Execute:
    """Chat with an assistant that searches and cites sources.

    One turn for MESSAGE; without it, a turn for each line of standard input until its end or /quit.
    """
    from .commands.chat import chat as command
    from .program import start_runs

    return partial(start_runs, command, message, needs_text=False)


@app.command()
@takes("app", "corpus", "model", "context", "db", "config", "as_json")
def serve(
    host: Annotated[str, typer.Option(metavar="ADDRESS", help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(metavar="PORT", min=0, max=65535, help="0 chooses a free one.")] = 8000,
    grace: Annotated[
        float, typer.Option(metavar="SECONDS", min=0, help="The time that runs have to end after a signal.")
    ] = 20.0,
) -> Execute:
    """Serve the web API on this machine. A signal ends it; what runs then continues at its next start."""
    from .program import start_runs

    async def command(_: object, context: CommandContext) -> int:
        from .commands.serve import serve as serve_runtime  # here, so that a missing extra is reported as any error

        return await serve_runtime(host, port, grace, context)

    return partial(start_runs, command, (), needs_text=False, prepared=None)


@app.command("eval")
@takes("app", "corpus", "model", "db", "as_json", group=EvalOptions)
def evaluate(given: EvalOptions) -> Execute:
    """Run an agent on the cases of a data set, and print its scores with their confidence intervals.

    The agent's tools run. The status is 1 if a score has regressed or is too low.
    """
    from .program import start_runs

    async def command(_: object, context: CommandContext) -> int:
        from .commands.eval_run import run_eval

        return await run_eval(given, context)

    return partial(start_runs, command, (), needs_text=False, prepared=False)


@app.command()
@takes("app", "corpus", "model", "db", "as_json")
def replay(
    runs: Annotated[list[str] | None, typer.Argument(metavar="RUN...", help="Ids of stored runs.")] = None,
    against: Annotated[
        str | None, typer.Option(metavar="AGENT", help="The agent to run. Default: each run's own, as it is now.")
    ] = None,
    newest: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Replay the newest N root runs that have ended.")
    ] = None,
) -> Execute:
    """Run stored runs again through the present code and prompts, and find where they diverge.

    Answers and tool results come from the journal; no tool runs. With --model, that model answers from the first
    difference on. The status is 1 if a run has changed.
    """
    from .commands.replay_runs import replay_runs

    return on_stored_runs(partial(replay_runs, runs or (), against, newest), read_only=True)


@mcp.callback()
def _mcp() -> None:
    """Keep `serve` a command of the group, which has only one."""


@mcp.command("serve")
@takes("app", "corpus", "model", "context", "db", "config")
def serve_mcp(
    seconds: Annotated[
        float,
        typer.Option(metavar="SECONDS", min=0.1, help="The time after which a call returns while its run goes on."),
    ] = 50.0,
) -> Execute:
    """Serve the client that starts this program, over standard input and output. Runs continue at its next start."""
    from .program import start_runs

    async def command(_: object, context: CommandContext) -> int:
        from .commands.mcp_serve import mcp_serve  # here, so that a missing extra is reported as any error

        return await mcp_serve(seconds, context)

    return lambda options: start_runs(command, (), options, needs_text=False, prepared=options.app is None)


@app.command()
@takes("db", "as_json")
def usage(
    by: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FIELD",
            help="Sum by run, agent, model, tenant, user or day (UTC); with --run also by step or attempt. "
            "Repeatable. Default: model.",
        ),
    ] = None,
    run: Annotated[str | None, typer.Option(metavar="RUN", help="Only this run and its sub-agents.")] = None,
    since: Annotated[str | None, typer.Option(metavar="DATE", help="From this date or time on; UTC.")] = None,
    until: Annotated[
        str | None, typer.Option(metavar="DATE", help="Up to the end of this date, or before this time; UTC.")
    ] = None,
) -> Execute:
    """Sum up tokens and cost over the ledger."""
    from .commands.usage import usage as command

    return on_stored_runs(partial(command, by or ("model",), run, since, until), read_only=True)


@fleet.callback()
def _fleet() -> None:
    """Keep `run` a command of the group, which has only one."""


@fleet.command("run")
@takes("config", "db", "as_json")
def run_fleet() -> Execute:
    """Work on what other processes have recorded, until a signal. Then runs end or are parked for another worker."""
    from .program import start_runs

    async def command(_: object, context: CommandContext) -> int:
        from .commands.fleet import run_worker_process  # here, so that a missing extra is reported as any error

        return await run_worker_process(context)

    return lambda options: start_runs(
        command, (), options, needs_text=False, prepared=None if options.config else False
    )


@worker.command("list")
@takes("app", "db", "as_json")
def list_() -> Execute:
    """List the workers: those of your Runtime with --app, else the built-in one."""
    from .commands.worker import list_workers
    from .program import start_runs

    return partial(start_runs, lambda _, context: list_workers(context), (), needs_text=False, prepared=False)


@worker.command("run")
@takes("app", "corpus", "model", "context", "db", "as_json", "raw")
def run_worker(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The worker's id; worker list prints it.")],
    goal: Annotated[list[str] | None, typer.Argument(metavar="GOAL", help=_TEXT)] = None,
    tenant: Annotated[str, typer.Option(metavar="TENANT", help="The tenant on whose behalf it works.")] = "",
) -> Execute:
    """Give a worker a task, and show its passes. Calls that write wait for your approval."""
    from .commands.worker import BUILT_IN
    from .commands.worker import run_worker as command
    from .program import start_runs

    run = partial(command, name, tenant)
    return lambda options: start_runs(
        run, goal, options, needs_text=True, prepared=options.app is None and name in BUILT_IN
    )


@workflow.command("run")
@takes("app", "db", "as_json", "raw")
def run_workflow(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The workflow's name.")],
    goal: Annotated[list[str] | None, typer.Argument(metavar="GOAL", help=_TEXT)] = None,
    tenant: Annotated[str, typer.Option(metavar="TENANT", help="The tenant on whose behalf it works.")] = "",
) -> Execute:
    """Start a workflow of your Runtime, which --app names, and show its steps. It waits for your approvals."""
    from .commands.workflow import run_workflow as command
    from .program import start_runs

    return partial(start_runs, partial(command, name, tenant), goal, needs_text=True, prepared=False)


@workflow.command("show")
@takes("db", "as_json")
def show_workflow(run: RunId) -> Execute:
    """Show the steps of a run: their state, notes and what they wait for."""
    from .commands.workflow import show_workflow as command

    return on_stored_runs(partial(command, run), read_only=True)


@workflow.command("resume")
@takes("app", "db", "as_json", "raw")
def resume_workflow(run: RunId) -> Execute:
    """Answer what a run waits for, at a terminal, and continue it."""
    from .commands.workflow import resume_workflow as command

    return on_stored_runs(partial(command, run))


@new.callback()
def _new() -> None:
    """Keep `agent` a command of the group, which has only one."""


@new.command("agent")
@takes()
def new_agent(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Its name: lower-case letters, digits and '_'.")],
) -> Execute:
    """Write an agent and its test into this folder: NAME.py and test_NAME.py."""
    from .commands.new import new_agent as command
    from .program import exit_status
    from .render.console import Console

    return lambda _: exit_status(partial(command, name), Console(as_json=False))


ScheduleId = Annotated[str, typer.Argument(metavar="SCHEDULE", help="Its id; schedule list prints it.")]


@schedule.command("list")
@takes("db", "as_json")
def list_schedules(
    limit: Annotated[int, typer.Option(metavar="N", min=1, help="Maximum number of schedules.")] = 100,
) -> Execute:
    """List schedules, oldest first, with their next times."""
    from .commands.schedules import list_schedules as command

    return on_stored_runs(partial(command, limit), read_only=True)


@schedule.command("add")
@takes("app", "corpus", "model", "context", "db", "as_json", group=ScheduleOptions)
def add_schedule(given: ScheduleOptions) -> Execute:
    """Send a message to an agent at given times. A process that serves or works with the agent starts the runs."""
    from .program import start_runs

    async def command(_: object, context: CommandContext) -> int:
        from .commands.schedules import add_schedule as add

        return await add(given, context)

    return lambda options: start_runs(command, (), options, needs_text=False, prepared=options.app is None)


@schedule.command("pause")
@takes("db", "as_json")
def pause_schedule(schedule_id: ScheduleId) -> Execute:
    """Start nothing until it is resumed."""
    from .commands.schedules import change_schedule

    return on_stored_runs(partial(change_schedule, "paused", schedule_id))


@schedule.command("resume")
@takes("db", "as_json")
def resume_schedule(schedule_id: ScheduleId) -> Execute:
    """Continue a paused schedule with its next time."""
    from .commands.schedules import change_schedule

    return on_stored_runs(partial(change_schedule, "resumed", schedule_id))


@schedule.command("delete")
@takes("db", "as_json")
def delete_schedule(schedule_id: ScheduleId) -> Execute:
    """Erase a schedule; the runs that it has started stay."""
    from .commands.schedules import change_schedule

    return on_stored_runs(partial(change_schedule, "deleted", schedule_id))
