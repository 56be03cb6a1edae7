"""The part that offers Agent Skills."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...messages import ToolCall
from ...orchestrator.agent import Part
from ...orchestrator.outcome import Allow, Ask
from ...orchestrator.run import RunContext
from ...storage.base import ApprovalRules
from ...tools.base import ToolContext
from .approvals import is_allowed

if TYPE_CHECKING:
    from ...tools.skills import ScriptLimits, Skill

_HEADING = "# Skills\nBefore you do what a skill is for, load its instructions with `load_skill`."


class Skills(Part):
    """Lists *skills* in the prompt, one line each, and offers the tools that load them and read their files.

    With *scripts*, the limits of a script, it also offers a tool that runs scripts. Each such call needs a person's
    approval, unless *approve* is False or a rule of the user in *rules*, a store, allows it. A script runs in *folder*;
    the default is a new folder, which is removed after the call. Raises `ConfigurationError` if two skills have the
    same name.
    """

    def __init__(
        self,
        skills: Iterable[Skill],
        *,
        scripts: ScriptLimits | None = None,
        folder: Callable[[ToolContext], Path] | None = None,
        approve: bool = True,
        rules: ApprovalRules | None = None,
    ) -> None:
        from ...tools.skills import skill_tools  # noqa: PLC0415 - few agents have skills

        skills = tuple(skills)
        self.tools = skill_tools(skills, scripts=scripts, folder=folder)
        self.prompt = "\n".join([_HEADING, *[f"- {skill.name}: {skill.description}" for skill in skills]])
        self._approve = approve
        self._rules = rules

    async def authorize_tool_call(self, run: RunContext[Any], call: ToolCall, arguments: dict[str, Any]) -> Allow | Ask:
        """Ask before a script runs."""
        from ...tools.skills import RUN_SKILL_SCRIPT  # noqa: PLC0415 - as above

        if not self._approve or call.name != RUN_SKILL_SCRIPT:
            return Allow()
        return Allow() if await is_allowed(self._rules, run, call.name) else Ask()
