"""The test kit: a scripted model, HTTP recordings, fault injection and a check of agents, all without a paid model."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .case import CassetteError
from .cassettes import Cassette, cassette, recording, replaying
from .faults import FaultyModel, FaultyStore, FaultyTool, Points
from .scripted import Answer, ScriptedModel, asks_for_summary, call

if TYPE_CHECKING:
    from .agent_check import check_agent
    from .checks.fault import AgentFaultError, CheckReport, Fault, FaultClass
    from .port_checks import check_model, check_tool

_LAZY = {
    "AgentFaultError": "checks.fault",
    "CheckReport": "checks.fault",
    "Fault": "checks.fault",
    "FaultClass": "checks.fault",
    "check_agent": "agent_check",
    "check_model": "port_checks",
    "check_tool": "port_checks",
}
"""Names that need the runtime, which is slow to import, and the modules that define them."""

__all__ = [
    "AgentFaultError",
    "Answer",
    "Cassette",
    "CassetteError",
    "CheckReport",
    "Fault",
    "FaultClass",
    "FaultyModel",
    "FaultyStore",
    "FaultyTool",
    "Points",
    "ScriptedModel",
    "asks_for_summary",
    "call",
    "cassette",
    "check_agent",
    "check_model",
    "check_tool",
    "recording",
    "replaying",
]


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f".{_LAZY[name]}", __name__), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
