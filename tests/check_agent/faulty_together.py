"""Agents whose faults show between two runs at once, beside `sys.stdout`, in shared values, and behind a normal end."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from contextvars import ContextVar
from dataclasses import replace
from typing import Any

from concertino import DataPolicy, ModelRequest, Part, ToolCall, ToolData, tool
from concertino.messages import ToolMessage

from .faulty_hidden import Counting
from .kit import Base, faulty

STEPS: ContextVar[dict[str, int]] = ContextVar("steps", default={})  # noqa: B039 - the fault


@faulty("shared")
class NamesTheLastUser(Base):
    user = ""

    def get_model_id(self, run: Any) -> str:
        type(self).user = run.chat.scope.user
        return str(run.model_id)

    def build_request(self, run: Any, request: ModelRequest) -> ModelRequest:
        return replace(request, system=f"{request.system} For {self.user}.")


@faulty("shared")
class PaysForAll(Base):
    paid: list[str] = []

    def on_tools_selected(self, run: Any, calls: Sequence[ToolCall]) -> None:
        self.paid.extend(each.id for each in calls if each.name == "pay")

    def conclude(self, run: Any, text: str) -> str:
        return text if len(self.paid) < 2 else f"{text} No money is left."


@faulty("policy")
class WritesToADescriptor(Base):
    def get_data_policy(self) -> DataPolicy:
        return DataPolicy(text="redact")

    def review_input(self, run: Any, text: str) -> str:
        os.write(2, text.encode())
        return text


@tool(effect="read")
async def balance(account: str) -> str:
    """Return the balance of an account."""
    return f"{account} has 3 euros"


class Bank(Part):
    tools = (balance,)


@faulty("policy")
class PrintsTheResultsOfAPart(Base):
    parts = (Bank(),)

    def get_data_policy(self) -> DataPolicy:
        return DataPolicy(tools={"balance": ToolData(results="redact")})

    def handle_special_tools(self, run: Any, call: ToolCall, outcome: Any) -> None:
        print(outcome.content)


@faulty("stop")
class LeavesAPoller(Base):
    async def prepare(self, run: Any) -> list[Any]:
        self.poller = asyncio.create_task(asyncio.Event().wait())
        return []


@faulty("message")
class BlanksTheResults(Base):
    def build_request(self, run: Any, request: ModelRequest) -> ModelRequest:
        request.messages = [
            replace(each, content="(left out)") if isinstance(each, ToolMessage) else each for each in request.messages
        ]
        return request


@faulty("input")
class ChangesTheTools(Base):
    def build_request(self, run: Any, request: ModelRequest) -> ModelRequest:
        for each in request.tools:
            each.parameters["x-step"] = run.state.step
        return request


@faulty("unstable")
class NamesTheRunObject(Base):
    def build_system_prompt(self, run: Any, prompt: str) -> str:
        return f"{prompt} Session {id(run):x}."


@faulty("resume")
class CountsInAContextVariable(Counting):
    def count(self, run_id: str) -> None:
        STEPS.get()[run_id] = self.counted(run_id) + 1

    def counted(self, run_id: str) -> int:
        return STEPS.get().get(run_id, 0)
