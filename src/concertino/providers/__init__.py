"""Models and their providers: the port, rate limits, and what is known about models.

The adapters are in `concertino.providers.anthropic`, `.openai` and `.google`.
"""

from typing import TYPE_CHECKING, Any

from ..messages import Effort
from .base import (
    Dropped,
    Logprob,
    Model,
    ModelEvent,
    ModelRequest,
    OutputSchema,
    ReasoningChunk,
    Reply,
    TextChunk,
    ToolCallChunk,
    ToolCallReady,
    model_id,
)
from .catalog import context_window, max_output_tokens, supported_efforts
from .http.time_limits import Timeouts
from .pricing import preload, price
from .rate_limit import RateLimit

if TYPE_CHECKING:
    from .shared_rate_limit import SharedRateLimit

__all__ = [
    "Dropped",
    "Effort",
    "Logprob",
    "Model",
    "ModelEvent",
    "ModelRequest",
    "OutputSchema",
    "RateLimit",
    "ReasoningChunk",
    "Reply",
    "SharedRateLimit",
    "TextChunk",
    "Timeouts",
    "ToolCallChunk",
    "ToolCallReady",
    "context_window",
    "max_output_tokens",
    "model_id",
    "preload",
    "price",
    "supported_efforts",
]


def __getattr__(name: str) -> Any:
    if name == "SharedRateLimit":
        from .shared_rate_limit import SharedRateLimit  # noqa: PLC0415 - only fleets need it

        return SharedRateLimit
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
