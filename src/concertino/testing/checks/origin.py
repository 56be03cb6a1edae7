"""A pristine agent for each simulated process: what a crash loses, the next process must not find."""

from __future__ import annotations

import copy
import dis
import functools
import inspect
import os
import queue
import threading
from collections import deque
from collections.abc import Callable, Iterator, MutableMapping
from contextvars import ContextVar
from typing import Any

from ...orchestrator.agent import HOOKS, AgentConfig
from ...tools.base import Tool

_PLAIN = (list, dict, set, bytearray, deque)
_REBOUND = (int, float, str, bool, tuple, frozenset, type(None))
_ENGINE = ("_concertino_hooks", "_concertino_registry")
"""Attributes that the engine adds to a config."""
_PACKAGE = __name__.partition(".")[0] + "."


class Origin:
    """An agent as it was before its first run, with the variables of classes, modules and closures that it uses."""

    def __init__(self, config: AgentConfig[Any]) -> None:
        self._config = _twin(config)
        self._kept: list[Callable[[], None]] = []
        self._seen: set[int] = set()
        for owner in (config, *config.parts):
            for kind in type(owner).__mro__:
                if not kind.__module__.startswith(_PACKAGE):
                    self._keep_class(kind)
            for value in vars(owner).values():
                if not _is_copied(value):
                    self._keep(value, type(owner).__module__)
            for name in HOOKS:
                hook = getattr(type(owner), name, None)
                if hook is not None and hook is not getattr(AgentConfig, name):
                    for used in _used(owner, hook):
                        self._keep_used(used)

    def fresh(self) -> AgentConfig[Any]:
        """Return the agent as a new process has it, and restore the variables that it uses."""
        for restore in self._kept:
            restore()
        return _twin(self._config)

    def _keep_used(self, used: Any) -> None:
        if hasattr(used, "cache_clear"):
            self._kept.append(used.cache_clear)
        elif isinstance(used, type):
            self._keep_class(used)
        else:
            self._keep_variables(used)

    def _keep_class(self, kind: type) -> None:
        """Keep the attributes of a class: their values, and which ones there are."""
        if id(kind) in self._seen or kind is object:
            return
        self._seen.add(id(kind))
        names = {name: value for name, value in vars(kind).items() if not name.startswith("__")}
        for name, value in names.items():
            if name not in ("tools", "parts"):
                self._keep(value, kind.__module__)
        self._kept.append(functools.partial(_restore_class, kind, names))

    def _keep_variables(self, function: Any) -> None:
        names, code, home = function.__globals__, function.__code__, function.__module__
        for value in (*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()):
            self._keep(value, home)
        self._kept.append(functools.partial(_restore_names, function.__dict__, dict(function.__dict__)))
        if "environ" in code.co_names:
            self._kept.append(functools.partial(_restore_names, os.environ, dict(os.environ)))
        by_text = code.co_consts if "globals" in code.co_names else ()
        assigned = {step.argval for step in dis.get_instructions(code) if step.opname == "STORE_GLOBAL"}
        for name in (*code.co_names, *by_text):
            if name in names:
                self._keep(names[name], home)
                if isinstance(names[name], _REBOUND):
                    self._kept.append(functools.partial(names.__setitem__, name, names[name]))
            elif name in by_text or name in assigned:
                self._kept.append(functools.partial(names.pop, name, None))
        for cell in function.__closure__ or ():
            try:
                value = cell.cell_contents
            except ValueError:
                continue  # not assigned yet
            self._keep(value, home)
            if isinstance(value, _REBOUND):
                self._kept.append(functools.partial(setattr, cell, "cell_contents", value))

    def _keep(self, value: Any, home: str) -> None:
        """Keep the content of *value* if it is plain data, or an object of a class that the module *home* defines."""
        if isinstance(value, ContextVar):
            value = value.get(None)
        if id(value) in self._seen or not _is_data(value, home):
            return
        self._seen.add(id(value))
        if isinstance(value, threading.local):
            self._kept.append(_Local(value).restore)
            return
        try:
            copied = copy.deepcopy(value)
        except Exception:  # noqa: BLE001 - objects of the product may refuse to be copied in any way
            self._keep_parts(value, home)
            return
        if copied is not value:
            self._kept.append(functools.partial(_restore, value, copied))

    def _keep_parts(self, value: Any, home: str) -> None:
        """Keep what can be copied of an object that cannot, such as one with a lock."""
        if hasattr(value, "__dict__"):
            for each in vars(value).values():
                self._keep(each, home)
            self._kept.append(functools.partial(_restore_names, vars(value), dict(vars(value))))


class _Local:
    """The values of a `threading.local` in the thread of the check, as the first process finds them."""

    def __init__(self, value: threading.local) -> None:
        self._value = value
        self._first: dict[str, Any] | None = None

    def restore(self) -> None:
        """Restore them."""
        if self._first is None:
            self._first = dict(vars(self._value))
        _restore_names(vars(self._value), self._first)


def _used(owner: Any, hook: Any) -> Iterator[Any]:
    """Yield the function of *hook*, the methods of *owner*, the functions, caches and classes that it uses."""
    todo: list[Any] = [hook]
    seen: set[Any] = set()
    while todo:
        used = todo.pop()
        if hasattr(used, "cache_clear"):
            yield used
        if hasattr(used, "__wrapped__"):
            used = inspect.unwrap(used)
        if isinstance(used, type) and used not in seen and used.__module__ == type(owner).__module__:
            seen.add(used)
            yield used
            todo += [getattr(each, "__func__", each) for each in vars(used).values()]
        if not inspect.isfunction(used) or used in seen:
            continue
        seen.add(used)
        yield used
        for name in used.__code__.co_names:
            todo.append(getattr(type(owner), name, None) or used.__globals__.get(name))
        todo += [each for each in used.__code__.co_consts if inspect.isfunction(each)]


def _is_data(value: Any, home: str) -> bool:
    """Return whether *value* is plain data, or an object of a class that the module *home* defines."""
    if isinstance(value, (*_PLAIN, threading.local, queue.Queue)):
        return True
    kind = type(value)
    return kind.__module__ == home and not isinstance(value, type | Tool | AgentConfig) and hasattr(value, "__dict__")


def _restore(value: Any, copied: Any) -> None:
    fresh = copy.deepcopy(copied)
    if isinstance(value, list | bytearray):
        value[:] = fresh
    elif isinstance(value, deque):
        value.clear()
        value.extend(fresh)
    elif isinstance(value, dict | set):
        value.clear()
        value.update(fresh)
    else:
        vars(value).clear()
        vars(value).update(vars(fresh))


def _restore_names(names: MutableMapping[str, Any], before: dict[str, Any]) -> None:
    for name in [name for name in names if name not in before]:
        del names[name]
    for name, value in before.items():
        if names.get(name) is not value and names.get(name) != value:
            names[name] = value


def _restore_class(kind: type, before: dict[str, Any]) -> None:
    now = vars(kind)
    for name in [name for name in now if name not in before and not name.startswith("__")]:
        if name != "_abc_impl":
            delattr(kind, name)
    for name, value in before.items():
        if now.get(name) is not value and isinstance(value, _REBOUND):
            setattr(kind, name, value)


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


def _is_copied(value: Any) -> bool:
    return _copied(value, {}) is not value or isinstance(value, _REBOUND)
