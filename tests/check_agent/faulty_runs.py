"""Agents whose runs do not end, do not resume, or send what they must not."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field, replace
from typing import Any

from concertino import (
    Allow,
    Ask,
    AssistantMessage,
    Continue,
    Deny,
    Fail,
    Finish,
    ForcedTool,
    ModelRequest,
    Special,
    SystemMessage,
    Text,
    ToolCall,
    ToolMessage,
    UserMessage,
)

from .kit import Base, faulty

# -- endless -----------------------------------------------------------------------------------------------------------


@faulty("endless")
class AsksAgain(Base):
    def on_no_tool_calls(self, run: Any) -> Continue:
        return Continue(messages=(SystemMessage("Go on."),))


@faulty("endless")
class WaitsForAWord(Base):
    def should_continue_loop(self, run: Any) -> Any:
        return Finish() if "DONE" in run.state.text else Continue()

    def on_no_tool_calls(self, run: Any) -> Continue:
        return Continue()


@faulty("endless")
class RefusesEverything(Base):
    def review_answer(self, run: Any, message: AssistantMessage) -> Any:
        return message if "DONE" in message.text else Continue(messages=(SystemMessage("Write DONE."),))


@faulty("endless")
class AsksItself(Base):
    async def conclude(self, run: Any, text: str) -> str:
        while "perfect" not in text:
            text = await run.ask(f"Make it perfect: {text}")
        return text


@faulty("endless")
class WaitsForever(Base):
    async def prepare(self, run: Any) -> list[Any]:
        await asyncio.Event().wait()
        return []


@faulty("endless")
class HasNoLimit(Base):
    tool_call_limit = 1_000_000


# -- resume ------------------------------------------------------------------------------------------------------------


@faulty("resume")
class CountsInItself(Base):
    def __init__(self) -> None:
        self.steps: dict[str, int] = {}

    def after_step(self, run: Any, outcome: Any) -> Any:
        self.steps[run.id] = self.steps.get(run.id, 0) + 1
        return outcome

    def conclude(self, run: Any, text: str) -> str:
        return f"{text} (after {self.steps.get(run.id, 0)} steps)"


FOUND: dict[str, list[str]] = {}


@faulty("resume")
class CollectsInTheModule(Base):
    def handle_special_tools(self, run: Any, call: ToolCall, outcome: Any) -> None:
        FOUND.setdefault(run.id, []).append(call.name)

    def conclude(self, run: Any, text: str) -> str:
        return f"{text} Used: {FOUND.get(run.id)}"


@faulty("resume")
class PreparesInMemory(Base):
    def __init__(self) -> None:
        self.prepared: set[str] = set()

    def prepare(self, run: Any) -> list[SystemMessage]:
        self.prepared.add(run.id)
        return [SystemMessage("Be polite.")]

    def should_continue_loop(self, run: Any) -> Any:
        if run.id not in self.prepared:
            return Fail("the run is not prepared")
        return Continue() if run.state.has_tool_calls else Finish()


@faulty("resume")
class CachesThePlan(Base):
    plans: dict[str, str] = {}

    def review_input(self, run: Any, text: str) -> str:
        self.plans[run.id] = f"plan for {text}"
        return text

    def build_request(self, run: Any, request: ModelRequest) -> ModelRequest:
        return replace(request, system=f"{request.system} {self.plans.get(run.id, 'no plan')}")


def counter() -> Any:
    """Return a function that counts its calls by run."""
    calls: dict[str, int] = {}

    def count(run_id: str) -> int:
        calls[run_id] = calls.get(run_id, 0) + 1
        return calls[run_id]

    return count


COUNT = counter()


@faulty("resume")
class CountsInAClosure(Base):
    def on_no_tool_calls(self, run: Any) -> Finish:
        return Finish(f"{run.state.text} ({COUNT(run.id)} of {run.state.step})")

    def after_step(self, run: Any, outcome: Any) -> Any:
        COUNT(run.id)
        return outcome


# -- approval ----------------------------------------------------------------------------------------------------------


@dataclass
class Asked:
    tools: list[str] = field(default_factory=list)


@faulty("approval")
class AsksOnce(Base):
    def initialize_agent_state(self, run: Any) -> Asked:
        return Asked()

    def authorize_tool_call(self, run: Any, call: ToolCall, arguments: dict[str, Any]) -> Any:
        if call.name in run.agent_state.tools:
            return Allow()
        run.agent_state.tools.append(call.name)
        return Ask(note="once")


@faulty("approval")
class LooksForText(Base):
    def authorize_tool_call(self, run: Any, call: ToolCall, arguments: dict[str, Any]) -> Any:
        return Deny("not here") if '"place": "args' in call.arguments else Allow()


@faulty("approval")
class ReadsTheRawText(Base):
    async def authorize_tool_call(self, run: Any, call: ToolCall, arguments: dict[str, Any]) -> Any:
        return Allow() if call.arguments.startswith("{\n") else Ask()


@faulty("approval")
class TrustsTheSecondTry(Base):
    def authorize_tool_call(self, run: Any, call: ToolCall, arguments: dict[str, Any]) -> Any:
        refused = any(isinstance(m, ToolMessage) and m.name == call.name and m.is_error for m in run.messages)
        return Allow() if refused or call.name == "look" else Ask()


@faulty("approval")
class CountsCalls(Base):
    def authorize_tool_call(self, run: Any, call: ToolCall, arguments: dict[str, Any]) -> Any:
        return Ask() if run.state.calls_of.get(call.name, 0) < 2 and run.state.step < 2 else Allow()


# -- request -----------------------------------------------------------------------------------------------------------


@faulty("request")
class DropsResults(Base):
    def build_request(self, run: Any, request: ModelRequest) -> ModelRequest:
        return replace(request, messages=[m for m in request.messages if not isinstance(m, ToolMessage)])


@faulty("request")
class KeepsTheLastTwo(Base):
    def build_request(self, run: Any, request: ModelRequest) -> ModelRequest:
        return replace(
            request, messages=[m for m in request.messages if isinstance(m, ToolMessage)] or request.messages
        )


@faulty("request")
class ForcesAMissingTool(Base):
    def build_request(self, run: Any, request: ModelRequest) -> ModelRequest:
        return replace(request, tool_choice=ForcedTool("no_such_tool"))


@faulty("request")
class EndsWithAnAnswer(Base):
    def build_request(self, run: Any, request: ModelRequest) -> ModelRequest:
        return replace(request, messages=[*request.messages, AssistantMessage((Text("I think"),))])


@faulty("request")
class RequiresWithoutTools(Base):
    def build_request(self, run: Any, request: ModelRequest) -> ModelRequest:
        return replace(request, tools=(), tool_choice="required")


@faulty("request")
class SendsNothing(Base):
    def build_request(self, run: Any, request: ModelRequest) -> ModelRequest:
        return replace(request, messages=request.messages[2:])


# -- message -----------------------------------------------------------------------------------------------------------


@faulty("message")
class ReplacesTheQuestion(Base):
    def build_request(self, run: Any, request: ModelRequest) -> ModelRequest:
        return replace(request, messages=[UserMessage("Say hello."), *request.messages[1:]])


@faulty("message")
class ForgetsTheQuestion(Base):
    def handle_special_tools(self, run: Any, call: ToolCall, outcome: Any) -> Special:
        return Special(messages=(UserMessage("Summarize what you have found."),))


@faulty("message")
class CutsTheMessage(Base):
    def build_request(self, run: Any, request: ModelRequest) -> ModelRequest:
        cut = [replace(m, text=m.text[:10]) if isinstance(m, UserMessage) else m for m in request.messages]
        return replace(request, messages=cut)


@faulty("message")
class SeesOnlyTheFirst(Base):
    def build_request(self, run: Any, request: ModelRequest) -> ModelRequest:
        users = [m for m in request.messages if isinstance(m, UserMessage)]
        return replace(request, messages=[m for m in request.messages if m not in users[1:]])


@faulty("message")
class TellsTheModelTheTask(Base):
    def build_request(self, run: Any, request: ModelRequest) -> ModelRequest:
        rest = [m for m in request.messages if not isinstance(m, UserMessage)]
        return replace(request, messages=[UserMessage(json.dumps({"step": run.state.step})), *rest])
