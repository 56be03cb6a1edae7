"""The tools with which a model uses skills."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Callable, Iterable, Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from ...errors import ConfigurationError, ToolError
from ..base import Tool, ToolContext
from ..sandbox.script import ScriptLimits, run_script
from .skill import MAIN, Skill

LOAD_SKILL, READ_SKILL_FILE, RUN_SKILL_SCRIPT = "load_skill", "read_skill_file", "run_skill_script"
_MOST_BYTES = 200_000
_NAME = {"type": "string", "description": "The name of the skill"}
_FILE = {"type": "string", "description": "The path of the file, as load_skill lists it"}


class _SkillTool(Tool):
    def __init__(self, skills: Mapping[str, Skill]) -> None:
        self._skills = skills

    def _find(self, name: str) -> Skill:
        skill = self._skills.get(name)
        if skill is None:
            raise ToolError(f"there is no skill {name!r:.100}; choose from {', '.join(self._skills):.2000}")
        return skill


class LoadSkill(_SkillTool):
    """Returns the instructions of a skill."""

    name = LOAD_SKILL
    description = "Load the instructions of a skill before you do what it is for. They name its files and scripts."
    parameters = {"type": "object", "properties": {"name": _NAME}, "required": ["name"]}  # noqa: RUF012 - never changed
    effect = "read"
    counts_as_iteration = False

    async def execute(self, arguments: dict[str, Any], context: ToolContext) -> str:
        """Return the body and the list of files."""
        skill = self._find(arguments["name"])
        body, files = await asyncio.to_thread(lambda: (skill.body(), skill.files()))
        return f"{body}\n\nFiles: {', '.join(files)}" if files else body


class ReadSkillFile(_SkillTool):
    """Returns a file of a skill."""

    name = READ_SKILL_FILE
    description = "Read a file of a skill that you have loaded."
    parameters = {  # noqa: RUF012 - never changed
        "type": "object",
        "properties": {"name": _NAME, "file": _FILE},
        "required": ["name", "file"],
    }
    effect = "read"

    async def execute(self, arguments: dict[str, Any], context: ToolContext) -> str:
        """Return the text of the file."""
        return await asyncio.to_thread(_read, self._find(arguments["name"]).path(arguments["file"]))


class RunSkillScript(_SkillTool):
    """Runs a script of a skill."""

    name = RUN_SKILL_SCRIPT
    description = "Run a script of a skill that you have loaded, and return its output."
    parameters = {  # noqa: RUF012 - never changed
        "type": "object",
        "properties": {
            "name": _NAME,
            "file": _FILE,
            "arguments": {"type": "array", "items": {"type": "string"}, "maxItems": 100},
        },
        "required": ["name", "file"],
    }
    effect = "once"

    def __init__(
        self, skills: Mapping[str, Skill], limits: ScriptLimits, folder: Callable[[ToolContext], Path] | None
    ) -> None:
        super().__init__(skills)
        self.timeout = limits.seconds + 10  # the script's own limit names the cause
        self._limits = limits
        self._folder = folder

    async def execute(self, arguments: dict[str, Any], context: ToolContext) -> str:
        """Return the output. Raises `ToolError` with it if the script fails."""
        script = self._find(arguments["name"]).path(arguments["file"])
        if script.name == MAIN:
            raise ToolError(f"{MAIN} is not a script")
        own = None if self._folder is None else self._folder(context)
        with tempfile.TemporaryDirectory(prefix="skill-") if own is None else nullcontext(str(own)) as name:
            return await run_script(script, arguments.get("arguments", ()), Path(name), self._limits)


def skill_tools(
    skills: Iterable[Skill],
    *,
    scripts: ScriptLimits | None = None,
    folder: Callable[[ToolContext], Path] | None = None,
) -> tuple[Tool, ...]:
    """Return the tools for *skills*: load one, read its files and, with *scripts*, run its scripts within these limits.

    A script runs in *folder*; the default is a new folder, which is removed after the call. Raises `ConfigurationError`
    if two skills have the same name.
    """
    by_name: dict[str, Skill] = {}
    for skill in skills:
        if by_name.setdefault(skill.name, skill) is not skill:
            folders = f"{by_name[skill.name].folder} and {skill.folder}"
            raise ConfigurationError(f"two skills are named {skill.name!r}: {folders}; rename one")
    reading = (LoadSkill(by_name), ReadSkillFile(by_name))
    return reading if scripts is None else (*reading, RunSkillScript(by_name, scripts, folder))


def _read(path: Path) -> str:
    with path.open("rb") as file:
        data = file.read(_MOST_BYTES + 1)
    try:
        text = data[:_MOST_BYTES].decode()
    except UnicodeDecodeError:
        if b"\0" in data[:1_000]:
            raise ToolError(f"{path.name} is not a text") from None
        text = data[:_MOST_BYTES].decode(errors="replace")
    return f"{text}\n[the rest of the file is left out]" if len(data) > _MOST_BYTES else text
