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
from .orchestrator.limits import Limits
from .orchestrator.outcome import Allow, DataPolicy, Deny, Fail, Finish, GoOn, Special, Turn
from .orchestrator.run import Run
from .tools.context import Session, ToolContext
from .tools.function import tool
from .tools.port import Tool, ToolResult
from .tools.registry import ToolRegistry
from .usage import Tokens, UsageRecord

__all__ = [
    "AgentConfig",
    "Allow",
    "AssistantMessage",
    "Attachment",
    "Chat",
    "ConcertinoError",
    "DataPolicy",
    "Deny",
    "Fail",
    "Finish",
    "GoOn",
    "HookError",
    "Limits",
    "Message",
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
    "ToolError",
    "ToolMessage",
    "ToolOrchestrator",
    "ToolRegistry",
    "ToolResult",
    "Turn",
    "UsageRecord",
    "UserMessage",
    "__version__",
    "tool",
]
