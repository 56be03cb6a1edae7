"""docs/events.md names every event and every notice there is, and fields that they have."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path
from typing import get_args

from concertino.events import Event, NoticeCode, RunEvent

PAGE = Path(__file__).resolve().parents[2] / "docs" / "events.md"
ROW = re.compile(r"^\| `(\w+)` \|(.*)\|$", re.MULTILINE)
EVENTS = {event.__name__: event for event in get_args(RunEvent)}


def rows() -> dict[str, str]:
    """By what stands in the first column of a table."""
    found = ROW.findall(PAGE.read_text())
    assert len(found) == len(dict(found)), "a row is there twice"
    return dict(found)


def test_every_event_and_every_notice_has_its_row() -> None:
    assert set(rows()) == {*EVENTS, *get_args(NoticeCode)}


def test_the_union_has_every_public_event() -> None:
    assert set(Event.__subclasses__()) == set(EVENTS.values())


def test_the_fields_of_the_table_are_there() -> None:
    common = {field.name for field in dataclasses.fields(Event)}
    own = {name: {field.name for field in dataclasses.fields(event)} - common for name, event in EVENTS.items()}
    told = rows()
    for name, fields in own.items():
        named = set(re.findall(r"`(\w+)`", told[name].rpartition("|")[2]))
        assert named, f"{name} has no field in the table"
        assert named <= fields, f"{name} has no {named - fields}"


def test_what_all_events_have_is_said() -> None:
    text = PAGE.read_text()
    assert all(f"`{field.name}`" in text for field in dataclasses.fields(Event))
