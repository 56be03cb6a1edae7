"""Agents whose hooks return, change or keep what they must not."""

from __future__ import annotations

import functools
import itertools
import json
import random
import uuid
from dataclasses import dataclass, field, replace
from typing import Any

from concertino import Allow, Ask, Continue, DataPolicy, Finish, SystemMessage, ToolCall, Turn
from concertino.messages import AssistantMessage

from .kit import Base, faulty


@dataclass
class Notes:
    """A state that the journal can keep."""

    count: int = 0
    texts: list[str] = field(default_factory=list)


# -- hook --------------------------------------------------------------------------------------------------------------


@faulty("hook")
class ReadsJson(Base):
    def interpret_response(self, run: Any, message: AssistantMessage) -> Turn:
        return Turn(AssistantMessage(message.parts), tuple(json.loads(message.text)["calls"]))


@faulty("hook")
class ReturnsNothing(Base):
    def on_no_tool_calls(self, run: Any) -> Any:
        if run.state.step > 1:
            return None
        return Finish()


@faulty("hook")
class ReadsTheFirstWord(Base):
    def conclude(self, run: Any, text: str) -> str:
        return text.split(maxsplit=1)[0]


@faulty("hook")
class WantsEveryArgument(Base):
    def preprocess_tool_arguments(self, run: Any, call: ToolCall) -> dict[str, Any]:
        return {"place": "here", **json.loads(call.arguments)}


@faulty("hook")
class ReturnsWords(Base):
    def authorize_tool_call(self, run: Any, call: ToolCall, arguments: dict[str, Any]) -> Any:
        return Allow() if call.name == "look" else "yes"


@faulty("hook")
class FailsAfterAnError(Base):
    def after_step(self, run: Any, outcome: Any) -> Any:
        assert not run.state.errored_tools
        return outcome


# -- input -------------------------------------------------------------------------------------------------------------


@faulty("input")
class AddsAnArgument(Base):
    def authorize_tool_call(self, run: Any, call: ToolCall, arguments: dict[str, Any]) -> Allow:
        arguments["place"] = "elsewhere"
        return Allow()


@faulty("input")
class DropsAnArgument(Base):
    async def authorize_tool_call(self, run: Any, call: ToolCall, arguments: dict[str, Any]) -> Allow:
        if call.name == "pay":
            arguments.pop("account")
        return Allow()


@faulty("input")
class CountsTheSteps(Base):
    def after_step(self, run: Any, outcome: Any) -> Any:
        run.state.step += 1
        return outcome


@faulty("input")
class WritesTheAnswer(Base):
    def on_no_tool_calls(self, run: Any) -> Finish:
        run.state.text = run.state.text.upper()
        return Finish()


@faulty("input")
class ForcesTheLoop(Base):
    async def should_continue_loop(self, run: Any) -> Any:
        if run.state.step == 1:
            run.state.has_tool_calls = False
        return Continue() if run.state.has_tool_calls else Finish()


@faulty("input")
class HidesTheResult(Base):
    def handle_special_tools(self, run: Any, call: ToolCall, outcome: Any) -> None:
        outcome.content = "hidden"


# -- state -------------------------------------------------------------------------------------------------------------


@faulty("state")
class KeepsNumbers(Base):
    def initialize_agent_state(self, run: Any) -> dict[Any, int]:
        return {1: 0}


@dataclass
class Hidden:
    count: int = 0


@faulty("state")
class AddsAnAttribute(Base):
    def initialize_agent_state(self, run: Any) -> Hidden:
        return Hidden()

    def after_step(self, run: Any, outcome: Any) -> Any:
        run.agent_state.last_text = run.state.text
        return outcome


@faulty("state")
class KeepsAFunction(Base):
    def initialize_agent_state(self, run: Any) -> dict[str, Any]:
        return {"decide": lambda: True}


@dataclass
class Open:
    seen: Any = None


@faulty("state")
class KeepsASet(Base):
    def initialize_agent_state(self, run: Any) -> Open:
        return Open(seen=set())

    def after_step(self, run: Any, outcome: Any) -> Any:
        run.agent_state.seen.add(run.state.step)
        return outcome


@dataclass
class Counted:
    number: int = 0
    text: str = field(init=False, default="")


@faulty("state")
class KeepsAFieldOutside(Base):
    def initialize_agent_state(self, run: Any) -> Counted:
        return Counted()

    def after_step(self, run: Any, outcome: Any) -> Any:
        run.agent_state.text = run.state.text
        return outcome


@faulty("state")
class KeepsInfinity(Base):
    def initialize_agent_state(self, run: Any) -> list[float]:
        return [float("inf")]


@faulty("state")
class KeepsATuple(Base):
    def initialize_agent_state(self, run: Any) -> dict[str, Any]:
        return {"pair": (1, 2)}


# -- shared ------------------------------------------------------------------------------------------------------------

QUESTIONS: list[str] = []


@faulty("shared")
class RemembersTheMessage(Base):
    question = ""

    def review_input(self, run: Any, text: str) -> str:
        type(self).question = text
        return text

    def conclude(self, run: Any, text: str) -> str:
        return f"You asked {self.question!r}: {text}"


@faulty("shared")
class SharesItsState(Base):
    notes = Notes()

    def initialize_agent_state(self, run: Any) -> Notes:
        return self.notes

    def after_step(self, run: Any, outcome: Any) -> Any:
        run.agent_state.count += 1
        return outcome

    def conclude(self, run: Any, text: str) -> str:
        return f"{text} ({run.agent_state.count})"


@faulty("shared")
class KeepsAList(Base):
    def prepare(self, run: Any) -> list[SystemMessage]:
        QUESTIONS.append(run.chat.message)
        return [SystemMessage(f"Earlier questions: {QUESTIONS}")]


@faulty("shared")
class CountsRuns(Base):
    def __init__(self) -> None:
        self.runs = 0

    def build_system_prompt(self, run: Any, prompt: str) -> str:
        self.runs += 1
        return f"{prompt} This is run {self.runs}."


@faulty("shared")
class ShallowCopy(Base):
    start = Notes(texts=[])

    def initialize_agent_state(self, run: Any) -> Notes:
        return replace(self.start)

    async def after_step(self, run: Any, outcome: Any) -> Any:
        run.agent_state.texts.append(run.chat.message)
        return outcome

    def conclude(self, run: Any, text: str) -> str:
        return f"{text} {run.agent_state.texts}"


@faulty("shared")
class KeepsADefault(Base):
    def conclude(self, run: Any, text: str, seen: list[str] = []) -> str:  # noqa: B006 - the fault
        seen.append(run.chat.scope.user)
        return f"{text} {len(seen)}"


@functools.cache
def visitors() -> list[str]:
    return []


@faulty("shared")
class KeepsInACache(Base):
    def conclude(self, run: Any, text: str) -> str:
        visitors().append(run.chat.scope.user)
        return f"{text} The first user was {visitors()[0]}."


# -- unstable ----------------------------------------------------------------------------------------------------------


@faulty("unstable")
class StampsThePrompt(Base):
    def build_system_prompt(self, run: Any, prompt: str) -> str:
        return f"{prompt} Request {uuid.uuid4()}."


@faulty("unstable")
class DrawsAnApproval(Base):
    def authorize_tool_call(self, run: Any, call: ToolCall, arguments: dict[str, Any]) -> Any:
        return Ask() if random.random() < 0.5 else Allow()


NUMBERS = itertools.count()


@faulty("unstable")
class NumbersTheMessage(Base):
    async def review_input(self, run: Any, text: str) -> str:
        return f"{text} (number {next(NUMBERS)})"


@faulty("unstable")
class ChangesItsPolicy(Base):
    def __init__(self) -> None:
        self.strict = False

    def get_data_policy(self) -> DataPolicy:
        self.strict = not self.strict
        return DataPolicy(text="drop") if self.strict else DataPolicy()


@faulty("unstable")
class MakesUpArguments(Base):
    def preprocess_tool_arguments(self, run: Any, call: ToolCall) -> dict[str, Any]:
        return {"place": f"place {uuid.uuid4()}", "account": "A", "euros": 1} if call.name == "pay" else {"place": "x"}


@faulty("unstable")
class RenamesCalls(Base):
    def interpret_response(self, run: Any, message: AssistantMessage) -> Turn:
        if message.tool_calls:
            return Turn(message, message.tool_calls)
        return Turn(AssistantMessage(message.parts, model=uuid.uuid4().hex), ())
