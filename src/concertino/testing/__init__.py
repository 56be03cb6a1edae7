"""The test kit: a scripted model, HTTP recordings and fault injection, to test agents without a paid model."""

from .case import CassetteError
from .cassettes import Cassette, cassette, recording, replaying
from .faults import FaultyModel, FaultyStore, FaultyTool, Points
from .scripted import Answer, ScriptedModel, asks_for_summary, call

__all__ = [
    "Answer",
    "Cassette",
    "CassetteError",
    "FaultyModel",
    "FaultyStore",
    "FaultyTool",
    "Points",
    "ScriptedModel",
    "asks_for_summary",
    "call",
    "cassette",
    "recording",
    "replaying",
]
