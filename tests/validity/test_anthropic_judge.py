"""One violation of each of Anthropic's rules."""

from __future__ import annotations

from typing import Any

import pytest

from . import anthropic
from .violations import Change, Json, add, both, drop, put, spoilt

MARK = {"type": "ephemeral"}


def text(words: str, **more: Any) -> Json:
    return {"type": "text", "text": words, **more}


GOOD: Json = {
    "model": "claude-sonnet-4-5",
    "max_tokens": 4096,
    "system": [text("Be kind.", cache_control={"type": "ephemeral", "ttl": "1h"})],
    "thinking": {"type": "enabled", "budget_tokens": 2048},
    "tools": [{"name": "look_up", "description": "Looks up.", "input_schema": {"type": "object"}}],
    "messages": [
        {"role": "user", "content": [text("Two things, please.")]},
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "Hm.", "signature": "c2ln"},
                text("I look."),
                {"type": "tool_use", "id": "toolu_1", "name": "look_up", "input": {"a": 1}},
                {"type": "tool_use", "id": "toolu_2", "name": "look_up", "input": {}},
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "toolu_2", "content": "two", "is_error": True},
                {"type": "tool_result", "tool_use_id": "toolu_1", "content": [text("one", cache_control=MARK)]},
                text("And now?"),
            ],
        },
    ],
}
CALLS = ("messages", 1, "content")
RESULTS = ("messages", 2, "content")
HELLO = {"role": "user", "content": "Hello."}
PREFILL = both(drop("thinking"), add({"role": "assistant", "content": "So "}, "messages"))

RULES: dict[str, tuple[Change, str]] = {
    "no message": (put([], "messages"), "at least one"),
    "the assistant begins": (drop("messages", 0), "first message"),
    "no content": (put([], "messages", 0, "content"), "no content"),
    "system in an older model": (add({"role": "system", "content": "Be brief."}, "messages"), "role system"),
    "system after the assistant": (
        both(put("claude-opus-4-8", "model"), add({"role": "system", "content": "Be brief."}, "messages", at=2)),
        "after the assistant",
    ),
    "an empty text": (put("", *RESULTS, 2, "text"), "without text"),
    "a blank text": (put(" \n", "messages", 0, "content", 0, "text"), "without text"),
    "an empty text in a result": (put("", *RESULTS, 1, "content", 0, "text"), "without text"),
    "an empty text in the system": (put("", "system", 0, "text"), "without text"),
    "a call of the user": (
        add({"type": "tool_use", "id": "x", "name": "look_up", "input": {}}, "messages", 0, "content"),
        "tool_use of the user",
    ),
    "a result of the assistant": (
        add({"type": "tool_result", "tool_use_id": "toolu_1", "content": "one"}, *CALLS),
        "tool_result of the assistant",
    ),
    "a call without result": (drop(*RESULTS, 0), "no result for the call toolu_2"),
    "calls at the end": (drop("messages", 2), "no result"),
    "a result a turn late": (
        both(
            add(HELLO, "messages", at=2),
            add({"role": "assistant", "content": "Hm."}, "messages", at=3),
        ),
        "no result",
    ),
    "a result without call": (put("toolu_9", *RESULTS, 0, "tool_use_id"), "toolu_9, which is not open"),
    "two results for one call": (put("toolu_1", *RESULTS, 0, "tool_use_id"), "toolu_1, which is not open"),
    "a result after text": (add(text("First this."), *RESULTS, at=0), "after something else"),
    "an id with a dot": (
        both(put("call.1", *CALLS, 2, "id"), put("call.1", *RESULTS, 1, "tool_use_id")),
        "the id 'call.1'",
    ),
    "an id twice": (
        both(put("toolu_1", *CALLS, 3, "id"), put("toolu_1", *RESULTS, 0, "tool_use_id")),
        "a second time",
    ),
    "a tool's name with a space": (put("look up", "tools", 0, "name"), "the name 'look up'"),
    "a tool's name of 129": (put("a" * 129, "tools", 0, "name"), "the name"),
    "a tool twice": (add(GOOD["tools"][0], "tools"), "2 times"),
    "a choice of nothing": (
        both(drop("thinking"), put({"type": "tool", "name": "other"}, "tool_choice")),
        "not among the tools",
    ),
    "a choice without tools": (both(drop("tools"), put({"type": "auto"}, "tool_choice")), "without tools"),
    "calls without tools": (drop("tools"), "none are defined"),
    "a call's name with a dot": (put("look.up", *CALLS, 2, "name"), "a call of 'look.up'"),
    "reasoning without signature": (put("", *CALLS, 0, "signature"), "without signature"),
    "reasoning after text": (add(GOOD["messages"][1]["content"][0], *CALLS), "thinking after tool_use"),
    "reasoning at the end": (
        add({"role": "assistant", "content": GOOD["messages"][1]["content"][:1]}, "messages"),
        "its last block is thinking",
    ),
    "a live loop without its reasoning": (both(drop(*CALLS, 0), drop(*RESULTS, 2)), "live tool loop"),
    "five breakpoints": (
        both(*(add(text("x", cache_control=MARK), "messages", 0, "content") for _ in range(3))),
        "5 breakpoints",
    ),
    "the automatic breakpoint is the fifth": (
        both(
            *(add(text("x", cache_control=MARK), "messages", 0, "content") for _ in range(2)),
            put(MARK, "cache_control"),
        ),
        "5 breakpoints",
    ),
    "an hour after five minutes": (put(MARK, "tools", 0, "cache_control"), "lives in the order"),
    "a breakpoint on an empty text": (
        put(text(" ", cache_control=MARK), "messages", 0, "content", 0),
        "cache_control on text",
    ),
    "white space at the end": (PREFILL, "ends in white space"),
    "a beginning beside reasoning": (
        add({"role": "assistant", "content": "So"}, "messages"),
        "thinking is on",
    ),
    "a beginning for a newer model": (both(PREFILL, put("claude-opus-4-8", "model")), "does not take"),
    "no tokens": (both(drop("thinking"), put(0, "max_tokens")), "max_tokens: 0"),
    "a budget above the limit": (put(4096, "thinking", "budget_tokens"), "budget_tokens: 4096"),
    "a small budget": (put(1023, "thinking", "budget_tokens"), "budget_tokens: 1023"),
    "a forced tool beside reasoning": (put({"type": "any"}, "tool_choice"), "forced beside reasoning"),
    "a temperature beside reasoning": (put(0.5, "temperature"), "temperature beside"),
    "a temperature above 1": (both(drop("thinking"), put(1.5, "temperature")), "temperature: 1.5"),
    "a blank stop sequence": (put(["\n"], "stop_sequences"), "a blank one"),
}

FORM: dict[str, tuple[Change, str]] = {
    "no limit": (drop("max_tokens"), "max_tokens: Field required"),
    "a limit in words": (put("4096", "max_tokens"), "max_tokens"),
    "an unknown field": (put(1, "max_output_tokens"), "max_output_tokens: Extra"),
    "an unknown field in a block": (put(1, *CALLS, 2, "index"), "index: Extra"),
    "an unknown block": (put("output_text", *CALLS, 1, "type"), "output_text"),
    "the role tool": (put("tool", "messages", 2, "role"), "tool"),
    "arguments as text": (put("{}", *CALLS, 2, "input"), "input"),
    "a result without id": (drop(*RESULTS, 0, "tool_use_id"), "tool_use_id"),
    "a breakpoint on reasoning": (put(MARK, *CALLS, 0, "cache_control"), "cache_control: Extra"),
    "a life of a day": (put("24h", "system", 0, "cache_control", "ttl"), "ttl"),
    "a block that is no object": (put("Hello.", *RESULTS, 2), ""),
}


def test_the_valid_request_passes() -> None:
    assert anthropic.problems(GOOD) == []


@pytest.mark.parametrize("name", RULES)
def test_a_violated_rule_is_reported(name: str) -> None:
    change, words = RULES[name]
    body = spoilt(GOOD, change)
    assert anthropic.schema_problems(body) == [], "its form is right"
    assert any(words in problem for problem in anthropic.problems(body)), anthropic.problems(body)


@pytest.mark.parametrize("name", FORM)
def test_an_invalid_schema_is_reported(name: str) -> None:
    change, words = FORM[name]
    found = anthropic.problems(spoilt(GOOD, change))
    assert any(words in problem for problem in found), found


def test_every_rule_has_its_violation() -> None:
    bodies = [spoilt(GOOD, change) for change, _ in RULES.values()]
    idle = [
        rule.__name__
        for rule in anthropic.RULES
        if not any(list(rule(body, anthropic._turns(body["messages"]))) for body in bodies)
    ]
    assert idle == []


def test_allowed_variations() -> None:
    later = [*GOOD["messages"], {"role": "assistant", "content": "Done. "}, HELLO]
    assert anthropic.problems({**GOOD, "messages": later}) == [], "white space counts only at the very end"
    two = [*GOOD["messages"], HELLO]
    assert anthropic.problems({**GOOD, "messages": two}) == [], "neighbours of one role are one turn"
    adaptive = spoilt(GOOD, both(put({"type": "adaptive"}, "thinking"), drop(*CALLS, 0), drop(*RESULTS, 2)))
    assert anthropic.problems(adaptive) == [], "adaptive thinking asks for no block"
