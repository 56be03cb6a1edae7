"""The tool of the target `sandbox`, which runs code that a model has written."""

from __future__ import annotations

import asyncio
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from ..base import Tool, ToolContext
from .script import ScriptLimits, run_script

RUN_CODE = "run_code"
SANDBOX = "sandbox"
"""The target of the tool."""
_ENDINGS = {"python": ".py", "shell": ".sh"}
_PATIENCE = 60.0
"""Seconds that a call may wait for a free process of the target."""


class RunCode(Tool):
    """Runs Python or shell code in a subprocess within *limits*, in a folder that is removed after the call.

    Its calls run in the processes of the target `sandbox`, or of another *target*, which need `Runtime([RunCode()])`.
    The code has the permissions of that process, also for Unix sockets in the file system, and its limits of CPU and
    memory apply to each process that it starts. So run the target on its own machine or in a container.
    """

    name = RUN_CODE
    description = (
        "Run a program and return what it prints. It starts in an empty folder, which is removed afterwards, and has "
        "no network. A call cannot use the files of an earlier one."
    )
    parameters = {  # noqa: RUF012 - never changed
        "type": "object",
        "properties": {
            "language": {"type": "string", "enum": list(_ENDINGS)},
            "code": {"type": "string", "minLength": 1, "description": "The whole program"},
        },
        "required": ["language", "code"],
        "additionalProperties": False,
    }

    def __init__(self, limits: ScriptLimits | None = None, *, target: str = SANDBOX) -> None:
        self._limits = limits or ScriptLimits()
        self.target = target
        self.timeout = self._limits.seconds + _PATIENCE

    async def execute(self, arguments: dict[str, Any], context: ToolContext) -> str:
        """Return the output. Raises `ToolError` with it if the program fails."""
        made = tempfile.TemporaryDirectory(prefix="code-", ignore_cleanup_errors=True)
        try:
            program = Path(made.name, f"main{_ENDINGS[arguments['language']]}")
            await asyncio.to_thread(program.write_text, arguments["code"], "utf-8", "replace")
            return await run_script(program, (), program.parent, self._limits)
        finally:  # in a thread: there may be very many files
            await asyncio.shield(asyncio.to_thread(_remove, made))


def _remove(folder: tempfile.TemporaryDirectory[str]) -> None:
    try:
        folder.cleanup()
    except RecursionError:
        subprocess.run(["rm", "-rf", "--", folder.name], check=False)
