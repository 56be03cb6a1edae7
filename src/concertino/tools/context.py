"""What a tool is given beside its arguments."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..errors import ConfigurationError
from ..events import RunResult
from ..usage import Tokens
from .progress import Progress

if TYPE_CHECKING:
    from .registry import ToolRegistry


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """Who asks. It comes from the product's own session, never from a request's body or a model.

    Raises `ConfigurationError` for what is no text.
    """

    user_id: str = ""
    organization_id: str = ""
    plan: str = ""
    """The name of the user's plan, for the limits."""

    def __post_init__(self) -> None:
        for name in ("user_id", "organization_id", "plan"):
            if not isinstance(value := getattr(self, name), str):
                raise ConfigurationError(f"Session({name}=...) is {value!r:.80}; it must be text")


class ToolContext(ABC):
    """The call that a tool is answering, and what it may do meanwhile."""

    __slots__ = ()

    run_id: str
    call_id: str
    """The provider's id of the call. Some providers use one again: `key` is unique."""
    key: str
    """The engine's id of the call, the same whenever this very call is run again: hand it on as idempotency key."""
    tool: str
    agent_path: str
    session: Session
    deps: Any
    """The product's own object, as it was given to `Chat(deps=...)`."""
    progress: Progress
    """The steps that this call shows."""

    @abstractmethod
    async def spawn(
        self,
        agent: Any,
        task: str,
        *,
        registry: ToolRegistry | None = None,
        tool_call_limit: int | None = None,
    ) -> RunResult:
        """Run a sub-agent: *agent* is an `AgentConfig`, *task* what it is asked.

        Its events go into the parent's stream as they come; its usage and its tool calls roll up, also when it
        fails or is cancelled. Raises `RunError` if it fails.
        """

    @abstractmethod
    def add_usage(self, *, provider: str, model: str, tokens: Tokens) -> None:
        """Book a model call that the tool made by itself."""

    @abstractmethod
    def recall(self, handle: str) -> str | None:
        """The whole of what was cut, reduced or summarised under *handle*; None: there is nothing of that name."""

    @abstractmethod
    def beginning(self, text: str, spare: int = 0) -> str:
        """As much of *text*, from its beginning, as the result of this call may have and *spare* tokens besides. What a
        tool returns beyond that is cut in the middle."""

    @abstractmethod
    def stream(self, content: str) -> None:
        """Show a piece of the result to the consumer before the whole is there. From any thread."""
