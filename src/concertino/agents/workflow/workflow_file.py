"""Workflow definitions in YAML and TOML files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

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


def load_workflow(path: str | Path) -> Workflow:
    """Return the workflow that the file at *path* defines: TOML, or YAML with the extra `yaml`.

    The file has the fields of `Workflow`. Each step has a `kind`: agent, verified, planned, scripted, human or loop.
    Raises `ConfigurationError` if the file cannot be read or a field is invalid, and `MissingExtraError`.
    """
    path = Path(path)
    try:
        return workflow_of(read_values(path))
    except (ConfigurationError, TypeError) as error:
        text = str(error)
        raise ConfigurationError(text if text.startswith(str(path)) else f"{path}: {text}") from None


def workflow_of(values: Any) -> Workflow:
    """Return the workflow that *values* describe. Raises `ConfigurationError`, or `TypeError` if a field is missing."""
    given = dict(_mapping("workflow", values, Workflow))
    for name, kind in (("routing", Routing), ("stuck", StuckDetection)):
        if given.get(name) is not None:
            given[name] = kind(**_mapping(name, given[name], kind))
    return Workflow(**{**given, "steps": [_step(each) for each in _list(given.get("steps"))]})


def _step(values: Any) -> Step | Loop:
    kind = values.get("kind") if isinstance(values, Mapping) else None
    if kind not in _KINDS:
        raise ConfigurationError(f"a step has the invalid kind {kind!r:.80}: choose from {', '.join(_KINDS)}")
    rest = {name: value for name, value in values.items() if name != "kind"}
    given = dict(_mapping(f"step {rest.get('id', kind)!r}", rest, _KINDS[kind]))
    if kind == "loop":
        given["steps"] = [_step(each) for each in _list(given.get("steps"))]
    if kind == "verified":
        given.setdefault("verifier", {})
    if given.get("verifier") is not None:
        given["verifier"] = Verifier(**_mapping("verifier", given["verifier"], Verifier))
    for name in _TUPLES:
        if name in given:
            given[name] = tuple(map(str, _list(given[name])))
    made: Step | Loop = _KINDS[kind](**given)
    return made


def _mapping(owner: str, values: Any, kind: type[Any]) -> Mapping[str, Any]:
    if not isinstance(values, Mapping) or not all(isinstance(name, str) for name in values):
        raise ConfigurationError(f"invalid {owner} {values!r:.80}: use fields by name")
    check_fields(owner, values, kind)
    return values


def _list(values: Any) -> list[Any]:
    if not isinstance(values, list):
        raise ConfigurationError(f"invalid list {values!r:.80}: use '- ' for each item")
    return values
