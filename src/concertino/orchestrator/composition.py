"""Composition: the hooks of an agent's parts, and the agent's own, become one decision each.

The deciders of a hook are in order: the parts as the agent lists them, then the agent. Each hook has one rule:

- *merged*: every decider is asked, and their answers become one. `load_tools`: all tools.
  `prepare`: all messages, in order.
  `should_send_tools`: tools are sent if all agree. `authorize_tool_call`: Deny before Ask before Allow.
  `handle_special_tools`: see `_merge_specials`. `get_data_policy`: the strictest treatment of each field.
- *chained*: every decider gets what the previous one returned. A decision about what happens next ends the chain.
- *single-valued*: every other hook. A second decider is a `ConfigurationError`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial, reduce
from typing import Any, Protocol

from ..errors import ConfigurationError, HookError
from .journal.data_policy import DataPolicy, KeepFor, ToolData, Treatment
from .outcome import Allow, Ask, Continue, Deny, Fail, Finish, Outcome, Special


class Decider(Protocol):
    """The hook of one part or of the agent; it checks its own result."""

    label: str

    def __call__(self, *args: Any) -> Awaitable[Any]:
        """Return the decision."""

    def error(self, problem: str) -> HookError:
        """Return an error that names the decider and its hook."""


_CHAINED: dict[str, tuple[type, ...]] = {
    "build_system_prompt": (),
    "review_input": (Finish, Fail),
    "build_request": (),
    "review_answer": (Continue, Finish, Fail),
    "process_tool_calls": (Continue, Finish, Fail),
    "calculate_usage": (),
    "after_step": (),
    "conclude": (),
}
"""Chained hooks, and the decisions that end their chain. `after_step` passes every decision on."""


def compose(name: str, deciders: Sequence[Decider]) -> Callable[..., Awaitable[Any]]:
    """Return the hook *name* that *deciders* decide together. The hook must not be single-valued."""
    if name in _CHAINED:
        return partial(_chain, deciders, _CHAINED[name])
    return partial(_MERGED[name], deciders)


def check_deciders(agent: str, labels: Mapping[str, Sequence[str]]) -> None:
    """Raise `ConfigurationError` if a single-valued hook of *agent* has several deciders, given by their labels."""
    for name, own in labels.items():
        if len(own) > 1 and name not in _CHAINED and name not in _MERGED:
            raise ConfigurationError(
                f"agent {agent!r}: {name} is decided by {own[0]} and by {own[1]}, and two decisions cannot be merged: "
                "define it once"
            )


def merge_permissions(permissions: Sequence[Allow | Deny | Ask]) -> Allow | Deny | Ask:
    """Return the strictest of *permissions*: Deny before Ask before Allow.

    Several Denies give all their reasons. Several Asks become one: it admits the people that every Ask admits, has the
    shortest deadline, and joins the notes. If no person is admitted by all of them, the call is denied.
    """
    denials = [each for each in permissions if isinstance(each, Deny)]
    if denials:
        return denials[0] if len(denials) == 1 else Deny("; ".join(each.reason for each in denials))
    asks = [each for each in permissions if isinstance(each, Ask)]
    if len(asks) <= 1:
        return asks[0] if asks else Allow()
    limited = [each.who for each in asks if each.who]
    who = tuple([name for name in limited[0] if all(name in others for others in limited)]) if limited else ()
    if limited and not who:
        return Deny("it needs several approvals, and no person may give all of them")
    seconds = min((each.seconds for each in asks if each.seconds is not None), default=None)
    return Ask(who=who, seconds=seconds, note="; ".join(each.note for each in asks if each.note))


async def _chain(deciders: Sequence[Decider], ends: tuple[type, ...], *args: Any) -> Any:
    *before, value = args
    for decide in deciders:
        value = await decide(*before, value)
        if isinstance(value, ends):
            break
    return value


async def _merge_items(deciders: Sequence[Decider], run: Any) -> Any:
    return [item for decide in deciders for item in await decide(run)]


async def _all_agree(deciders: Sequence[Decider], run: Any) -> bool:
    return all([await decide(run) for decide in deciders])


async def _authorize(deciders: Sequence[Decider], *args: Any) -> Any:
    return merge_permissions([await decide(*args) for decide in deciders])


async def _merge_policies(deciders: Sequence[Decider]) -> DataPolicy:
    policies: list[DataPolicy] = [await decide() for decide in deciders]
    return reduce(strictest, policies)


async def _merge_specials(deciders: Sequence[Decider], run: Any, call: Any, outcome: Outcome) -> Special | None:
    """Chain the results: each decider sees the text that the previous one chose. One of them may set each other field.

    Raises `HookError` if two set the tool choice or the conversation.
    """
    merged: Special | None = None
    for decide in deciders:
        special: Special | None = await decide(run, call, outcome)
        if special is None:
            continue
        if special.result is not None:
            outcome = dataclasses.replace(outcome, content=special.result)
        merged = special if merged is None else _both(decide, merged, special)
    return merged


def _both(decide: Decider, first: Special, second: Special) -> Special:
    for name in ("tool_choice", "messages"):
        if getattr(first, name) is not None and getattr(second, name) is not None:
            raise decide.error(f"sets {name}, which an earlier part has set: let one of them decide it")
    return Special(
        result=first.result if second.result is None else second.result,
        tool_choice=second.tool_choice if first.tool_choice is None else first.tool_choice,
        messages=second.messages if first.messages is None else first.messages,
        withhold=first.withhold or second.withhold,
    )


_MERGED: dict[str, Callable[..., Awaitable[Any]]] = {
    "load_tools": _merge_items,
    "prepare": _merge_items,
    "should_send_tools": _all_agree,
    "authorize_tool_call": _authorize,
    "handle_special_tools": _merge_specials,
    "get_data_policy": _merge_policies,
}


def strictest(first: DataPolicy, second: DataPolicy) -> DataPolicy:
    """Return the policy that treats each field as the stricter of two policies does.

    The patterns of both apply. From lenient to strict: `keep`, `KeepFor` (the longer first), `hash`, `redact`, `drop`.
    """

    def tool_data(one: ToolData, other: ToolData) -> ToolData:
        return ToolData(
            arguments=_stricter_of(one.arguments, other.arguments), results=_stricter_of(one.results, other.results)
        )

    def both(name: str) -> ToolData:
        return tool_data(first.tool(name), second.tool(name))

    by_function = callable(first.tools) or callable(second.tools)
    return DataPolicy(
        text=_stricter_of(first.text, second.text),
        reasoning=_stricter_of(first.reasoning, second.reasoning),
        media=_stricter_of(first.media, second.media),
        tools=both if by_function else {name: both(name) for name in {*first.named_tools, *second.named_tools}},
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
