"""The settings of `Work.ask`, in a module of their own that is loaded with the first question."""

from __future__ import annotations

from typing import TypedDict

from ..events import Audience
from ..messages import Effort


class AskSettings(TypedDict, total=False):
    """Settings of a question to a model; None is the default of each."""

    system: str | None
    """The system prompt; the default is the run's own."""
    model: str | None
    """The id of the model (`provider:name`); the default is the run's own."""
    max_output_tokens: int | None
    """The length of the longest answer; the default is the model's limit in this run."""
    seconds: float | None
    """The time limit, retries included; by default there is no limit."""
    audience: Audience
    """Intended readers of the answer while it arrives. `internal` (the default) streams nothing; `draft` and `answer`
    stream `TextDelta` events of that audience. For a sub-agent, `answer` counts as `draft`."""
    effort: Effort | None
    """The amount of reasoning; the default is the model's."""
    temperature: float | None
