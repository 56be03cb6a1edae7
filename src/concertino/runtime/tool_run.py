"""Runs that call a tool for a run in another process."""

from __future__ import annotations

import copy
from collections.abc import AsyncIterator
from typing import Any

from ..errors import ConcertinoError, ConfigurationError
from ..messages import AssistantMessage, ToolCall, ToolMessage
from ..orchestrator.chat import Chat
from ..orchestrator.journal.data_policy import DataPolicy
from ..orchestrator.outcome import Finish, NextStep, Turn
from ..orchestrator.resources import Resources
from ..orchestrator.run import RunContext
from ..orchestrator.tool_calls.called_run import result_text
from ..providers.base import Model, ModelEvent, ModelRequest
from ..targets import tool_run
from ..tools.base import Tool, ToolResult
from .own_agent import OwnAgent


class ToolRun(OwnAgent):
    """Calls *tool* once, with the message as its arguments, and answers with the result. No model is asked.

    A run, and not a bare call, so that a crash, a stop, an approval and a wait have the rules that they always have.
    """

    audience = "internal"
    enable_global_context_update = False

    def __init__(self, tool: Tool, policy: DataPolicy) -> None:
        super().__init__(policy)
        self.name = tool_run(tool.target, tool.name)
        here = copy.copy(tool)
        here.target = ""
        self.tools = (here,)

    def answer_without_model(self, run: RunContext[Any]) -> Turn:
        """Call the tool."""
        call = ToolCall(f"{run.id}.1", self.tools[0].name, run.chat.message)
        return Turn(AssistantMessage((call,)), (call,))

    def after_step(self, run: RunContext[Any], outcome: NextStep) -> NextStep:
        """Finish with the result. The step itself finishes only if the result ends the run of the caller."""
        message = run.messages[-1]
        assert isinstance(message, ToolMessage)
        content = message.content if message.whole is None else message.whole
        data = run.data.get(message.name)
        ends_run = isinstance(outcome, Finish)
        result = ToolResult(content, data, message.summary, message.media, message.stored, ends_run)
        return Finish(result_text(content, is_error=message.is_error, result=result))


class _NoModel:
    """Stands for a model that this process cannot open: most tools ask none."""

    def __init__(self, wanted: str, why: str) -> None:
        self.provider, _, self.name = wanted.partition(":")
        self._why = why

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """See the port."""
        raise ConfigurationError(f"this process cannot ask the model of the run that called the tool: {self._why}")
        yield  # makes it a generator

    async def close(self) -> None:
        """See the port."""


def model_for_tool(chat: Chat, resources: Resources) -> Model:
    """Return the model of the run that called the tool, for tools that ask one."""
    assert isinstance(chat.model, str)
    try:
        return resources.find_model(chat.model)
    except ConcertinoError as error:
        return _NoModel(chat.model, str(error))
