"""Backends of the ready-made tools: one for all calls, or chosen for each call."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from typing import Any, Generic, TypeVar

from ...errors import ConfigurationError
from ..base import ToolContext

T = TypeVar("T")

PerCall = Callable[[ToolContext], T | Awaitable[T]]
"""A function that returns the backend of one call, such as that of the call's tenant and user (`context.scope`)."""


class Backend(Generic[T]):
    """The backend of the tool *tool*: *given* itself if it has the attribute *verb*, else a `PerCall`.

    Raises `ConfigurationError`, naming the setting and the *remedy*, if it is neither.
    """

    def __init__(self, tool: str, given: Any, verb: str, remedy: str) -> None:
        if given is None:
            raise ConfigurationError(f"the tool {tool!r} has no backend: pass Settings({tool}=...), {remedy}")
        self.fixed: T | None = given if hasattr(given, verb) else None
        """The backend of all calls; None if each call has its own."""
        if self.fixed is None and not callable(given):
            raise ConfigurationError(f"Settings({tool}={given!r:.80}): use {remedy}, or a function of a call's context")
        self._given = given

    async def of(self, context: ToolContext) -> T:
        """Return the backend of one call."""
        if self.fixed is not None:
            return self.fixed
        found = self._given(context)
        return await found if inspect.isawaitable(found) else found  # type: ignore[no-any-return]
