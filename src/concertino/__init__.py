"""concertino: an orchestration engine for chat products.

The public names. Nothing is computed here, and no vendor's SDK is loaded.
"""

from ._version import __version__
from .errors import ConcertinoError, HookError, RunError, ToolError
from .events import RunEvent, RunResult
from .messages import AssistantMessage, Message, SystemMessage, ToolCall, ToolMessage, UserMessage
from .orchestrator.agent import AgentConfig
from .orchestrator.chat import Attachment, Chat
from .orchestrator.engine import ToolOrchestrator
from .orchestrator.journal.data_policy import DataPolicy, KeepFor, ToolData
from .orchestrator.outcome import Allow, Ask, Continue, Deny, Fail, Finish, NextStep, Special, Turn
from .orchestrator.resources import Limits, Resources, limits_within
from .orchestrator.run import RunContext
from .storage.types import Budget
from .tools.base import Done, NotDone, Pending, Session, Tool, ToolContext, ToolResult
from .tools.function import tool
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
    "Continue",
    "DataPolicy",
    "Deny",
    "Done",
    "Fail",
    "Finish",
    "HookError",
    "KeepFor",
    "Limits",
    "Message",
    "NextStep",
    "NotDone",
    "Pending",
    "Resources",
    "RunContext",
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
