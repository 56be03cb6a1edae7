"""The texts that a worker sends: a prompt that stays the same, and what changes with each pass behind it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from decimal import Decimal

from ...messages import Message, SystemMessage, UserMessage
from ...tools.base import Tool
from .decision import CONTRACT
from .definition import WorkerContext, WorkerDefinition, rendered
from .worker_state import WorkerState

DOCUMENT_CHARACTERS = 6_000
"""The part of the living document that each pass reads, in characters."""
_NO_DATA = "I could not gather any data for this, so I have no answer: {why}."
_NO_SYNTHESIS = "I could not write an answer ({why}). These are my notes so far:\n\n{notes}"
REASONS = {
    "max_passes": "all passes are used",
    "token_budget": "the tokens for this task are used up",
    "budget_exceeded": "the money for this task is used up",
    "stale_confidence": "the work made no progress",
    "all_tools_duplicate": "all that was left to look up had been looked up",
    "no_tools": "no further step was found",
    "empty_response": "the answer was empty",
}
"""What a person reads for the codes that end a loop."""


def tool_menu(tools: Iterable[Tool]) -> str:
    """Return the tools with their arguments, one a line."""
    return "\n".join(
        f"- {tool.name}({', '.join(_arguments(tool))}): {tool.description.strip()}"
        + (f" {tool.selection_rule.strip()}" if tool.selection_rule else "")
        + ("" if tool.effect == "read" else " [writes]")
        for tool in tools
    )


def _arguments(tool: Tool) -> list[str]:
    required = tool.parameters.get("required", ())
    return [
        f"{name}{'' if name in required else '?'}: {_kind(schema)}{_described(schema)}"
        for name, schema in tool.parameters.get("properties", {}).items()
    ]


def _described(schema: object) -> str:
    text = schema.get("description") if isinstance(schema, dict) else None
    return f" ({text})" if text else ""


def _kind(schema: object) -> str:
    if not isinstance(schema, dict):
        return "any"
    if "enum" in schema:
        return "|".join(json.dumps(each) for each in schema["enum"])
    if "anyOf" in schema:
        return "|".join(map(_kind, schema["anyOf"]))
    kind = str(schema.get("type", "any"))
    return f"{kind} of {_kind(schema['items'])}" if kind == "array" and "items" in schema else kind


def system_prompt(definition: WorkerDefinition, context: WorkerContext) -> str:
    """Return the definition's prompt, the tools unless it names them, and the contract of the decisions."""
    own = rendered(definition.system_prompt, context)
    tools = "" if not context.tools or context.tools in own else f"# Your tools\n{context.tools}"
    sections = f"# The sections of the living document\n{', '.join(definition.sections)}" if definition.sections else ""
    return "\n\n".join(filter(None, (own.strip(), tools, sections, CONTRACT)))


def pass_prompt(state: WorkerState, passes: int, spent: Decimal, budget: Decimal) -> str:
    """Return the last message of a pass: what changes from pass to pass."""
    used = f"{min(spent / budget, Decimal(1)):.0%} of the budget used"
    lines = [f"# Pass {state.passes} of {passes} · {passes - state.passes} left after it · {used}"]
    if state.unreadable:
        lines.append(f"Your last answer could not be read: {state.unreadable}. Answer with the JSON of one decision.")
    if state.repeated:
        lines.append(f"Not run again, because these calls have run before: {', '.join(state.repeated)}.")
    document = state.document.text(characters=DOCUMENT_CHARACTERS)
    lines.append(f"# Living document\n{document or 'Empty.'}")
    lines.append("Decide what to do next. Return JSON.")
    enriched = [state.enriched] if state.enriched and state.passes == 1 else []
    return "\n\n".join([*enriched, *lines])


def synthesis(definition: WorkerDefinition, context: WorkerContext) -> str:
    """Return the system prompt for an answer that is written after the loop."""
    own = rendered(definition.synthesis_prompt, context).strip()
    return own or f"You are {definition.name}. Answer the user from the data below, in Markdown."


def synthesis_question(messages: Sequence[Message], state: WorkerState, why: str, characters: int) -> list[Message]:
    """Return the newest messages within *characters*, and what else was gathered."""
    kept: list[Message] = []
    for message in reversed(messages):
        characters -= len(getattr(message, "text", "") or getattr(message, "content", ""))
        if characters < 0 and kept:
            break
        kept.insert(0, message)
    while kept and not isinstance(kept[0], UserMessage):
        kept.pop(0)
    document = state.document.text(characters=4 * DOCUMENT_CHARACTERS)
    question = (
        f"# Living document\n{document or 'Empty.'}",
        state.enriched,
        f"The work has ended: {why}. Answer the user now, in Markdown and not in JSON, with the data above and nothing "
        "else. Say what is missing.",
    )
    return [*kept, SystemMessage("\n\n".join(filter(None, question)))]


def nothing_gathered(why: str) -> str:
    """Return the answer of a worker that has no results."""
    return _NO_DATA.format(why=why)


def not_synthesized(state: WorkerState, why: str) -> str:
    """Return the answer of a worker whose results no model could put into words."""
    return _NO_SYNTHESIS.format(why=why, notes=state.document.text() or "None.")
