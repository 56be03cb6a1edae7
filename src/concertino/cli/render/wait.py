"""A waiting call, for people and as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from rich.text import Text

from ...waits import Wait
from .format import iso, moment, one_line, readable, waits_for


def wait_lines(wait: Wait, commands: Sequence[str]) -> Iterator[Text]:
    """Describe a waiting call and the *commands* that answer it."""
    arguments = one_line(readable(wait.arguments), 300) if wait.arguments else "(arguments erased)"
    yield Text(one_line(f"{wait.agent_path}: {wait.tool} {waits_for(wait.kind)}: {arguments}"), "magenta")
    if wait.note:
        yield Text(f"  reason    {one_line(wait.note, 300)}")
    yield Text(f"  key       {one_line(wait.key)}")
    yield Text(f"  who       {', '.join(map(one_line, wait.who)) or 'anyone'}")
    yield Text(f"  until     {'no deadline' if wait.expires is None else moment(wait.expires) + ' UTC'}")
    for command in commands:
        yield Text(f"  {one_line(command)}")


def wait_object(wait: Wait) -> dict[str, Any]:
    """Return a wait as JSON."""
    resolution = wait.resolution
    return {
        "key": wait.key,
        "run_id": wait.run_id,
        "root_id": wait.root_id,
        "agent_path": wait.agent_path,
        "tool": wait.tool,
        "waits_for": wait.kind,
        "arguments": wait.arguments,
        "who": list(wait.who),
        "note": wait.note,
        "opened": iso(wait.opened),
        "expires": iso(wait.expires),
        "verdict": None if resolution is None else resolution.verdict,
        "by": None if resolution is None else resolution.by,
        "at": None if resolution is None else iso(resolution.at),
    }
