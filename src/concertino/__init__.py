"""concertino: an orchestration engine for chat products.

The public names. Nothing is computed here, and no vendor's SDK is loaded.
"""

from ._version import __version__
from .errors import ConcertinoError, HookError, RunError, ToolError
from .events import RunEvent, RunResult
from .messages import AssistantMessage, Message, SystemMessage, ToolCall, ToolMessage, UserMessage
from .orchestrator.chat import Attachment, Chat
from .orchestrator.config import AgentConfig
from .orchestrator.engine import ToolOrchestrator
from .orchestrator.limits import Limits, limits_within
from .orchestrator.outcome import Allow, Ask, Deny, Fail, Finish, GoOn, Special, Turn
from .orchestrator.policy import DataPolicy, KeepFor, ToolData
from .orchestrator.run import Run
from .storage.values import Budget
from .tools.context import Session, ToolContext
from .tools.function import tool
from .tools.port import Done, NotDone, Pending, Tool, ToolResult
from .tools.registry import ToolRegistry
from .usage import Tokens, UsageRecord

__all__ = [
    "AgentConfig",
    "Allow",
    "Ask",
    "AssistantMessage",
    "Attachment",
    "Budget",
    "Chat",
    "ConcertinoError",
    "DataPolicy",
    "Deny",
    "Done",
    "Fail",
    "Finish",
    "GoOn",
    "HookError",
    "KeepFor",
    "Limits",
    "Message",
    "NotDone",
    "Pending",
    "Run",
    "RunError",
    "RunEvent",
    "RunResult",
    "Session",
    "Special",
    "SystemMessage",
    "Tokens",
    "Tool",
    "ToolCall",
    "ToolContext",
    "ToolData",
    "ToolError",
    "ToolMessage",
    "ToolOrchestrator",
    "ToolRegistry",
    "ToolResult",
    "Turn",
    "UsageRecord",
    "UserMessage",
    "__version__",
    "limits_within",
    "tool",
]
