"""The test kit: a scripted model, HTTP recordings and fault injection, to test agents without a paid model."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .case import CassetteError
from .cassettes import Cassette, cassette, recording, replaying
from .faults import FaultyModel, FaultyStore, FaultyTool, Points
from .scripted import Answer, ScriptedModel, asks_for_summary, call

if TYPE_CHECKING:
    from .conformance import SCENARIOS, Conformance, ConformanceModel, TypedConformance

_CONFORMANCE = ("SCENARIOS", "Conformance", "ConformanceModel", "TypedConformance")
"""Names that are imported on first use: they need the agents."""

__all__ = [
    "SCENARIOS",
    "Answer",
    "Cassette",
    "CassetteError",
    "Conformance",
    "ConformanceModel",
    "FaultyModel",
    "FaultyStore",
    "FaultyTool",
    "Points",
    "ScriptedModel",
    "TypedConformance",
    "asks_for_summary",
    "call",
    "cassette",
    "recording",
    "replaying",
]


def __getattr__(name: str) -> Any:
    if name not in _CONFORMANCE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(".conformance", __name__), name)
