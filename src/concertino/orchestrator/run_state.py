"""The state of a run: small, plain and serializable, so that any process can resume the run."""

from __future__ import annotations

from dataclasses import field

from ..errors import LimitReason
from ..messages import ToolChoice
from ..records import record


@record(frozen=False)
class RunState:
    """The progress of a run. Hooks read it; only the engine changes it."""

    step: int = 0
    """The number of steps begun."""
    iteration: int = 0
    """The count that the limit of tool calls applies to."""
    has_tool_calls: bool = True
    """Whether the last step called tools; True before the first step, so that the loop starts."""
    tool_choice: ToolChoice = "auto"
    """The tool choice of the next step."""
    tool_calls: dict[str, int] = field(default_factory=dict)
    """The number of tool calls by agent path, sub-agents included."""
    calls_of: dict[str, int] = field(default_factory=dict)
    """The number of this run's own calls by tool."""
    errored_tools: tuple[str, ...] = ()
    """Tools that failed in the last step."""
    disabled_tools: tuple[str, ...] = ()
    """Tools that the model called in the last step although they are not enabled."""
    limit: LimitReason | None = None
    """The limit that was reached; None if none was."""
    last_step: int = 0
    """The step after which the run ends, since a limit was reached; 0 for none."""
    prompt: str = ""
    """Text for the model that the next request alone contains; see `Continue.prompt`."""
    text: str = ""
    """The model's last text; the answer, unless the agent concludes otherwise."""
