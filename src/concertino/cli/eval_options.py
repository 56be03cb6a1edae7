"""The options of `concertino eval`."""

from __future__ import annotations

from typing import Annotated

import typer

from ..records import record


@record(kw_only=True)
class EvalOptions:
    """The options of `concertino eval` in addition to the shared ones."""

    cases: Annotated[
        str | None, typer.Argument(metavar="CASES", help="A file of cases: .jsonl, .json, .yaml or .csv.")
    ] = None
    stored: Annotated[
        bool, typer.Option("--stored", help="The agent's completed runs are the cases: at most 100, the newest.")
    ] = False
    conversation: Annotated[
        str | None, typer.Option(metavar="ID", help="The completed turns of this conversation are the cases.")
    ] = None
    agent: Annotated[
        str | None, typer.Option(metavar="NAME", help="The agent. Default: the only one, or main_thread.")
    ] = None
    score: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="completed, exact, contains, same_json, calls, or your own function as MODULE:NAME. Repeatable. "
            "Default: completed, and contains if each case expects something.",
        ),
    ] = None
    judge: Annotated[
        list[str] | None, typer.Option(metavar="CRITERION", help="A model grades each answer by it. Repeatable.")
    ] = None
    judge_model: Annotated[
        str | None, typer.Option(metavar="PROVIDER:MODEL", help="The model of the judges. Default: the agent's.")
    ] = None
    repeats: Annotated[int, typer.Option(metavar="N", min=1, help="Runs of each case.")] = 1
    sample: Annotated[int | None, typer.Option(metavar="N", min=1, help="Only N cases, chosen by the seed.")] = None
    seed: Annotated[int, typer.Option(metavar="N", min=0, help="Determines the sample and the resamples.")] = 0
    concurrency: Annotated[int, typer.Option(metavar="N", min=1, help="Maximum number of runs at once.")] = 8
    baseline: Annotated[str | None, typer.Option(metavar="FILE", help="Compare with this report.")] = None
    max_drop: Annotated[
        float | None,
        typer.Option(
            metavar="X",
            min=0,
            help="A mean that is lower by more than this is a regression. Default: if the difference is significant.",
        ),
    ] = None
    least: Annotated[
        float | None, typer.Option("--min", metavar="X", min=0, max=1, help="The least mean of each score.")
    ] = None
    save: Annotated[str | None, typer.Option(metavar="FILE", help="Write the report, for a later --baseline.")] = None
    record: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Store the runs in this SQLite file, for runs show and runs test."),
    ] = None
