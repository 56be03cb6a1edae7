"""Workflow definitions in YAML and TOML files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any, get_type_hints

from ...errors import ConfigurationError
from ..stuck import StuckDetection
from ..worker.definition import check_fields
from ..worker.definition_file import read_values
from .workflow import AgentStep, HumanStep, Loop, PlannedStep, Routing, ScriptedStep, Step, Verifier, Workflow

_KINDS: dict[str, type[Any]] = {
    "agent": AgentStep,
    "verified": AgentStep,
    "planned": PlannedStep,
    "scripted": ScriptedStep,
    "human": HumanStep,
    "loop": Loop,
}
_TUPLES = ("tools", "who")
_NESTED = ("steps", "routing", "stuck", "verifier")
"""Fields with definitions of their own."""


def load_workflow(path: str | Path) -> Workflow:
    """Return the workflow that the file at *path* defines: TOML, or YAML with the extra `yaml`.

    The file has the fields of `Workflow`. Each step has a `kind`: agent, verified, planned, scripted, human or loop.
    Raises `ConfigurationError` if the file cannot be read or a field is invalid, and `MissingExtraError`.
    """
    path = Path(path)
    try:
        return workflow_of(read_values(path))
    except RecursionError:
        raise ConfigurationError(f"{path}: its values contain themselves, or are nested too deeply") from None
    except ConfigurationError as error:
        text = str(error)
        raise ConfigurationError(text if text.startswith(str(path)) else f"{path}: {text}") from None


def workflow_of(values: Any) -> Workflow:
    """Return the workflow that *values* describe. Raises `ConfigurationError`."""
    given = dict(_mapping("the workflow", values, Workflow))
    for name, kind in (("routing", Routing), ("stuck", StuckDetection)):
        if given.get(name) is not None:
            given[name] = kind(**_mapping(name, given[name], kind))
    return Workflow(**{**given, "steps": [_step(each) for each in _list("steps", given["steps"])]})


def _step(values: Any) -> Step | Loop:
    kind = values.get("kind") if isinstance(values, Mapping) else None
    if not isinstance(kind, str) or kind not in _KINDS:
        raise ConfigurationError(f"step {values!r:.80}: invalid kind {kind!r:.80}: choose from {', '.join(_KINDS)}")
    rest = {name: value for name, value in values.items() if name != "kind"}
    owner = f"step {rest.get('id', kind)!r:.80}"
    for name in _TUPLES:
        if name in rest:
            rest[name] = tuple(_list(f"{owner}: {name}", rest[name]))
    given = dict(_mapping(owner, rest, _KINDS[kind]))
    if kind == "loop":
        given["steps"] = [_step(each) for each in _list(f"{owner}: steps", given["steps"])]
    if kind == "verified":
        given.setdefault("verifier", {})
    if given.get("verifier") is not None:
        given["verifier"] = Verifier(**_mapping(f"{owner}: verifier", given["verifier"], Verifier))
    made: Step | Loop = _KINDS[kind](**given)
    return made


def _mapping(owner: str, values: Any, kind: type[Any]) -> Mapping[str, Any]:
    """Return *values* if they are fields of *kind*: known names, none missing, of the right types."""
    if not isinstance(values, Mapping) or not all(isinstance(name, str) for name in values):
        raise ConfigurationError(f"{owner}: invalid value {values!r:.80}: use fields by name")
    check_fields(owner, values, kind)
    for each in fields(kind):
        if each.name not in values:
            if each.default is MISSING and each.default_factory is MISSING:
                raise ConfigurationError(f"{owner}: {each.name!r} is missing")
        elif each.name not in _NESTED:
            _check_type(f"{owner}: invalid {each.name}", values[each.name], get_type_hints(kind)[each.name])
    return values


def _check_type(what: str, value: Any, kind: Any) -> None:
    from pydantic import ConfigDict, TypeAdapter, ValidationError  # noqa: PLC0415 - slow to import

    try:
        TypeAdapter(kind, config=ConfigDict(arbitrary_types_allowed=True)).validate_python(value, strict=True)
    except ValidationError as error:
        raise ConfigurationError(f"{what} {value!r:.80}: {error.errors(include_url=False)[0]['msg']}") from None


def _list(owner: str, values: Any) -> list[Any]:
    if not isinstance(values, list):
        raise ConfigurationError(f"{owner}: invalid list {values!r:.80}: use '- ' for each item")
    return values
