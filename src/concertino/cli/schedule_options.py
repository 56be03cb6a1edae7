"""The options of `concertino schedule add`."""

from __future__ import annotations

from typing import Annotated

import typer

from ..records import record
from ..storage.schedule_types import Missed


@record(kw_only=True)
class ScheduleOptions:
    """The message, its receiver and its times."""

    agent: Annotated[str, typer.Argument(metavar="AGENT", help="The agent that gets the message.")]
    message: Annotated[str, typer.Argument(metavar="MESSAGE", help="The message, in quotes.")]
    at: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="One time: ISO 8601 with its zone, such as 2027-01-31T09:00+01:00."),
    ] = None
    cron: Annotated[
        str | None, typer.Option(metavar="FIELDS", help="Repeated times: a cron expression, such as '0 9 * * mon-fri'.")
    ] = None
    zone: Annotated[str, typer.Option(metavar="ZONE", help="The time zone of --cron, such as Europe/Berlin.")] = "UTC"
    missed: Annotated[
        Missed, typer.Option(help="What becomes of times of --cron that passed while no process looked.")
    ] = "once"
    conversation: Annotated[
        str, typer.Option(metavar="ID", help="The conversation that gets the messages. Default: each begins a new one.")
    ] = ""
    tenant: Annotated[str, typer.Option(metavar="TENANT", help="The tenant on whose behalf the agent works.")] = ""
    user: Annotated[str | None, typer.Option(metavar="USER", help="The user. Default: your login name.")] = None
