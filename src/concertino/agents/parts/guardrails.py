"""Parts that check what enters and leaves an agent: messages of users, answers, tool calls and their results."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from typing import Any

from ...messages import AssistantMessage, Text, ToolCall
from ...orchestrator.agent import Part
from ...orchestrator.outcome import Allow, Deny, Finish, Outcome, Special
from ...orchestrator.run import RunContext
from ...records import record


@record
class Refusal:
    """A guardrail's decision to end the run with this *answer* to the user."""

    answer: str


Judgment = str | Refusal | None
"""None admits a text, a string replaces it, and `Refusal` refuses it."""
TextCheck = Callable[[RunContext[Any], str], Judgment | Awaitable[Judgment]]
"""Checks a text; it may ask a model with `run.ask`."""
CallCheck = Callable[[RunContext[Any], ToolCall, dict[str, Any]], str | Awaitable[str | None] | None]
"""Checks a tool call with its arguments. A string denies the call; the model reads it as the reason."""
ResultCheck = Callable[[RunContext[Any], ToolCall, str], str | Awaitable[str | None] | None]
"""Checks the result of a tool call. A string replaces it."""


class InputGuardrail(Part):
    """Checks each message of the user before a model sees it, including messages to a running agent.

    If the check raises, the run ends, so that nothing passes unchecked.
    """

    def __init__(self, check: TextCheck) -> None:
        self._check = check

    async def review_input(self, run: RunContext[Any], text: str) -> str | Finish:
        """Return the text that the check admits, or end the run with its answer."""
        judgment = await _judged(self._check(run, text))
        if isinstance(judgment, Refusal):
            return Finish(judgment.answer)
        return text if judgment is None else judgment


class OutputGuardrail(Part):
    """Checks the text of each answer before the consumer gets any piece of it.

    All pieces are held back until the check returns, including those of attempts that fail and are repeated. A refused
    answer enters neither the conversation nor the store, and its calls do not run. The reasoning of a replaced answer
    is dropped.
    """

    def __init__(self, check: TextCheck) -> None:
        self._check = check

    async def review_answer(self, run: RunContext[Any], message: AssistantMessage) -> AssistantMessage | Finish:
        """Return the answer that the check admits, or end the run with the check's own answer."""
        if not message.text:
            return message
        judgment = await _judged(self._check(run, message.text))
        if isinstance(judgment, Refusal):
            return Finish(judgment.answer)
        if judgment is None or judgment == message.text:
            return message
        return AssistantMessage((Text(judgment), *message.tool_calls), message.stop_reason, message.model)


class ToolGuardrail(Part):
    """Checks tool calls before they run, and their results before the model reads them.

    Consumers and observers have already seen the original of a replaced result in a `ToolDone` event. A second one
    follows, and the log of a `Runtime` removes the first. For results that must not be stored even for that time, use a
    data policy.
    """

    def __init__(self, calls: CallCheck | None = None, results: ResultCheck | None = None) -> None:
        self._calls = calls
        self._results = results

    async def authorize_tool_call(
        self, run: RunContext[Any], call: ToolCall, arguments: dict[str, Any]
    ) -> Allow | Deny:
        """Deny the calls that the check refuses."""
        reason = None if self._calls is None else await _judged(self._calls(run, call, arguments))
        return Allow() if reason is None else Deny(reason)

    async def handle_special_tools(self, run: RunContext[Any], call: ToolCall, outcome: Outcome) -> Special | None:
        """Replace the results that the check refuses; the original is not kept."""
        whole = outcome.content if outcome.whole is None else outcome.whole
        text = None if self._results is None else await _judged(self._results(run, call, whole))
        return None if text is None else Special(result=text, withhold=True)


async def _judged(judgment: Any) -> Any:
    return await judgment if inspect.isawaitable(judgment) else judgment
