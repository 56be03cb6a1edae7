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
    from .conformance import SCENARIOS, Conformance, ConformanceModel, TypedConformance
    from .given_results import run_with_results
    from .limited import LimitedModel
    from .port_checks import check_model, check_tool

_LAZY = {
    "SCENARIOS": "conformance",
    "AgentFaultError": "checks.fault",
    "CheckReport": "checks.fault",
    "Conformance": "conformance",
    "ConformanceModel": "conformance",
    "Fault": "checks.fault",
    "FaultClass": "checks.fault",
    "LimitedModel": "limited",
    "TypedConformance": "conformance",
    "check_agent": "agent_check",
    "check_model": "port_checks",
    "check_tool": "port_checks",
    "run_with_results": "given_results",
}
"""Names that are slow to import, or rarely needed, and the modules that define them."""

__all__ = [
    "SCENARIOS",
    "AgentFaultError",
    "Answer",
    "Cassette",
    "CassetteError",
    "CheckReport",
    "Conformance",
    "ConformanceModel",
    "Fault",
    "FaultClass",
    "FaultyModel",
    "FaultyStore",
    "FaultyTool",
    "LimitedModel",
    "Points",
    "ScriptedModel",
    "TypedConformance",
    "asks_for_summary",
    "call",
    "cassette",
    "check_agent",
    "check_model",
    "check_tool",
    "recording",
    "replaying",
    "run_with_results",
]


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f".{_LAZY[name]}", __name__), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
