"""The trace that a run belongs to: observers know it, and the journal keeps it for other processes."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from .chat import Chat
from .event_stream import Observer


@runtime_checkable
class Tracing(Protocol):
    """An observer that also knows traces. Both methods return the value of a W3C header `traceparent`."""

    def traceparent(self) -> str:
        """Return the trace of the code that is running; empty outside of traces."""

    def begin(self, agent: str) -> str:
        """Begin the trace of a run of *agent* that starts outside of traces. Its `RunStarted` follows, if it starts."""


def current_trace(chat: Chat, observers: Sequence[Observer]) -> Chat:
    """Return *chat* in the trace of the code that is running, unless it has one, or no observer knows one."""
    if not chat.traceparent:
        for observer in observers:
            if isinstance(observer, Tracing) and (found := observer.traceparent()):
                return dataclasses.replace(chat, traceparent=found)
    return chat


def traced(chat: Chat, observers: Sequence[Observer], agent: str) -> Chat:
    """Return the *chat* of a run that starts, in the current trace or a new one if an observer knows traces."""
    chat = current_trace(chat, observers)
    if not chat.traceparent:
        for observer in observers:
            if isinstance(observer, Tracing):
                return dataclasses.replace(chat, traceparent=observer.begin(agent))
    return chat
