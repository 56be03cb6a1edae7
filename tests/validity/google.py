"""Problems that Google's Gemini API would refuse."""

from __future__ import annotations

import re
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

from google.genai import types
from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic.alias_generators import to_camel
from pydantic_core import to_json

from .schema import distinguished

Json = dict[str, Any]
Turn = tuple[str, list[Json]]

_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_.:-]{0,127}")
_STRICT_MODEL = re.compile(r"gemini-([3-9]|\d\d)")
_DATA = (
    "text",
    "inlineData",
    "fileData",
    "functionCall",
    "functionResponse",
    "executableCode",
    "codeExecutionResult",
    "toolCall",
    "toolResponse",
)
_STOPS = 5


class _Request(BaseModel):
    """The body of `models.generateContent`, of the SDK's types, which have it in parts only."""

    model_config = ConfigDict(extra="forbid", alias_generator=to_camel, populate_by_name=True)

    contents: list[types.Content]
    system_instruction: types.Content | None = None
    generation_config: types.GenerationConfig | None = None
    tools: list[types.Tool] | None = None
    tool_config: types.ToolConfig | None = None
    safety_settings: list[types.SafetySetting] | None = None
    cached_content: str | None = None
    labels: dict[str, str] | None = None
    service_tier: str | None = None
    store: bool | None = None


def problems(body: Json, model: str = "") -> list[str]:
    """Return the problems of *body*; rules apply only to a valid form. The *model* is in the address of a request."""
    return schema_problems(body) or rule_problems(body, model)


def schema_problems(body: Json) -> list[str]:
    """Check against `google.genai.types`. An unknown enumeration value, which only warns there, is a problem here."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            _Request.model_validate_json(to_json(_plain(body)))
        except ValidationError as wrong:
            return distinguished(wrong)
        except UserWarning as unknown:
            return [str(unknown)]
    return []


def rule_problems(body: Json, model: str = "") -> list[str]:
    """Check the documented rules; *model* decides about signatures."""
    body = _plain(body)
    turns = _turns(body["contents"])
    found = [problem for rule in RULES for problem in rule(body, turns)]
    return [*found, *_signatures(turns)] if _STRICT_MODEL.match(model.rpartition("/")[2]) else found


def _plain(body: Json) -> Json:
    """Return *body* with one name per field, and with lists instead of single objects.

    The JSON form of protocol buffers allows both.
    """
    plain = _camel(body)
    plain["contents"] = [_content(content) for content in plain.get("contents") or ()]
    if plain.get("systemInstruction"):
        plain["systemInstruction"] = _content(plain["systemInstruction"])
    if plain.get("tools"):
        plain["tools"] = [_tool(tool) for tool in _listed(plain["tools"])]
    return plain


def _camel(fields: Json) -> Json:
    return {to_camel(name) if "_" in name else name: value for name, value in fields.items()}


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _content(content: Any) -> Any:
    if not isinstance(content, dict):
        return content
    return {**content, "parts": [_camel(part) for part in _listed(content.get("parts") or [])]}


def _tool(tool: Json) -> Json:
    plain = _camel(tool)
    if "functionDeclarations" in plain:
        plain["functionDeclarations"] = _listed(plain["functionDeclarations"])
    return plain


def _turns(contents: list[Json]) -> list[Turn]:
    """The turns: neighbours of one role are one. No role is the user's, and so is the old role `function`."""
    turns: list[Turn] = []
    for content in contents:
        role = "model" if content.get("role") == "model" else "user"
        parts = content.get("parts") or []
        if turns and turns[-1][0] == role:
            turns[-1] = (role, [*turns[-1][1], *parts])
        else:
            turns.append((role, parts))
    return turns


def _order(body: Json, turns: list[Turn]) -> Iterator[str]:
    """ "contents are required"; the roles are `user` and `model` ("Please use a valid role: user, model"); the
    conversation begins and ends with the user ("Please ensure that multiturn requests alternate between user and
    model", "ensure that function call turn comes immediately after a user turn or after a function response turn",
    "Requests ending with a model turn are not supported")."""
    if not turns:
        yield "contents: empty"
        return
    for position, content in enumerate(body["contents"]):
        if content.get("role", "user") not in ("user", "model", "function"):
            yield f"contents.{position}: the role {content['role']}"
    if turns[0][0] != "user":
        yield "contents.0: the first turn is the model's"
    if turns[-1][0] != "user":
        yield "contents: the last turn is the model's"


def _filled(body: Json, turns: list[Turn]) -> Iterator[str]:
    """Contents have parts, and a part has exactly one datum ("contents.parts must not be empty", "required oneof
    field 'data' must have one initialized field"). An empty text is taken by the Gemini API; Vertex AI refuses it,
    which is not judged here."""
    for position, content in enumerate(body["contents"]):
        if not content.get("parts"):
            yield f"contents.{position}: no parts"
        for number, part in enumerate(content.get("parts") or ()):
            held = [name for name in _DATA if part.get(name) is not None]
            if len(held) != 1:
                yield f"contents.{position}.{number}: a part with {held or 'nothing'}"
    system = body.get("systemInstruction")
    if system and not system.get("parts"):
        yield "systemInstruction: empty"


def _results(body: Json, turns: list[Turn]) -> Iterator[str]:
    """The turn after calls answers each of them, and first ("Function calling"; "Please ensure that the number of
    function response parts is equal to the number of function call parts of the function call turn", "ensure that
    function response turn comes immediately after a function call turn"): as many results by name, and those with
    an id by id. Calls are the model's, results are not."""
    called: list[Json] = []
    for position, (role, parts) in enumerate([*turns, ("user", [])]):
        calls = [part["functionCall"] for part in parts if part.get("functionCall")]
        results = [part["functionResponse"] for part in parts if part.get("functionResponse")]
        if role == "model":
            called = calls
            if results:
                yield f"turn {position}: a result of the model"
            continue
        if calls:
            yield f"turn {position}: a call of the user"
        if len(called) != len(results):
            yield f"turn {position}: {len(results)} results for {len(called)} calls"
        elif Counter(call["name"] for call in called) != Counter(result["name"] for result in results):
            yield f"turn {position}: results of other functions than those called"
        ids = Counter(call.get("id") for call in called)
        for given, times in Counter(result["id"] for result in results if result.get("id")).items():
            if None not in ids and ids[given] != times:
                yield f"turn {position}: {times} results for the call {given}"
        if any(not part.get("functionResponse") for part in parts[: len(results)]) and called:
            yield f"turn {position}: results come after something else"
        called = []


def _tools(body: Json, turns: list[Turn]) -> Iterator[str]:
    """Names begin with a letter or an underscore and have at most 128 characters of `[a-zA-Z0-9_.:-]`
    (`FunctionDeclaration.name`); they are unique ("Duplicate function declaration found"); a list of allowed names
    is of declared ones and goes with a mode that calls ("Allowed function names should only be set when function
    calling mode is ANY", and since then VALIDATED)."""
    names = Counter(
        function["name"] for tool in body.get("tools") or () for function in tool.get("functionDeclarations") or ()
    )
    for name, times in names.items():
        if not _NAME.fullmatch(name):
            yield f"tools: the name {name!r}"
        if times > 1:
            yield f"tools: {name} {times} times"
    calling = (body.get("toolConfig") or {}).get("functionCallingConfig") or {}
    allowed = calling.get("allowedFunctionNames") or ()
    yield from (f"toolConfig: {name} is not declared" for name in allowed if name not in names)
    if allowed and calling.get("mode") not in ("ANY", "VALIDATED"):
        yield f"toolConfig: names are allowed in the mode {calling.get('mode')}"
    if calling.get("mode") in ("ANY", "VALIDATED") and not names:
        yield "toolConfig: a function must be called, and none is declared"


def _settings(body: Json, turns: list[Turn]) -> Iterator[str]:
    """Limits are above 0; the temperature is from 0 to 2; there are at most five stop sequences, none of them empty
    (`GenerationConfig`)."""
    settings = body.get("generationConfig") or {}
    if (settings.get("maxOutputTokens") or 1) < 1 or settings.get("maxOutputTokens") == 0:
        yield f"maxOutputTokens: {settings['maxOutputTokens']}"
    if not 0 <= (settings.get("temperature") or 0) <= 2:
        yield f"temperature: {settings['temperature']}"
    stops = settings.get("stopSequences") or ()
    if len(stops) > _STOPS or not all(stops):
        yield f"stopSequences: {stops}"
    if settings.get("responseSchema") and settings.get("responseJsonSchema"):
        yield "responseSchema beside responseJsonSchema"


def _signatures(turns: list[Turn]) -> Iterator[str]:
    """Since Gemini 3, the first call of each of the model's turns has its signature, in the current turn: all since
    the user's last message other than results ("Thought signatures": "Function call is missing a
    thought_signature in functionCall parts"; of parallel calls only the first has one)."""
    for position in range(len(turns) - 1, -1, -1):
        role, parts = turns[position]
        if role == "user" and not any(part.get("functionResponse") for part in parts):
            return
        first = next((part for part in parts if part.get("functionCall")), None)
        if first and not first.get("thoughtSignature"):
            yield f"turn {position}: the call of {first['functionCall']['name']} has no signature"


RULES: tuple[Callable[[Json, list[Turn]], Iterator[str]], ...] = (_order, _filled, _results, _tools, _settings)
