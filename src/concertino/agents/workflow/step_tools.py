"""The engine's own tools: what completes a step, asks a person, and records a fact. They have no effects."""

from __future__ import annotations

from typing import Any

from ...messages import ToolCall
from ...orchestrator.agent import read_arguments
from ...tools.base import Effect, Pending, Tool, ToolContext, ToolResult

COMPLETE = "complete_step"
ASK_PERSON = "ask_person"
REVIEW_PLAN = "review_plan"
OUTSIDE = "perform_step"
RECORD_FACT = "record_fact"
HIDDEN = (ASK_PERSON, REVIEW_PLAN, OUTSIDE)
"""Tools that only the engine calls. No model sees them."""
LEAST_NOTES = 50
"""Characters of the shortest notes."""
MOST_CONTEXT = 50_000
"""Characters of the largest context updates, as JSON."""
APPROVED = "approved"


class _EngineTool(Tool):
    """A tool whose result is its arguments: the agent acts on them once the turn's other calls have ended."""

    effect: Effect = "read"
    counts_as_iteration = False
    timeout = None

    def execute(self, arguments: dict[str, Any], context: ToolContext) -> Any:
        """Return the arguments."""
        return ToolResult("noted", data=arguments)


class CompleteStep(_EngineTool):
    """Completes the current step. It runs after all other calls of its turn."""

    name = COMPLETE
    exclusive = True
    description = (
        "Complete the current step. Call it when the work of the step is done and you have read its results, alone or "
        "as the last call of a turn."
    )
    parameters = {  # noqa: RUF012 - a constant
        "type": "object",
        "properties": {
            "notes": {
                "type": "string",
                "minLength": LEAST_NOTES,
                "description": "What was done and found, in Markdown; later steps and people read it",
            },
            "context": {"type": "object", "description": "The variables that the step sets, by name"},
        },
        "required": ["notes"],
        "additionalProperties": False,
    }


class AskPerson(_EngineTool):
    """A question to a person: an approval whose arguments may be edited."""

    name = ASK_PERSON
    description = "A question of the workflow to a person."
    parameters = {  # noqa: RUF012 - as above
        "type": "object",
        "properties": {"question": {"type": "string"}, "answer": {"type": "string"}},
        "additionalProperties": False,
    }

    def execute(self, arguments: dict[str, Any], context: ToolContext) -> Any:
        """Return the answer that the person has given by approving the call."""
        answer = arguments.get("answer") or APPROVED
        return ToolResult(answer, data={"answer": answer})


class ReviewPlan(_EngineTool):
    """A plan for a person to approve, edit or deny."""

    name = REVIEW_PLAN
    description = "A plan that a person reviews."
    parameters = {  # noqa: RUF012 - as above
        "type": "object",
        "properties": {"items": {"type": "array", "items": {"type": "object"}}},
        "required": ["items"],
        "additionalProperties": False,
    }


class PerformStep(_EngineTool):
    """A step that an outside agent does; its result is the completion."""

    name = OUTSIDE
    remote = True
    description = "A step that an outside agent does."
    parameters = {  # noqa: RUF012 - as above
        "type": "object",
        "properties": {"step": {"type": "string"}, "prompt": {"type": "string"}, "sets": {"type": "object"}},
        "additionalProperties": False,
    }

    def execute(self, arguments: dict[str, Any], context: ToolContext) -> Any:
        """Wait for the completion."""
        return Pending(note=arguments.get("step", ""))


class RecordFact(_EngineTool):
    """Records the content of a source, for this run and later runs."""

    name = RECORD_FACT
    description = "Record a fact that a file or another source shows, so that later runs need not read it again."
    parameters = {  # noqa: RUF012 - as above
        "type": "object",
        "properties": {
            "source": {"type": "string", "minLength": 1, "description": "The path of the file"},
            "text": {"type": "string", "minLength": 1, "maxLength": 4000},
        },
        "required": ["source", "text"],
        "additionalProperties": False,
    }


def arguments_of(call: ToolCall) -> dict[str, Any]:
    """Return the arguments of a call that has passed validation."""
    return read_arguments(call)
