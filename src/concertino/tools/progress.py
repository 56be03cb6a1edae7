"""Progress: the steps that a tool shows to the user while it works."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import Any

# A tool in an endless loop must fill neither the memory nor the store.
_MOST_STEPS = 100
_MOST_PARTS = 100
_LONGEST_PART = 2_000


class ProgressStep:
    """A named step of progress. Use it as a context manager, or call `end`."""

    __slots__ = ("_emit", "ended", "icon", "id", "name", "parts")

    def __init__(self, id: int, name: str, icon: str, emit: Callable[[dict[str, Any]], None]) -> None:
        self.id = id
        # Convert here: the journal stores text only, and progress must never be the reason that a tool fails.
        self.name = str(name)[:_LONGEST_PART]
        self.icon = str(icon)[:_LONGEST_PART]
        self.parts: list[str] = []
        self.ended = False
        self._emit = emit
        emit(self.serialize())

    def send(self, *parts: str) -> None:
        """Add lines of text to the step: it keeps the last 100, and 2,000 characters of each."""
        self.parts.extend([str(part)[:_LONGEST_PART] for part in parts[-_MOST_PARTS:]])
        del self.parts[:-_MOST_PARTS]
        self._emit(self.serialize())

    def end(self) -> None:
        """Mark the step as ended. Ending it again does nothing."""
        if not self.ended:
            self.ended = True
            self._emit(self.serialize())

    def serialize(self) -> dict[str, Any]:
        """Return the step as JSON values."""
        return {
            "id": self.id,
            "name": self.name,
            "icon": self.icon,
            "parts": list(self.parts),
            "ended": self.ended,
        }

    def __enter__(self) -> ProgressStep:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end()


class Progress:
    """The progress steps of one tool call. Every change emits an event; the steps are stored with the result."""

    __slots__ = ("_begun", "_emit", "_steps")

    def __init__(self, emit: Callable[[dict[str, Any]], None]) -> None:
        self._emit = emit
        self._steps: list[ProgressStep] = []
        self._begun = 0

    def begin(self, name: str, icon: str = "") -> ProgressStep:
        """Begin a step called *name*; *icon* is a name that the front end knows. A call keeps its last 100 steps."""
        self._begun += 1
        step = ProgressStep(self._begun, name, icon, self._emit)
        self._steps.append(step)
        del self._steps[:-_MOST_STEPS]
        return step

    def end(self) -> None:
        """End all open steps."""
        for step in self._steps:
            step.end()

    def serialize(self) -> list[dict[str, Any]]:
        """Return all steps as JSON values, in the order in which they began."""
        return [step.serialize() for step in self._steps]
