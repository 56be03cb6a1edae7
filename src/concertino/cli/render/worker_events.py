"""The events of workers in the form that people read."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from ...events import CustomEvent
from .format import money, one_line, tokens

_WIDTH = 200


def worker_note(event: CustomEvent) -> str:
    """Describe an event of a worker; "" for all others."""
    data: Any = event.data
    try:
        match event.name:
            case "worker.pre_enrichment":
                names = ", ".join(f"{each['tool']}{'' if each['ok'] else ' (failed)'}" for each in data["tools"])
                return one_line(f"known before pass 1: {names or 'nothing'}", _WIDTH)
            case "worker.pass":
                spent = f"{tokens(data['tokens'])}, {money(Decimal(data['cost']))}"
                return one_line(f"pass {data['number']} of {data['of']}: {data['model']}, {spent} so far", _WIDTH)
            case "worker.decision":
                updates = "; ".join(f"{section}: {text}" for section, text in data["document"].items())
                repaired = " (repaired)" if data["repairs"] else ""
                return one_line(f"confidence {data['confidence']}{repaired}. {updates}".rstrip(". "), _WIDTH)
            case "worker.escalated":
                return one_line(f"escalated to {data['model']}: {data['reason']}", _WIDTH)
            case "worker.ended":
                return one_line(f"loop ended: {data['reason']}", _WIDTH)
    except (KeyError, TypeError, ValueError, ArithmeticError, AttributeError):
        pass  # another product's event of the same name
    return ""
