"""`@tool`: valid and invalid settings."""

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


def test_an_unknown_setting_raises_and_lists_the_known_ones() -> None:
    with pytest.raises(ConfigurationError, match="unknown tool setting 'nam'") as caught:
        tool(nam="x")(look)  # type: ignore[call-overload]
    listed = str(caught.value).partition("choose from ")[2].split(", ")
    declared = typing.get_overloads(tool)[1]
    assert set(listed) == set(inspect.signature(declared).parameters)


@pytest.mark.parametrize("probe", [3, "found", True])
def test_a_probe_that_is_not_callable_raises(probe: Any) -> None:
    with pytest.raises(ConfigurationError, match="invalid probe"):
        tool(probe=probe)(look)


async def test_a_probe_is_called_with_the_key() -> None:
    context: Any = None
    assert await tool(probe=found)(look).probe("k", context) == Done("k")


def test_a_tool_is_remote_only_if_it_declares_so() -> None:
    assert not tool(look).remote
    assert tool(remote=True)(look).remote


@pytest.mark.parametrize("remote", [None, 1, "yes"])
def test_remote_must_be_a_bool(remote: Any) -> None:
    with pytest.raises(ConfigurationError, match="invalid remote"):
        tool(remote=remote)(look)
