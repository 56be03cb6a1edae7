"""The events of workflows, and the state of their steps, in the form that people read."""

from __future__ import annotations

from typing import Any

from ...events import CustomEvent
from .format import one_line

_WIDTH = 200


def workflow_note(event: CustomEvent) -> str:
    """Describe an event of a workflow; "" for all others."""
    data: Any = event.data
    text = ""
    try:
        match event.name:
            case "workflow.complexity":
                text = f"complexity: {data['level']}"
            case "workflow.step":
                text = f"step {data['number']}: {data['step']} ({data['kind']})"
            case "workflow.plan":
                problem = f", refused: {data['problem']}" if data["problem"] else ""
                text = f"plan of {len(data['items'])} items{problem}"
            case "workflow.verdict":
                text = f"verifier: {data['assessment']}. {data['instruction'] or data['reasoning']}"
            case "workflow.completed":
                by = f" (accepted by {data['by']})" if data["by"] else ""
                text = f"completed {data['step']}{by}: {data['notes']}"
            case "agent.stuck":
                text = f"stuck, {data['kind']}: {'; '.join(data['evidence'])}"
    except (KeyError, TypeError, AttributeError):
        pass  # another product's event of the same name
    return one_line(text, _WIDTH)
