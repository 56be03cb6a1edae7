"""Agents that leak, misreport, block, or do not stop."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import time
from contextlib import suppress
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any

from pydantic import BaseModel

from concertino import (
    Continue,
    DataPolicy,
    Finish,
    SystemMessage,
    Tokens,
    ToolCall,
    ToolData,
    UsageRecord,
    UserMessage,
)

from .kit import Base, faulty

# -- policy ------------------------------------------------------------------------------------------------------------

NO_TEXT = DataPolicy(text="drop", reasoning="drop")
NO_CALLS = DataPolicy(other_tools=ToolData(arguments="redact", results="redact"))


class Discreet(Base):
    def get_data_policy(self) -> DataPolicy:
        return NO_CALLS


@faulty("policy")
class QuotesResults(Discreet):
    def handle_special_tools(self, run: Any, call: ToolCall, outcome: Any) -> None:
        run.emit("seen", {"call": call.arguments})


@faulty("policy")
class AddsResults(Discreet):
    def after_step(self, run: Any, outcome: Any) -> Any:
        results = [m.content for m in run.messages if m.role == "tool"]
        if run.state.step == 1 and results:
            return Continue(messages=(UserMessage(f"You have found: {results}"),))
        return outcome


@faulty("policy")
class LogsArguments(Discreet):
    def authorize_tool_call(self, run: Any, call: ToolCall, arguments: dict[str, Any]) -> Any:
        logging.getLogger("clerk").info("call of %s with %s", call.name, arguments)
        return super().authorize_tool_call(run, call, arguments)


@faulty("policy")
class PrintsTheMessage(Base):
    def get_data_policy(self) -> DataPolicy:
        return NO_TEXT

    def review_input(self, run: Any, text: str) -> str:
        print(text)
        return text


@faulty("policy")
class AnswersWithResults(Discreet):
    def conclude(self, run: Any, text: str) -> str:
        found = [m.content for m in run.messages if m.role == "tool"]
        return f"{text} {found}"


@faulty("policy")
class LogsTheAnswer(Base):
    def get_data_policy(self) -> DataPolicy:
        return NO_TEXT

    def on_no_tool_calls(self, run: Any) -> Finish:
        logging.warning("the model said %s", run.state.text)
        return Finish()


# -- usage -------------------------------------------------------------------------------------------------------------


@faulty("usage")
class CountsNothing(Base):
    def calculate_usage(self, run: Any, record: UsageRecord) -> UsageRecord:
        return replace(record, tokens=Tokens())


@faulty("usage")
class HalvesTheTokens(Base):
    def calculate_usage(self, run: Any, record: UsageRecord) -> UsageRecord:
        return replace(record, tokens=Tokens(record.tokens.prompt // 2, record.tokens.completion))


@faulty("usage")
class PaysBack(Base):
    def calculate_usage(self, run: Any, record: UsageRecord) -> UsageRecord:
        return replace(record, cost=Decimal("-0.01"))


@faulty("usage")
class BooksElsewhere(Base):
    def calculate_usage(self, run: Any, record: UsageRecord) -> UsageRecord:
        return replace(record, run_id="someone else's")


@faulty("usage")
class PricesInFloats(Base):
    def calculate_usage(self, run: Any, record: UsageRecord) -> UsageRecord:
        return replace(record, cost=0.1)  # type: ignore[arg-type]


@faulty("usage")
class RenamesTheAgent(Base):
    async def calculate_usage(self, run: Any, record: UsageRecord) -> UsageRecord:
        return replace(record, agent_path="free")


# -- stop --------------------------------------------------------------------------------------------------------------


@faulty("stop")
class Swallows(Base):
    async def prepare(self, run: Any) -> list[SystemMessage]:
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(0.01)
        return []


@faulty("stop")
class AsksUndisturbed(Base):
    async def conclude(self, run: Any, text: str) -> str:
        try:
            return str(await run.ask(f"Improve: {text}"))
        except BaseException:  # noqa: BLE001 - the fault
            return text


@faulty("stop")
class FailsInstead(Base):
    async def after_step(self, run: Any, outcome: Any) -> Any:
        try:
            await asyncio.sleep(0.01)
        except asyncio.CancelledError as error:
            raise RuntimeError("interrupted") from error
        return outcome


@faulty("stop")
class TriesAgain(Base):
    async def should_continue_loop(self, run: Any) -> Any:
        for _ in range(3):
            try:
                await asyncio.sleep(0.01)
                break
            except asyncio.CancelledError:
                continue
        return Continue() if run.state.has_tool_calls else Finish()


@faulty("stop")
class TakesItBack(Base):
    async def on_no_tool_calls(self, run: Any) -> Finish:
        try:
            await asyncio.sleep(0.01)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            assert task is not None
            task.uncancel()
        return Finish()


# -- blocking ----------------------------------------------------------------------------------------------------------


@faulty("blocking")
class Sleeps(Base):
    def should_send_tools(self, run: Any) -> bool:
        time.sleep(0.001)
        return True


@faulty("blocking")
class SleepsAsync(Base):
    async def prepare(self, run: Any) -> list[SystemMessage]:
        time.sleep(0.001)  # noqa: ASYNC251 - the fault
        return []


@faulty("blocking")
class LooksUp(Base):
    def build_system_prompt(self, run: Any, prompt: str) -> str:
        socket.getaddrinfo("127.0.0.1", 80)
        return prompt


@faulty("blocking")
class RunsACommand(Base):
    def conclude(self, run: Any, text: str) -> str:
        os.system("true")
        return text


@faulty("blocking")
class RetriesSlowly(Base):
    def preprocess_tool_arguments(self, run: Any, call: ToolCall) -> dict[str, Any]:
        for _ in range(2):
            time.sleep(0.001)
        return super().preprocess_tool_arguments(run, call)  # type: ignore[return-value]


# -- answer ------------------------------------------------------------------------------------------------------------


class Report(BaseModel):
    title: str
    pages: int


@faulty("answer")
class SaysNothing(Base):
    def conclude(self, run: Any, text: str) -> str:
        return ""


@faulty("answer")
class FinishesEmpty(Base):
    def on_no_tool_calls(self, run: Any) -> Finish:
        return Finish("")


@faulty("answer")
class DecoratesTheReport(Base):
    output_type = Report

    def conclude(self, run: Any, text: str) -> str:
        return f"The report has {len(text)} characters."


@dataclass
class Draft:
    texts: list[str] = field(default_factory=list)


@faulty("answer")
class AnswersFromItsState(Base):
    def initialize_agent_state(self, run: Any) -> Draft:
        return Draft()

    def conclude(self, run: Any, text: str) -> str:
        return " ".join(run.agent_state.texts)


@faulty("answer")
class ShortensTheReport(Base):
    output_type = Report

    def conclude(self, run: Any, text: str) -> str:
        return '{"title": "a report"}'


@faulty("answer")
class ForgetsTheText(Base):
    def after_step(self, run: Any, outcome: Any) -> Any:
        return Finish("") if isinstance(outcome, Finish) else outcome
