"""Code in subprocesses with limits: the scripts of skills, and the tool of the target `sandbox`."""

from .run_code import RUN_CODE, SANDBOX, RunCode
from .script import ScriptLimits

__all__ = ["RUN_CODE", "SANDBOX", "RunCode", "ScriptLimits"]
