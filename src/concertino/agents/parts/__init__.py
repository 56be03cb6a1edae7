"""Ready-made parts of agents."""

from .approvals import Approvals
from .guardrails import Block, InputGuardrail, Judgment, OutputGuardrail, ToolGuardrail
from .memory_part import UserMemory
from .redaction_part import Redaction
from .retrieval import Documents, Research

__all__ = [
    "Approvals",
    "Block",
    "Documents",
    "InputGuardrail",
    "Judgment",
    "OutputGuardrail",
    "Redaction",
    "Research",
    "ToolGuardrail",
    "UserMemory",
]
