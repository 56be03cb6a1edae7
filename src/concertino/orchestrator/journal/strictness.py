"""The strictest of several data policies, field by field."""

from __future__ import annotations

from .data_policy import DataPolicy, KeepFor, ToolData, Treatment


def strictest(first: DataPolicy, second: DataPolicy) -> DataPolicy:
    """Return the policy that treats each field as the stricter of two policies does.

    The patterns of both apply. From lenient to strict: `keep`, `KeepFor` (the longer first), `hash`, `redact`, `drop`.
    """

    def both(name: str) -> ToolData:
        return tool_data(first.tool(name), second.tool(name))

    def tool_data(one: ToolData, other: ToolData) -> ToolData:
        return ToolData(
            arguments=_stricter_of(one.arguments, other.arguments), results=_stricter_of(one.results, other.results)
        )

    named = {*first.named_tools, *second.named_tools}
    by_function = callable(first.tools) or callable(second.tools)
    return DataPolicy(
        text=_stricter_of(first.text, second.text),
        reasoning=_stricter_of(first.reasoning, second.reasoning),
        media=_stricter_of(first.media, second.media),
        tools=both if by_function else {name: both(name) for name in named},
        other_tools=tool_data(first.other_tools, second.other_tools),
        keep_whole_results=first.keep_whole_results and second.keep_whole_results,
        hash_key=first.hash_key or second.hash_key,
        patterns=tuple(dict.fromkeys([*first.patterns, *second.patterns])),
    )


def _stricter_of(one: Treatment, other: Treatment) -> Treatment:
    return max(one, other, key=_strictness)


def _strictness(how: Treatment) -> tuple[int, float]:
    if isinstance(how, KeepFor):
        return 1, -how.seconds
    return {"keep": 0, "hash": 2, "redact": 3, "drop": 4}[how], 0.0
