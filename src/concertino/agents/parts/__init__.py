"""Ready-made parts of agents."""

from .approvals import Approvals
from .end_with import EndWith
from .guardrails import InputGuardrail, Judgment, OutputGuardrail, Refusal, ToolGuardrail
from .mcp_part import McpTools
from .memory_part import UserMemory
from .notes import Notes
from .redaction_part import TextRedaction
from .retrieval import Documents, Research
from .skills_part import Skills
from .tool_search import ToolSearch

__all__ = [
    "Approvals",
    "Documents",
    "EndWith",
    "InputGuardrail",
    "Judgment",
    "McpTools",
    "Notes",
    "OutputGuardrail",
    "Refusal",
    "Research",
    "Skills",
    "TextRedaction",
    "ToolGuardrail",
    "ToolSearch",
    "UserMemory",
]
