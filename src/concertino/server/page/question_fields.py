"""The fields of a form for the answer to a question."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal

from ...records import record
from ...runtime.question import PersonQuestion

FieldKind = Literal["text", "line", "number", "integer", "boolean", "choice", "choices", "json"]
_MOST_FIELDS = 50
_MOST_CHOICES = 200


@record(kw_only=True)
class QuestionField:
    """One field."""

    name: str
    title: str = ""
    description: str = ""
    kind: FieldKind
    """`text` has lines, `choice` and `choices` select among values, and `json` is an object in place of all fields."""
    required: bool = False
    choices: tuple[tuple[str, str], ...] = ()
    """Values with their titles."""
    initial: str | bool | tuple[str, ...] = ""
    least: float | None = None
    most: float | None = None


def question_fields(question: PersonQuestion) -> list[QuestionField]:
    """Return the fields of the form of *question*: one field for JSON text if the values are nested."""
    schema = question.schema
    if schema is None:
        return []
    properties = schema.get("properties")
    if not isinstance(properties, dict) or len(properties) > _MOST_FIELDS:
        return [_whole()]
    required = schema.get("required")
    names = required if isinstance(required, list) else []
    line: FieldKind = "line" if question.structured else "text"
    made = [_field(name, each, required=name in names, line=line) for name, each in properties.items()]
    fields = [field for field in made if field is not None]
    return fields if len(fields) == len(made) else [_whole()]


def _whole() -> QuestionField:
    return QuestionField(name="", title="Answer as JSON", kind="json", required=True, initial="{}")


def _field(name: str, given: Any, *, required: bool, line: FieldKind) -> QuestionField | None:
    schema = given if isinstance(given, dict) else {}
    kind, initial = schema.get("type"), schema.get("default")
    common: dict[str, Any] = {
        "name": name,
        "title": str(schema.get("title") or ""),
        "description": str(schema.get("description") or ""),
        "required": required,
    }
    if kind == "array":
        items = schema.get("items")
        choices = tuple(_choices(items)) if isinstance(items, dict) else ()
        chosen = tuple(map(str, initial)) if isinstance(initial, list) else ()
        return QuestionField(kind="choices", choices=choices, initial=chosen, **common) if choices else None
    if choices := tuple(_choices(schema)):
        return QuestionField(kind="choice", choices=choices, initial=_text(initial), **common)
    match kind:
        case "string":
            return QuestionField(kind=line, initial=_text(initial), **common)
        case "number" | "integer":
            least, most = _number(schema.get("minimum")), _number(schema.get("maximum"))
            return QuestionField(kind=kind, initial=_text(initial), least=least, most=most, **common)
        case "boolean":
            return QuestionField(kind="boolean", initial=initial is True, **common)
        case _:
            return None


def _choices(schema: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the texts that a schema allows, with their titles, if it is a list of texts."""
    listed = schema.get("enum")
    if isinstance(listed, list):
        titles = schema.get("enumNames")
        pairs = [(each, each) for each in listed]
        if isinstance(titles, list) and len(titles) == len(listed):
            pairs = list(zip(listed, titles, strict=True))
    else:
        listed = schema.get("oneOf") or schema.get("anyOf")
        found = listed if isinstance(listed, list) else []
        pairs = [
            (each.get("const"), each.get("title") or each.get("const")) for each in found if isinstance(each, dict)
        ]
    if len(pairs) <= _MOST_CHOICES and all(isinstance(value, str) for value, _ in pairs):
        yield from ((value, str(shown)) for value, shown in pairs)


def _text(value: Any) -> str:
    is_plain = isinstance(value, str | int | float) and not isinstance(value, bool)
    return str(value) if is_plain else ""


def _number(value: Any) -> float | None:
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None
