"""One violation of each of the Gemini API's rules."""

from __future__ import annotations

from typing import Any

import pytest

from . import google
from .violations import Change, Json, add, both, drop, put, spoilt

MODEL = "gemini-3.8-flash"


def call(call_id: str, **more: Any) -> Json:
    return {"functionCall": {"id": call_id, "name": "look_up", "args": {"a": 1}}, **more}


def result(call_id: str) -> Json:
    return {"functionResponse": {"id": call_id, "name": "look_up", "response": {"output": "found"}}}


def text(words: str) -> Json:
    return {"text": words}


GOOD: Json = {
    "systemInstruction": {"parts": [text("Be kind.")]},
    "generationConfig": {"maxOutputTokens": 100, "thinkingConfig": {"thinkingLevel": "LOW"}},
    "tools": [{"functionDeclarations": [{"name": "look_up", "description": "Looks up."}]}],
    "toolConfig": {"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["look_up"]}},
    "contents": [
        {"role": "user", "parts": [text("Before.")]},
        {"role": "model", "parts": [call("c0")]},
        {"role": "user", "parts": [result("c0")]},
        {"role": "model", "parts": [text("Done.")]},
        {"role": "user", "parts": [text("Two things, please.")]},
        {"role": "model", "parts": [call("c1", thoughtSignature="c2ln"), call("c2")]},
        {"role": "user", "parts": [result("c2"), result("c1")]},
        {"role": "model", "parts": [text("One more."), call("c3", thoughtSignature="c2ln")]},
        {"role": "user", "parts": [result("c3"), text("Hurry.")]},
    ],
}
CALLING = ("toolConfig", "functionCallingConfig")
DECLARED = ("tools", 0, "functionDeclarations")
LIVE = both(drop("contents", 8, "parts", 1))

RULES: dict[str, tuple[Change, str]] = {
    "nothing": (put([], "contents"), "contents: empty"),
    "an unknown role": (put("assistant", "contents", 3, "role"), "the role assistant"),
    "the model begins": (drop("contents", 0), "the first turn is the model's"),
    "the model ends": (add({"role": "model", "parts": [text("So")]}, "contents"), "the last turn is the model's"),
    "no parts": (put([], "contents", 3, "parts"), "no parts"),
    "an empty part": (put({}, "contents", 3, "parts", 0), "a part with nothing"),
    "two data in one part": (put("Hm.", "contents", 5, "parts", 0, "text"), "a part with ['text', 'functionCall']"),
    "an empty system instruction": (put([], "systemInstruction", "parts"), "systemInstruction: empty"),
    "a call without result": (drop("contents", 6, "parts", 0), "1 results for 2 calls"),
    "calls at the end": (drop("contents", 8), "0 results for 1 calls"),
    "a result without call": (add(result("c9"), "contents", 4, "parts"), "1 results for 0 calls"),
    "two results for one call": (add(result("c1"), "contents", 6, "parts"), "3 results for 2 calls"),
    "a turn between call and result": (
        both(
            add({"role": "user", "parts": [text("Wait.")]}, "contents", at=6),
            add({"role": "model", "parts": [text("Hm.")]}, "contents", at=7),
        ),
        "0 results for 2 calls",
    ),
    "a result of another function": (
        put("other", "contents", 6, "parts", 0, "functionResponse", "name"),
        "other functions",
    ),
    "a result with another id": (put("c9", "contents", 6, "parts", 0, "functionResponse", "id"), "the call c9"),
    "a result of the model": (add(result("c1"), "contents", 3, "parts"), "a result of the model"),
    "a call of the user": (add(call("c9"), "contents", 4, "parts"), "a call of the user"),
    "text before the results": (add(text("Here."), "contents", 6, "parts", at=0), "after something else"),
    "a tool's name that begins with a digit": (
        both(put("1st", *DECLARED, 0, "name"), put(["1st"], *CALLING, "allowedFunctionNames")),
        "the name '1st'",
    ),
    "a tool twice": (add(GOOD["tools"][0]["functionDeclarations"][0], *DECLARED), "2 times"),
    "an allowed name that is not declared": (put(["other"], *CALLING, "allowedFunctionNames"), "not declared"),
    "allowed names where none is forced": (put("AUTO", *CALLING, "mode"), "in the mode AUTO"),
    "a forced call of none": (both(drop("tools"), drop(*CALLING, "allowedFunctionNames")), "none is declared"),
    "no tokens": (put(0, "generationConfig", "maxOutputTokens"), "maxOutputTokens: 0"),
    "a temperature above 2": (put(2.5, "generationConfig", "temperature"), "temperature: 2.5"),
    "six stops": (put(list("abcdef"), "generationConfig", "stopSequences"), "stopSequences"),
    "an empty stop": (put([""], "generationConfig", "stopSequences"), "stopSequences"),
    "two schemas": (
        both(
            put({"type": "OBJECT"}, "generationConfig", "responseSchema"),
            put({"type": "object"}, "generationConfig", "responseJsonSchema"),
        ),
        "beside",
    ),
    "a live call without signature": (both(LIVE, drop("contents", 7, "parts", 1, "thoughtSignature")), "no signature"),
    "an earlier live call without signature": (
        both(LIVE, drop("contents", 5, "parts", 0, "thoughtSignature")),
        "turn 5: the call of look_up has no signature",
    ),
}

FORM: dict[str, tuple[Change, str]] = {
    "no contents": (drop("contents"), "contents"),
    "an unknown field": (put(1, "maxTokens"), "maxTokens: Extra"),
    "an unknown setting": (put(1, "generationConfig", "maxTokens"), "maxTokens: Extra"),
    "an unknown part": (put({"toolUse": {}}, "contents", 3, "parts", 0), "toolUse: Extra"),
    "arguments as text": (put("{}", "contents", 5, "parts", 0, "functionCall", "args"), "args"),
    "a response as text": (put("one", "contents", 6, "parts", 0, "functionResponse", "response"), "response"),
    "a level that is none of them": (put("HUGE", "generationConfig", "thinkingConfig", "thinkingLevel"), "HUGE"),
    "a signature that is not base64": (put("?", "contents", 5, "parts", 0, "thoughtSignature"), "thoughtSignature"),
}


def test_the_valid_request_passes() -> None:
    assert google.problems(GOOD, MODEL) == []


@pytest.mark.parametrize("name", RULES)
def test_a_violated_rule_is_reported(name: str) -> None:
    change, words = RULES[name]
    body = spoilt(GOOD, change)
    assert google.schema_problems(body) == [], "its form is right"
    assert any(words in problem for problem in google.problems(body, MODEL)), google.problems(body, MODEL)


@pytest.mark.parametrize("name", FORM)
def test_an_invalid_schema_is_reported(name: str) -> None:
    change, words = FORM[name]
    found = google.problems(spoilt(GOOD, change), MODEL)
    assert any(words in problem for problem in found), found


def test_every_rule_has_its_violation() -> None:
    bodies = [spoilt(GOOD, change) for change, _ in RULES.values()]
    idle = [
        rule.__name__
        for rule in google.RULES
        if not any(list(rule(body, google._turns(body["contents"]))) for body in bodies)
    ]
    assert idle == []


def test_allowed_variations() -> None:
    unsigned = spoilt(GOOD, both(LIVE, drop("contents", 7, "parts", 1, "thoughtSignature")))
    assert google.problems(unsigned, "gemini-2.5-flash") == [], "older models want no signature"
    split = spoilt(GOOD, both(drop("contents", 6, "parts", 1)))
    split["contents"].insert(7, {"role": "user", "parts": [result("c1")]})
    assert google.problems(split, MODEL) == [], "neighbours of one role are one turn"
    other = {"contents": {"parts": {"text": "Hello."}}, "system_instruction": {"parts": {"text": "Be kind."}}}
    assert google.problems({**other, "contents": [other["contents"]]}) == [], (
        "both spellings, and one for a list of one"
    )
