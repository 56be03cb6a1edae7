"""Tools: the port, tools made from functions, and the registry of an agent.

Ready-made tools are in `concertino.tools.builtin`, web search and fetch in `concertino.tools.web`.
"""

from .base import DEFAULT_TIMEOUT, Done, Effect, NotDone, Pending, Session, Tool, ToolContext, ToolResult
from .function import FunctionTool, Probe, tool
from .progress import Progress, ProgressStep
from .registry import BASE_PROMPT, ToolRegistry

__all__ = [
    "BASE_PROMPT",
    "DEFAULT_TIMEOUT",
    "Done",
    "Effect",
    "FunctionTool",
    "NotDone",
    "Pending",
    "Probe",
    "Progress",
    "ProgressStep",
    "Session",
    "Tool",
    "ToolContext",
    "ToolRegistry",
    "ToolResult",
    "tool",
]
