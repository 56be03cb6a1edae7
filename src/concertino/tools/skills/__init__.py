"""Agent Skills (https://agentskills.io): folders with instructions, files and scripts that a model loads on demand."""

from ..sandbox.script import ScriptLimits
from .skill import Skill, load_skills
from .skill_tools import LOAD_SKILL, READ_SKILL_FILE, RUN_SKILL_SCRIPT, skill_tools

__all__ = [
    "LOAD_SKILL",
    "READ_SKILL_FILE",
    "RUN_SKILL_SCRIPT",
    "ScriptLimits",
    "Skill",
    "load_skills",
    "skill_tools",
]
