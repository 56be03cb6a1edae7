"""Compiled output types: strict schemas, validation and partial values."""

from __future__ import annotations

import asyncio
import json
import re
from typing import Any, Literal

import jsonschema
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter
from typing_extensions import TypedDict

from concertino.orchestrator.output import Output, PartialReader

LEAVES: st.SearchStrategy[Any] = st.sampled_from([int, str, bool, float, Literal["a", "b"], int | None])
KINDS = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        inner.map(lambda kind: list[kind]),  # type: ignore[valid-type]  # a type made at run time
        st.lists(inner, min_size=1, max_size=3).map(
            lambda kinds: TypedDict("Made", {f"f{n}": kind for n, kind in enumerate(kinds)})  # type: ignore[operator]  # as above
        ),
    ),
    max_leaves=6,
)


@given(kind=KINDS, data=st.data())
def test_a_value_survives_its_way_to_the_model_and_back(kind: Any, data: st.DataObject) -> None:
    """What fits the strict schema is valid, and reads back as the value; each prefix has a part of it, or none."""
    output = Output(kind)
    assert output.schema.strict
    value = data.draw(_values(kind))
    text = json.dumps({"result": value} if "result" in output.schema.schema["properties"] else value)
    jsonschema.validate(json.loads(text), output.schema.schema)
    assert asyncio.run(output.validate(text)) == TypeAdapter(kind).validate_python(value)
    output.partial(text[: data.draw(st.integers(0, len(text)))])
    for each in _objects(output.schema.schema):
        assert each["additionalProperties"] is False
        assert each["required"] == list(each["properties"])


def _values(kind: Any) -> st.SearchStrategy[Any]:
    if kind is float:
        return st.floats(allow_nan=False, allow_infinity=False)
    if getattr(kind, "__origin__", None) is list:
        return st.lists(_values(kind.__args__[0]), max_size=3)
    if isinstance(kind, type) and hasattr(kind, "__required_keys__"):
        return st.fixed_dictionaries({name: _values(each) for name, each in kind.__annotations__.items()})
    return st.from_type(kind)


def _objects(schema: Any) -> list[dict[str, Any]]:
    if isinstance(schema, list):
        return [found for each in schema for found in _objects(each)]
    if not isinstance(schema, dict):
        return []
    own = [schema] if schema.get("type") == "object" else []
    return own + [found for each in schema.values() for found in _objects(each)]


def test_parts_cost_what_the_answer_is_long() -> None:
    """The text parsed in all is a small multiple of the answer, whatever its length."""

    class Counting(Output):
        parsed = 0

        def partial(self, text: str, *, open_strings: bool = True) -> Any:
            self.parsed += len(text)
            return super().partial(text, open_strings=open_strings)

    shares = []
    for size in (1_000, 50_000):
        output = Counting(list[str])
        reader, pieces = PartialReader(output, None), []
        for piece in re.findall(".{1,4}", json.dumps({"result": ["word"] * (size // 8)})):
            pieces.append(piece)
            reader.read(pieces[-1])
        shares.append(output.parsed / sum(map(len, pieces)))
    assert max(shares) < 25
