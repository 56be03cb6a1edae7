"""The JSON form of events: every event fits the schema and comes back, and the page lists what there is."""

from __future__ import annotations

import dataclasses
import json
from decimal import Decimal
from typing import Any, get_args

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from concertino.context_state import ContextReport, ContextState
from concertino.errors import DamagedDataError, StorageError
from concertino.events import RunEnded, RunEvent, RunResult, TextDelta, event_from_json, event_json, event_schema
from concertino.waits import Resolution

DATA = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(), inner, max_size=2),
    max_leaves=3,
)
VALIDATOR = jsonschema.Draft202012Validator(event_schema())


def results() -> st.SearchStrategy[RunResult]:
    """Return results as the store gives them back, without messages and context."""
    fixed: dict[str, Any] = {"messages": (), "context": None, "report": None, "output": None}
    return st.builds(
        RunResult, **{name: st.just(value) for name, value in fixed.items()}, data=st.dictionaries(st.text(), DATA)
    )


st.register_type_strategy(RunResult, results())
st.register_type_strategy(Decimal, st.decimals(allow_nan=False, allow_infinity=False))


def events(kind: type[Any]) -> st.SearchStrategy[Any]:
    """Return events of one class with any fields."""
    own: dict[str, Any] = {}
    for field in dataclasses.fields(kind):
        if field.name in ("data", "value"):
            own[field.name] = DATA
        elif field.name == "step" and kind.__name__ != "StepStarted":
            own["step"] = st.dictionaries(st.text(), DATA, max_size=2)
        elif field.name == "seconds":
            own["seconds"] = st.floats(allow_nan=False, allow_infinity=False)
    return st.builds(kind, **own)


@pytest.mark.parametrize("kind", get_args(RunEvent), ids=lambda kind: str(kind.__name__))
@settings(max_examples=10)
@given(data=st.data())
def test_every_event_fits_the_schema_and_comes_back(kind: type[Any], data: st.DataObject) -> None:
    event = data.draw(events(kind))
    form = json.loads(json.dumps(event_json(event)))
    VALIDATOR.validate(form)
    assert event_from_json(form) == event
    assert event_from_json({**form, "added_later": 1}) == event, "later versions may add fields"


def test_the_schema_is_one() -> None:
    jsonschema.Draft202012Validator.check_schema(event_schema())
    kinds = {definition["properties"]["type"]["const"] for definition in _of_events()}
    assert len(kinds) == len(get_args(RunEvent))


def _of_events() -> list[dict[str, Any]]:
    schema = event_schema()
    return [schema["$defs"][choice["$ref"].rpartition("/")[2]] for choice in schema["oneOf"]]


def test_what_is_left_out_of_a_result() -> None:
    result = RunResult(
        run_id="r",
        agent_path="a",
        status="completed",
        text="t",
        content_index=0,
        steps=1,
        tool_calls={},
        usage=(),
        data={"tool": object()},
        messages=(),
        context=ContextState(),
        report=ContextReport(),
    )
    form = event_json(RunEnded("r", "a", 0, result))
    assert not {"messages", "context", "report"} & form["result"].keys()
    assert isinstance(form["result"]["data"]["tool"], str), "what JSON does not know is text"


def test_forms_that_are_none() -> None:
    form = event_json(TextDelta("r", "a", 0, "hi"))
    with pytest.raises(StorageError, match="install a newer one"):
        event_from_json({**form, "v": 2})
    for broken in ({}, {"v": 1}, {"v": 1, "type": "nothing"}, {"v": 1, "type": "text_delta"}, {**form, "v": "1"}):
        with pytest.raises(DamagedDataError):
            event_from_json(broken)
    with pytest.raises(jsonschema.ValidationError):
        VALIDATOR.validate({**form, "audience": "everyone"})
    assert Resolution(verdict="approved")
