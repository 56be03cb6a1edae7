"""The stored form of a data policy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .data_policy import DataPolicy, KeepFor, ToolData, Treatment
from .patterns import Pattern


def policy_form(policy: DataPolicy) -> list[Any]:
    """Return *policy* as JSON without its secret, so that a run can be ended in a process without its agent."""
    treatments = [how.seconds if isinstance(how, KeepFor) else how for how in policy._treatments()]
    known = None if policy.known_tools is None else sorted(policy.known_tools)
    form = [treatments, list(policy.named_tools), policy.keep_whole_results, known]
    if policy.patterns:
        form.append([[each.name, each.pattern, each.characters, each.longest] for each in policy.patterns])
    return form


def policy_of(form: Sequence[Any]) -> DataPolicy:
    """Restore a policy from `policy_form`. It redacts instead of hashing, since the secret is not stored."""
    written, names, whole, tools_of_run, *patterns = form
    known: dict[Any, Treatment] = {"keep": "keep", "redact": "redact", "hash": "redact", "drop": "drop"}
    text, reasoning, media, *rest = [known[how] if how in known else KeepFor(how) for how in written]
    other, *tools = [ToolData(arguments=a, results=r) for a, r in zip(rest[::2], rest[1::2], strict=True)]
    named = dict(zip(names, tools, strict=True))
    return DataPolicy(
        text=text,
        reasoning=reasoning,
        media=media,
        tools=named,
        other_tools=other,
        keep_whole_results=whole,
        known_tools=None if tools_of_run is None else frozenset(tools_of_run),
        patterns=[Pattern(*pattern) for each in patterns for pattern in each],
    )
