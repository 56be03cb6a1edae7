"""Targets of a fleet: their names, and the names of the runs that call a tool in a process of a target."""

from __future__ import annotations

import re

from .errors import ConfigurationError

_TARGET = re.compile(r"[a-z0-9_-]+")
SINGLE = "svc1_"
"""The beginning of the names of targets that have exactly one consumer."""
_SINGLE = re.compile(SINGLE + r"[a-z0-9-][a-z0-9_-]*_[a-z0-9_-]*[a-z0-9-]")
_TOOL_RUN = "tool"


def check_target(target: str) -> None:
    """Raise `ConfigurationError` if *target* cannot be the name of a target."""
    if not isinstance(target, str) or not _TARGET.fullmatch(target):
        raise ConfigurationError(f"invalid target {target!r:.80}: it is a part of a subject, so use a-z, 0-9, _ and -")
    if target.startswith(SINGLE) and not _SINGLE.fullmatch(target):
        raise ConfigurationError(
            f"invalid target {target!r:.80}: a target with one consumer is named {SINGLE}<service>_<scope>, such as "
            "svc1_billing_prod"
        )


def tool_run(target: str, tool: str) -> str:
    """Return the name, in place of an agent's, of the runs that call *tool* in the processes of *target*."""
    return f"{_TOOL_RUN}:{target}:{tool}"


def called_tool(agent: str) -> tuple[str, str] | None:
    """Return the target and the tool of a run that calls a tool; None for the run of an agent."""
    kind, *names = agent.split(":")
    return (names[0], names[1]) if kind == _TOOL_RUN and len(names) == 2 else None
