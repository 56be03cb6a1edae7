"""Asking hooks: each may be plain or async, each returns its type, and a failure names the hook."""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import Sequence
from types import NoneType
from typing import Any, get_args

from ..errors import HookError, ToolError
from ..messages import AssistantMessage, Message, ToolCall
from ..providers.base import ModelRequest
from ..usage import UsageRecord
from .agent import AgentConfig
from .journal.data_policy import DataPolicy
from .outcome import Allow, Ask, Deny, Finish, GoOn, Special, StepEnd, Turn

_RETURNS: dict[str, tuple[type, ...]] = {
    "initialize_agent_state": (object,),
    "prepare": (Sequence,),
    "should_continue_loop": (bool, GoOn),
    "get_model_id": (str,),
    "should_send_tools": (bool,),
    "build_request": (ModelRequest,),
    "interpret_response": (Turn,),
    "on_no_tool_calls": (bool, GoOn, Finish),
    "process_tool_calls": (Sequence, Finish),
    "on_tools_selected": (NoneType,),
    "preprocess_tool_arguments": (dict,),
    "authorize_tool_call": (Allow, Deny, Ask),
    "on_tool_progress": (NoneType,),
    "handle_special_tools": (Special, NoneType),
    "calculate_usage": (UsageRecord,),
    "after_step": get_args(StepEnd),
    "conclude": (str,),
    "get_data_policy": (DataPolicy,),
}
_ITEMS: dict[str, Any] = {"prepare": Message, "process_tool_calls": ToolCall, "interpret_response": ToolCall}
"""What the members of a returned sequence must be."""


class Hooks:
    """Asks the hooks of one agent."""

    __slots__ = ("_agent", "_own", "authorizes", "config", "preprocesses")

    def __init__(self, config: AgentConfig[Any]) -> None:
        self.config = config
        self._agent = config.name
        self._own = _own_hooks(type(config))  # type: ignore[arg-type]  # mypy doubts that a class can be hashed
        if assigned := _RETURNS.keys() & vars(config).keys():  # hooks of this one object
            self._own |= assigned
        self.authorizes = self.has_own("authorize_tool_call")
        self.preprocesses = self.has_own("preprocess_tool_arguments")

    def has_own(self, hook: str) -> bool:
        """Whether the agent overrides *hook*: a default that does nothing need not be asked."""
        return hook in self._own

    async def ask(self, hook: str, *args: Any) -> Any:
        """What *hook* decides. Raises `HookError`; a `ToolError` about arguments goes through as it is."""
        if hook not in self._own:
            return getattr(self.config, hook)(*args)  # a default neither waits nor returns what it may not
        try:
            value = getattr(self.config, hook)(*args)
            if inspect.isawaitable(value):
                value = await value
        except HookError:
            raise
        except asyncio.CancelledError as error:
            if _is_cancelled():
                raise
            raise HookError(self._agent, hook, "was cancelled from within") from error
        except ToolError as error:
            if hook == "preprocess_tool_arguments":
                raise
            raise HookError(self._agent, hook, f"raised {type(error).__name__}: {error}") from error
        except Exception as error:
            raise HookError(self._agent, hook, f"raised {type(error).__name__}: {error}") from error
        self._check(hook, value)
        return value

    def _check(self, hook: str, value: Any) -> None:
        expected = _RETURNS[hook]
        if not isinstance(value, expected) or (isinstance(value, str) and expected[0] is Sequence):
            names = " or ".join("None" if kind is NoneType else kind.__name__ for kind in expected)
            raise HookError(self._agent, hook, f"returned {_shown(value)}; it must return {names}")
        if isinstance(value, Turn):
            if not isinstance(value.message, AssistantMessage) or not isinstance(value.calls, Sequence):
                raise HookError(self._agent, hook, f"returned {_shown(value)}; it takes an AssistantMessage and calls")
            self._check_items(hook, value.calls)
        elif hook in _ITEMS and not isinstance(value, Finish):
            self._check_items(hook, value)

    def _check_items(self, hook: str, value: Any) -> None:
        for item in value:
            if not isinstance(item, _ITEMS[hook]):
                wanted = "messages" if hook == "prepare" else "ToolCalls"
                raise HookError(self._agent, hook, f"returned a sequence with {_shown(item)}; it must hold {wanted}")


@functools.cache
def _own_hooks(kind: Any) -> frozenset[str]:
    """The hooks that a class of agents overrides."""
    return frozenset(name for name in _RETURNS if getattr(kind, name) is not getattr(AgentConfig, name))


def _is_cancelled() -> bool:
    """Whether this very task is being cancelled, and not only something that it waited for."""
    task = asyncio.current_task()
    return task is None or task.cancelling() > 0


def _shown(value: Any) -> str:
    return "None" if value is None else f"{type(value).__name__} {value!r:.80}"
