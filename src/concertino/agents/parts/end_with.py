"""The part with which a run ends by a tool call."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from typing import Any
from weakref import WeakKeyDictionary

from ...errors import ConfigurationError
from ...messages import AssistantMessage, ForcedTool, ToolCall, ToolChoice, ToolMessage
from ...orchestrator.agent import Part
from ...orchestrator.outcome import Continue, Fail, Finish, NextStep, Outcome, Special, card_line
from ...orchestrator.run import RunContext
from ...tools.base import Tool, ToolContext, ToolResult
from ...tools.registry import ToolRegistry

SUBMIT_RESULT = "submit_result"


class EndWith(Part):
    """Ends the run with the result of the first successful call of one of *tools*.

    With *fields*, the names and descriptions of a result's fields, the part offers such a tool, `submit_result`. The
    answer is the result as JSON, and `RunResult.data` has it as the data of the tool. A field that the model leaves out
    is null, and a `Notice` names it. Of several results in one step, the first counts, and the others fail.

    The other calls of the step run, also those after the call that ends the run.

    If a call is *required* and the model answers without calling a tool, it is asked for the call, until a limit of the
    run is reached. *required* may also name some of the tools: the model is asked for these, and the others end the run
    too.

    Raises `ConfigurationError` without tools and fields, and if *required* names another tool.
    """

    def __init__(
        self, *tools: str, fields: Mapping[str, str] | None = None, required: bool | Collection[str] = True
    ) -> None:
        names = (*tools, *((SUBMIT_RESULT,) if fields else ()))
        if not names or not all(isinstance(name, str) and name for name in names):
            raise ConfigurationError(
                f"EndWith({tools!r:.80}): name tools that end the run, or give the fields of a result"
            )
        self._names = dict.fromkeys(names)
        self._fields = dict(fields or {})
        if isinstance(required, bool):
            required = names if required else ()
        if isinstance(required, str) or not isinstance(required, Collection) or not self._names.keys() >= {*required}:
            raise ConfigurationError(
                f"EndWith(required={required!r:.80}): use True, False, or a list of some of {', '.join(self._names)}"
            )
        self._required = dict.fromkeys(required)
        self._submitted: WeakKeyDictionary[ToolRegistry, int] = WeakKeyDictionary()
        """The last step with a result, by the registry of the run."""
        if fields:
            self.tools = (SubmitResult(self._fields),)

    def on_no_tool_calls(self, run: RunContext[Any]) -> NextStep:
        """Ask for the call."""
        offered = [name for name in self._required if name in run.registry]
        if not offered:
            return Finish()
        choice: ToolChoice = ForcedTool(offered[0]) if len(offered) == 1 else "required"
        return Continue(prompt=f"End your work with a call of {' or '.join(offered)}.", tool_choice=choice)

    def handle_special_tools(self, run: RunContext[Any], call: ToolCall, outcome: Outcome) -> Special | None:
        """Let a second `submit_result` of a step fail, without data."""
        if outcome.is_error or not self._fields or call.name != SUBMIT_RESULT:
            return None
        if self._submitted.get(run.registry) != run.state.step:
            self._submitted[run.registry] = run.state.step
            return None
        outcome.is_error = True
        return Special(result="refused: a result was already submitted in this step, and counts", withhold=True)

    def after_step(self, run: RunContext[Any], outcome: NextStep) -> NextStep:
        """Finish with the first result of the step's calls."""
        ended = None
        for message in reversed(run.messages):
            if isinstance(message, AssistantMessage):
                break
            if isinstance(message, ToolMessage) and message.name in self._names and not message.is_error:
                ended = message
        if ended is None or isinstance(outcome, Fail):
            return outcome
        result = ended.content.removesuffix(card_line(ended))
        if ended.name == SUBMIT_RESULT and (missing := self._missing(result)):
            run.notify("result_incomplete", f"the submitted result lacks: {', '.join(missing)}")
        return Finish(result)

    def _missing(self, result: str) -> list[str]:
        """Return the fields that *result* lacks."""
        try:
            data = json.loads(result)
        except ValueError:
            data = None
        if not isinstance(data, dict):
            return []  # a hook, such as that of a guardrail, has replaced the result
        return [name for name in self._fields if data.get(name) is None]


class SubmitResult(Tool):
    """The tool `submit_result`, with a parameter for each field.

    No field is required: a partial result is better than no result.
    """

    name, effect, counts_as_iteration = SUBMIT_RESULT, "read", False
    description = "Submit the result of your work, once, with all fields. It ends your work."

    def __init__(self, fields: Mapping[str, str]) -> None:
        self._fields = tuple(fields)
        properties = {name: {"description": described} for name, described in fields.items()}
        self.parameters = {"type": "object", "properties": properties, "required": []}

    async def execute(self, arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        """Return the fields as JSON."""
        data = {name: arguments.get(name) for name in self._fields}
        return ToolResult(json.dumps(data, ensure_ascii=False), data=data)
