"""Output types: the schema of a typed answer, its validation, and the part of it that has arrived so far."""

from __future__ import annotations

import dataclasses
import inspect
import json
import math
import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any, get_args

from pydantic import TypeAdapter, ValidationError
from pydantic.errors import PydanticSchemaGenerationError, PydanticUserError
from pydantic_core import from_json

from ..errors import ConfigurationError, InvalidOutputError
from ..messages import AssistantMessage, Message, Text, UserMessage
from ..providers.base import Model, ModelRequest, OutputSchema
from ..tools.schema import JsonSchema
from .strict_schema import strict_form

if TYPE_CHECKING:
    from .journal.patterns import Redactor

CORRECTIONS = 2
"""How often a model is asked again for a valid answer, unless an agent sets another number."""
_FIELD = "result"
"""The property that contains a value that is not an object: providers enforce schemas of objects only."""
_INVALID = "The answer is not valid:"
_AGAIN = _INVALID + " {problem}\nAnswer again, with the whole corrected answer and nothing else."
_INSTRUCTIONS = (
    "Give the answer as JSON only, without any text or formatting around it. It must match this JSON Schema:\n"
)
_FENCE = re.compile(r"\s*```[a-z]*[ \t]*\n(.*?)(?:\n?```\s*)?\Z", re.DOTALL)
_MOST_PROBLEMS = 10
_NOT_FINITE = re.compile(r'"[\s+-]*(nan|inf)', re.IGNORECASE)
_STEP = 64
"""The least number of new characters between two partial values."""


class Output:
    """A compiled output type; see `output_of`."""

    __slots__ = ("_check", "_takes_text", "_wrapped", "instructions", "schema")

    def __init__(self, kind: Any) -> None:
        if isinstance(kind, Mapping):
            schema = dict(kind)
            checked = JsonSchema(schema, "output_type", "values", InvalidOutputError, most=_MOST_PROBLEMS)
            checked.require_valid()
            self._check: Callable[[Any], Any] = checked.validate
        else:
            self._check, schema = _typed(kind)
        self._takes_text = str in get_args(kind)
        self._wrapped = schema.get("type") != "object" or "$ref" in schema
        if self._wrapped:
            shared = {name: schema[name] for name in ("$defs", "definitions") if name in schema}
            inner = {name: value for name, value in schema.items() if name not in shared}
            schema = {"type": "object", "properties": {_FIELD: inner}, "required": [_FIELD]} | shared
            schema["additionalProperties"] = False
        strict = strict_form(schema)
        name = re.sub(r"\W+", "_", str(getattr(kind, "__name__", "") or schema.get("title") or "answer"))[:64]
        self.schema = OutputSchema(name, strict or schema, strict=strict is not None)
        """The schema for providers that enforce it."""
        self.instructions = _INSTRUCTIONS + json.dumps(schema, ensure_ascii=False)
        """The section of the system prompt for the others."""

    def is_enforced(self, model: Model, *, tools: bool) -> bool:
        """Return whether *model* accepts the schema in a request with or without *tools*."""
        takes_schema = getattr(model, "takes_schema", None)
        return takes_schema is None or bool(takes_schema(self.schema, tools=tools))

    def apply(self, request: ModelRequest, model: Model) -> None:
        """Ask for the type in *request*: by its schema where *model* enforces it, else in the system prompt."""
        if self.is_enforced(model, tools=bool(request.tools)):
            request.output_schema = self.schema
        else:
            request.output_schema = None
            if self.instructions not in request.system:
                request.system = f"{request.system}\n\n{self.instructions}".strip()

    async def validate(self, text: str) -> Any:
        """Return the value of a whole answer. Raises `InvalidOutputError`, naming the problems."""
        try:
            value = from_json(_json_part(text), allow_inf_nan=False)
        except ValueError as error:
            if self._takes_text and text.strip():
                return text
            raise InvalidOutputError(f"it is not valid JSON: {error}") from None
        if self._wrapped and isinstance(value, dict) and value.keys() == {_FIELD}:
            value = value[_FIELD]
        elif self._takes_text and not isinstance(value, dict | list):
            return text  # a number as an answer in words
        _require_finite(value)  # JSON has no infinity, but 1e999 reads as one
        checked = self._check(value)
        return await checked if inspect.isawaitable(checked) else checked

    def partial(self, text: str, *, open_strings: bool = True) -> Any:
        """Return the value that the beginning of an answer has so far, as plain JSON; None if it has none.

        Its last text may be incomplete; without *open_strings*, it is left out then.
        """
        try:
            value = from_json(
                _json_part(text), allow_inf_nan=False, allow_partial="trailing-strings" if open_strings else True
            )
        except ValueError:
            return None
        if self._wrapped and isinstance(value, dict):
            return value.get(_FIELD)
        return value if isinstance(value, dict) else None

    def reader(self, redactor: Redactor | None = None) -> PartialReader:
        """Return a reader of one answer while it arrives."""
        return PartialReader(self, redactor)

    def redacted(self, message: AssistantMessage, redactor: Redactor) -> AssistantMessage:
        """Return *message* with the values in its JSON redacted, however they are escaped."""
        text = message.text
        if "\\u" not in text:
            return message  # it was redacted as text
        part = _json_part(text)
        if (changed := redactor.arguments(part)) == part:
            return message
        others = tuple([each for each in message.parts if not isinstance(each, Text)])
        return dataclasses.replace(message, parts=(Text(changed), *others))


class PartialReader:
    """Parses an answer while it arrives. The work is proportional to the answer, not to its square."""

    __slots__ = ("_last", "_length", "_next", "_output", "_pieces", "_redactor")

    def __init__(self, output: Output, redactor: Redactor | None) -> None:
        self._output = output
        self._redactor = redactor
        self._pieces: list[str] = []
        self._length = 0
        self._next = _STEP
        self._last: Any = None

    def read(self, piece: str) -> Any:
        """Return the new value of the answer that continues with *piece*, or None if it is not due or the same."""
        self._pieces.append(piece)
        self._length += len(piece)
        if self._length < self._next:
            return None
        self._next = self._length + max(_STEP, self._length // 16)
        text = "".join(self._pieces)
        if self._redactor is None:
            value = self._output.partial(text)
        else:  # the text is redacted, apart from what JSON escapes in it
            value = self._redactor.value(self._output.partial(text, open_strings="\\u" not in text))
        if value == self._last:
            return None
        self._last = value
        return value


def _typed(kind: Any) -> tuple[Any, dict[str, Any]]:
    """Return the check and the schema of a Python type."""
    try:
        adapter = TypeAdapter(kind)
        schema = adapter.json_schema()
    except (PydanticSchemaGenerationError, PydanticUserError, NameError) as error:
        problem = str(error).split("\n", 1)[0]
        raise ConfigurationError(
            f"invalid output_type {kind!r:.80}: {problem}; use a pydantic model, a dataclass, a TypedDict, a union or "
            "list of these, or a JSON Schema"
        ) from None

    def check(value: Any) -> Any:
        text = json.dumps(value)
        try:
            made = adapter.validate_json(text)
        except ValidationError as error:
            problems = error.errors(include_url=False, include_context=False, include_input=False)
            raise InvalidOutputError("; ".join(map(_problem, problems[:_MOST_PROBLEMS]))) from None
        if _NOT_FINITE.search(text):  # pydantic reads the text "NaN" as a number
            _require_finite(adapter.dump_python(made, warnings=False))
        return made

    return check, schema


def _require_finite(value: Any) -> None:
    """Raise `InvalidOutputError` if *value*, or a part of it, is infinite or not a number."""
    parts: list[tuple[str, Any]] = [("", value)]
    while parts:
        path, part = parts.pop()
        if isinstance(part, float) and not math.isfinite(part):
            raise InvalidOutputError(f"{path.lstrip('.') or 'the answer'}: the number is not finite")
        if isinstance(part, Mapping):
            parts += [(f"{path}.{name}", each) for name, each in part.items()]
        elif isinstance(part, list | tuple | set | frozenset):
            parts += [(f"{path}.{index}", each) for index, each in enumerate(part)]


def _problem(error: Any) -> str:
    path = ".".join(map(str, error["loc"]))
    return f"{path}: {error['msg']}" if path else str(error["msg"])


def _json_part(text: str) -> str:
    """Return *text* without the fence of a Markdown block around it."""
    if "```" not in text[:40]:
        return text
    fenced = _FENCE.match(text)
    return fenced[1] if fenced else text


@lru_cache(maxsize=256)
def _of_type(kind: Any) -> Output:
    return Output(kind)


@lru_cache(maxsize=256)
def _of_schema(text: str) -> Output:
    return Output(json.loads(text))


def output_of(kind: Any) -> Output | None:
    """Return the compiled output type *kind*; None for no type, and for `str`, which every answer is.

    Raises `ConfigurationError` if it has no JSON Schema, or is an invalid one.
    """
    if kind is None or kind is str:
        return None
    if isinstance(kind, Mapping):
        try:
            return _of_schema(json.dumps(kind))
        except (TypeError, ValueError, RecursionError) as error:
            raise ConfigurationError(f"invalid output_type: {error}; use a JSON Schema") from None
    try:
        return _of_type(kind)
    except TypeError:
        raise ConfigurationError(f"invalid output_type {kind!r:.80}: use a type or a JSON Schema") from None


def asked_again(problem: InvalidOutputError) -> UserMessage:
    """Return the message that asks the model for a valid answer."""
    return UserMessage(_AGAIN.format(problem=problem))


def corrections(messages: list[Message]) -> int:
    """Return how often *messages* ask for a valid answer."""
    return len([m for m in messages if isinstance(m, UserMessage) and m.text.startswith(_INVALID)])
