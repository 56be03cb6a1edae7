"""A run as plain lines, for pipes, log files and terminals that cannot redraw."""

from __future__ import annotations

import time
from collections.abc import Callable

from ... import events
from ...usage import total
from .format import counted, event_note, money, one_line, seconds, subject, tokens, waits_for
from .worker_events import worker_note
from .workflow_events import workflow_note

_WIDTH = 160


class LogView:
    """Writes a line per important event: the agent's path and the event.

    *delegates* names the tools that are agents: their own events report their progress.
    """

    def __init__(
        self,
        write: Callable[[str], None],
        delegates: frozenset[str] = frozenset(),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._write = write
        self._delegates = delegates
        self._clock = clock
        self._started: dict[str, float] = {}
        self._progress: dict[tuple[str, str], str] = {}

    def update(self, event: events.RunEvent) -> None:
        """Write the line for *event*, if it has one."""
        line = self._line(event)
        if line:
            self._write(f"{event.agent_path}: {line}")

    def _line(self, event: events.RunEvent) -> str:
        match event:
            case events.RunStarted():
                self._started[event.run_id] = self._clock()
                return ("resumed: " if event.resumed else "started: ") + one_line(event.task, _WIDTH)
            case events.ToolStarted() | events.ToolProgress() | events.ToolDone() | events.ToolFailed():
                delegated = event.name in self._delegates and not isinstance(event, events.ToolFailed)
                return "" if delegated else self._tool(event)
            case events.CallWaiting():
                return _joined(f"{event.name} {waits_for(event.kind)}", event.key)
            case events.RunEnded():
                return self._ended(event.result)
            case events.AttemptFailed() | events.ContextEdited() | events.Steered() | events.Notice():
                return event_note(event)
            case _:
                return (worker_note(event) or workflow_note(event)) if isinstance(event, events.CustomEvent) else ""

    def _tool(self, event: events.ToolStarted | events.ToolProgress | events.ToolDone | events.ToolFailed) -> str:
        key = (event.run_id, event.call_id)
        match event:
            case events.ToolStarted():
                self._progress[key] = one_line(subject(event.arguments), _WIDTH)
                return _joined(event.name, self._progress[key])
            case events.ToolProgress():
                parts = event.step.get("parts") or [""]
                self._progress[key] = one_line(str(parts[-1]), _WIDTH)
                return ""
            case events.ToolDone():
                return _joined(f"{event.name} done", self._progress.pop(key, ""))
            case events.ToolFailed():
                return _joined(f"{event.name} failed", one_line(event.error, _WIDTH))

    def _ended(self, result: events.RunResult) -> str:
        used = total(result.usage)
        started = self._started.pop(result.run_id, self._clock())
        figures = (
            counted(result.tool_call_count, "tool call"),
            tokens(used.tokens.total),
            money(used.cost),
            seconds(self._clock() - started),
        )
        reason = (
            f" ({one_line(result.error, _WIDTH)})" if result.error and result.status in ("limited", "failed") else ""
        )
        return f"{result.status}{reason}: {', '.join(figures)}"


def _joined(what: str, more: str) -> str:
    return f"{what}: {more}" if more else what
