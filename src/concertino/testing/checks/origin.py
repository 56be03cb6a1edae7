"""A pristine agent for each simulated process: what a crash loses, the next process must not find."""

from __future__ import annotations

import copy
import functools
import inspect
from collections.abc import Callable, Iterator
from typing import Any

from ...orchestrator.agent import HOOKS, AgentConfig
from ...tools.base import Tool

_PLAIN = (list, dict, set, bytearray)
_REBOUND = (int, float, str, bool, tuple, frozenset, type(None))
_ENGINE = ("_concertino_hooks", "_concertino_registry")
"""Attributes that the engine adds to a config."""


class Origin:
    """An agent as it was before its first run, with the variables of classes, modules and closures that it uses."""

    def __init__(self, config: AgentConfig[Any]) -> None:
        self._config = _twin(config)
        self._kept: list[Callable[[], None]] = []
        seen: set[int] = set()
        for owner in (config, *config.parts):
            for name, value in list(vars(type(owner)).items()):
                if not name.startswith("__") and name not in ("tools", "parts") and _is_data(value, type(owner)):
                    self._keep(value, seen)
            for name in HOOKS:
                hook = getattr(type(owner), name, None)
                if hook is not None and hook is not getattr(AgentConfig, name):
                    for function in _functions(owner, hook):
                        if hasattr(function, "cache_clear"):
                            self._kept.append(function.cache_clear)
                        else:
                            self._keep_variables(function, seen)

    def fresh(self) -> AgentConfig[Any]:
        """Return the agent as a new process has it, and restore the variables that it uses."""
        for restore in self._kept:
            restore()
        return _twin(self._config)

    def _keep_variables(self, function: Any, seen: set[int]) -> None:
        module = function.__globals__
        for value in (*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()):
            if _is_data(value, None, function.__module__):
                self._keep(value, seen)
        for name in function.__code__.co_names:
            value = module.get(name)
            if name in module and _is_data(value, None, module.get("__name__")):
                self._keep(value, seen)
            elif name in module and isinstance(value, _REBOUND):
                self._kept.append(functools.partial(module.__setitem__, name, value))
        for cell in function.__closure__ or ():
            try:
                value = cell.cell_contents
            except ValueError:
                continue  # not assigned yet
            if _is_data(value, None, function.__module__):
                self._keep(value, seen)
            elif isinstance(value, _REBOUND):
                self._kept.append(functools.partial(setattr, cell, "cell_contents", value))

    def _keep(self, value: Any, seen: set[int]) -> None:
        if id(value) in seen:
            return
        seen.add(id(value))
        try:
            copied = copy.deepcopy(value)
        except Exception:  # noqa: BLE001 - objects of the product may refuse to be copied in any way
            return
        if copied is not value:
            self._kept.append(lambda: _restore(value, copied))


def _functions(owner: Any, hook: Any) -> Iterator[Any]:
    """Yield the function of *hook*, the methods of *owner* and the functions that it calls, and their caches."""
    todo, seen = [hook], set()
    while todo:
        function = todo.pop()
        if hasattr(function, "cache_clear"):
            yield function
        if hasattr(function, "__wrapped__"):
            function = inspect.unwrap(function)
        if not inspect.isfunction(function) or function in seen:
            continue
        seen.add(function)
        yield function
        for name in function.__code__.co_names:
            todo.append(getattr(type(owner), name, None) or function.__globals__.get(name))
        todo += [name for name in function.__code__.co_consts if inspect.isfunction(name)]


def _is_data(value: Any, owner: type | None, module: str | None = None) -> bool:
    """Return whether *value* is plain data, or an object of a class that the agent's module defines."""
    if isinstance(value, _PLAIN):
        return True
    home = module if owner is None else owner.__module__
    kind = type(value)
    return kind.__module__ == home and not isinstance(value, type | Tool | AgentConfig) and hasattr(value, "__dict__")


def _restore(value: Any, copied: Any) -> None:
    fresh = copy.deepcopy(copied)
    if isinstance(value, list | bytearray):
        value[:] = fresh
    elif isinstance(value, dict | set):
        value.clear()
        value.update(fresh)
    else:
        vars(value).clear()
        vars(value).update(vars(fresh))


def _twin(config: AgentConfig[Any]) -> AgentConfig[Any]:
    """Return a copy of *config* that shares its tools and what cannot be copied."""
    owners: list[Any] = [config, *config.parts]
    memo: dict[int, Any] = {id(tool): tool for owner in owners for tool in owner.tools}
    twin = copy.copy(config)
    for name, value in list(vars(twin).items()):
        if name in _ENGINE:
            del vars(twin)[name]
        else:
            vars(twin)[name] = _copied(value, memo)
    if "parts" not in vars(config) and config.parts:
        twin.parts = _copied(config.parts, memo)
    return twin


def _copied(value: Any, memo: dict[int, Any]) -> Any:
    try:
        return copy.deepcopy(value, memo)
    except Exception:  # noqa: BLE001 - as above
        return value
