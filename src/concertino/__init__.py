"""concertino: an orchestration engine for chat products.

The public names. A name that needs more than the engine, such as `SqliteStore` or `open_model`, is imported when it is
first used. No vendor's SDK is loaded before a model of that vendor is created.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ._version import __version__
from .errors import ConcertinoError, HookError, RunError, ToolError
from .events import RunEvent, RunResult
from .messages import AssistantMessage, ForcedTool, Message, SystemMessage, Text, ToolCall, ToolMessage, UserMessage
from .orchestrator import (
    AgentConfig,
    Allow,
    Ask,
    Attachment,
    Chat,
    Continue,
    DataPolicy,
    Deny,
    Fail,
    Finish,
    KeepFor,
    Limits,
    NextStep,
    Outcome,
    Part,
    Pattern,
    Resources,
    Retry,
    RunContext,
    Special,
    ToolData,
    ToolOrchestrator,
    Turn,
    limits_within,
)
from .providers import Model, ModelRequest, RateLimit
from .scope import OPERATOR, AnyScope, Operator, Scope, TenantScope
from .storage import Budget
from .token_engine import Retention, SummaryStyle
from .tools import Done, NotDone, Pending, Tool, ToolContext, ToolRegistry, ToolResult, tool
from .usage import Receipt, Tokens, UsageRecord

if TYPE_CHECKING:
    from .agents.agent_tool import delegate
    from .providers import SharedRateLimit
    from .runtime import Conversation, LiveRun, Runtime
    from .storage import MemoryStore, SqliteStore
    from .wiring import Models, open_model

_LAZY = {
    "Conversation": "runtime",
    "LiveRun": "runtime",
    "MemoryStore": "storage",
    "Models": "wiring",
    "Runtime": "runtime",
    "SharedRateLimit": "providers",
    "SqliteStore": "storage",
    "delegate": "agents",
    "open_model": "wiring",
}
"""Names that are imported on first use, and the modules that define them."""

__all__ = [
    "OPERATOR",
    "AgentConfig",
    "Allow",
    "AnyScope",
    "Ask",
    "AssistantMessage",
    "Attachment",
    "Budget",
    "Chat",
    "ConcertinoError",
    "Continue",
    "Conversation",
    "DataPolicy",
    "Deny",
    "Done",
    "Fail",
    "Finish",
    "ForcedTool",
    "HookError",
    "KeepFor",
    "Limits",
    "LiveRun",
    "MemoryStore",
    "Message",
    "Model",
    "ModelRequest",
    "Models",
    "NextStep",
    "NotDone",
    "Operator",
    "Outcome",
    "Part",
    "Pattern",
    "Pending",
    "RateLimit",
    "Receipt",
    "Resources",
    "Retention",
    "Retry",
    "RunContext",
    "RunError",
    "RunEvent",
    "RunResult",
    "Runtime",
    "Scope",
    "SharedRateLimit",
    "Special",
    "SqliteStore",
    "SummaryStyle",
    "SystemMessage",
    "TenantScope",
    "Text",
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
    "delegate",
    "limits_within",
    "open_model",
    "tool",
]


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f".{_LAZY[name]}", __name__), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
