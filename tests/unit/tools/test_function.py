"""`@tool`: which settings there are, and which are refused."""

from __future__ import annotations

import inspect
import typing
from typing import Any

import pytest

from concertino import Done, tool
from concertino.errors import ConfigurationError


async def look(item: str) -> str:
    """Look."""
    return item


async def found(key: str) -> Done:
    return Done(key)


def test_a_setting_that_no_tool_has_is_refused_with_all_that_there_are() -> None:
    with pytest.raises(ConfigurationError, match="no setting 'nam'") as caught:
        tool(nam="x")(look)  # type: ignore[call-overload]
    listed = str(caught.value).partition("there are: ")[2].split(", ")
    declared = typing.get_overloads(tool)[1]
    assert set(listed) == set(inspect.signature(declared).parameters)


@pytest.mark.parametrize("probe", [3, "found", True])
def test_a_probe_that_cannot_be_asked_is_refused(probe: Any) -> None:
    with pytest.raises(ConfigurationError, match="probe is"):
        tool(probe=probe)(look)


def test_a_function_of_a_key_is_a_probe() -> None:
    assert tool(probe=found)(look).asks is found
