"""Tools: the port, tools made from functions, and the registry of an agent.

Ready-made tools are in `concertino.tools.builtin`, web search and fetch in `concertino.tools.web`, tables in
`concertino.tools.sql`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .base import DEFAULT_TIMEOUT, Done, Effect, NotDone, Pending, Tool, ToolContext, ToolResult, Work
from .function import FunctionTool, Probe, tool
from .progress import Progress, ProgressStep
from .registry import BASE_PROMPT, ToolRegistry
from .threads import run_in_thread

if TYPE_CHECKING:
    from .ask_settings import AskSettings
    from .library import Hit, Library, Page, Source, source_id
    from .preset_values import preset
    from .tables import QueryRows, Tables

__all__ = [
    "BASE_PROMPT",
    "DEFAULT_TIMEOUT",
    "AskSettings",
    "Done",
    "Effect",
    "FunctionTool",
    "Hit",
    "Library",
    "NotDone",
    "Page",
    "Pending",
    "Probe",
    "Progress",
    "ProgressStep",
    "QueryRows",
    "Source",
    "Tables",
    "Tool",
    "ToolContext",
    "ToolRegistry",
    "ToolResult",
    "Work",
    "preset",
    "run_in_thread",
    "source_id",
    "tool",
]


def __getattr__(name: str) -> Any:
    if name == "AskSettings":
        from .ask_settings import AskSettings  # noqa: PLC0415 - a TypedDict is slow to define

        return AskSettings
    if name == "preset":
        from .preset_values import preset  # noqa: PLC0415 - few tools have preset values

        return preset
    # Only programs that search or analyse need these ports.
    if name in ("Hit", "Library", "Page", "Source", "source_id"):
        from . import library  # noqa: PLC0415

        return getattr(library, name)
    if name in ("QueryRows", "Tables"):
        from . import tables  # noqa: PLC0415

        return getattr(tables, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
