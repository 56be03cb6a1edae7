"""The state of a run: small, plain, and serializable, so that a run can be taken up elsewhere."""

from __future__ import annotations

from dataclasses import dataclass, field

from ..messages import ToolChoice


@dataclass(slots=True)
class RunState:
    """Where a run stands. Hooks read it; only the engine writes it."""

    step: int = 0
    """Steps begun."""
    iteration: int = 0
    """What is counted against the limit of tool calls."""
    has_tool_calls: bool = True
    """Whether the last step called tools; True before the first one, so that the loop begins."""
    tool_choice: ToolChoice = "auto"
    """For the next step."""
    tool_calls: dict[str, int] = field(default_factory=dict)
    """Calls that were run, by agent path, sub-agents included."""
    calls_of: dict[str, int] = field(default_factory=dict)
    """Calls of this run alone, by tool."""
    errored_tools: tuple[str, ...] = ()
    """Tools that failed in the last step."""
    disabled_tools: tuple[str, ...] = ()
    """Tools that the model called in the last step and may not use."""
    limit_reached: bool = False
    """Whether the agent was told that its limit of tool calls is reached."""
    budget_reached: bool = False
    """Whether the agent was told that a budget has no more room."""
    text: str = ""
    """What the model said last; the answer, unless the agent concludes otherwise."""


class ContentIndex:
    """A number that only grows, shared by all agents of a run tree."""

    __slots__ = ("value",)

    def __init__(self, value: int = 0) -> None:
        self.value = value

    def advance(self) -> None:
        """One further."""
        self.value += 1
