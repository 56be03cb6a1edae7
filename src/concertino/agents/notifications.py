"""Notifications: tell a person when a run has ended, waits or is stuck."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterable
from typing import Any, Literal, Protocol

from ..events import CallWaiting, CustomEvent, RunEnded, RunEvent
from ..records import record

log = logging.getLogger("concertino")


@record(kw_only=True)
class Notification:
    """A message to a person about a run."""

    kind: Literal["ended", "waits", "stuck"]
    run_id: str
    agent_path: str
    text: str
    """The status and answer, the question, or the evidence."""
    key: str = ""
    """For `waits`: the key to answer the wait by."""
    number: int = 0
    """The number of the event; with the run's id, it is the same each time, so that a channel can drop repetitions."""


class Notifier(Protocol):
    """The port of a channel, such as mail or chat."""

    async def notify(self, notification: Notification) -> None:
        """Deliver *notification*."""
        ...


async def notify_about(events: AsyncIterable[tuple[int, RunEvent]], notifier: Notifier) -> None:
    """Notify about the *events* of a run, such as those of `Runtime.events`, until they end.

    Of sub-agents, only what waits or is stuck is reported. A failure of the channel is logged; the run never notices.
    """
    async for number, event in events:
        found = notification_of(event, number)
        if found is None:
            continue
        try:
            await notifier.notify(found)
        except Exception as error:  # noqa: BLE001 - a channel may raise anything
            log.error("notification %s of run %s failed: %s", found.kind, found.run_id, type(error).__name__)  # noqa: TRY400 - a traceback may show the text


def notification_of(event: RunEvent, number: int = 0) -> Notification | None:
    """Return the notification about *event*; None for an event that needs none."""
    about: dict[str, Any] = {"run_id": event.run_id, "agent_path": event.agent_path, "number": number}
    match event:
        case RunEnded(result=result) if "/" not in event.agent_path and result.status != "suspended":
            text = f"{result.status}: {result.error or result.text}"
            return Notification(kind="ended", text=text, **about)
        case CallWaiting():
            return Notification(kind="waits", text=event.note or event.name, key=event.key, **about)
        case CustomEvent(name="agent.stuck", data={"kind": kind, "evidence": [*evidence]}):
            return Notification(kind="stuck", text=f"{kind}: {'; '.join(map(str, evidence))}", **about)
        case _:
            return None
