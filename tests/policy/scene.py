"""A tree of three agents, boss, child and grandchild, with a canary at every entrance of content."""

from __future__ import annotations

import dataclasses
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

from concertino import (
    AgentConfig,
    Allow,
    Ask,
    Attachment,
    Chat,
    Continue,
    DataPolicy,
    Finish,
    Message,
    ModelRequest,
    NextStep,
    Outcome,
    Pending,
    RunContext,
    Scope,
    Special,
    Tool,
    ToolCall,
    ToolContext,
    ToolError,
    ToolResult,
    tool,
)
from concertino.agents import delegate
from concertino.messages import AssistantMessage, Reasoning, SystemMessage, Text, ToolMessage, UserMessage
from concertino.providers import ModelEvent, Reply, ToolCallReady
from concertino.testing import Answer, ScriptedModel, call

from .kit import Canaries

USER = Scope("org-1", "user-1")


@dataclass
class Notes:
    """An agent's own state."""

    text: str


class SigningModel(ScriptedModel):
    """A model that signs its reasoning and its calls, as the vendors' models do."""

    canaries: Canaries

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        async for event in super().stream(request):
            if isinstance(event, ToolCallReady):
                yield ToolCallReady(self._signed(event.call))
            elif isinstance(event, Reply):
                parts = [self._signed(part) for part in event.message.parts]
                yield dataclasses.replace(event, message=dataclasses.replace(event.message, parts=tuple(parts)))
            else:
                yield event

    def _signed(self, part: Any) -> Any:
        if isinstance(part, Reasoning):
            return dataclasses.replace(part, signature=self.canaries["signature of reasoning"])
        if isinstance(part, ToolCall):
            return dataclasses.replace(part, signature=self.canaries["signature of a call"])
        return part


def tools(c: Canaries) -> list[Tool]:
    """Return tools with every entrance of content."""

    @tool(effect="read", description=f"Look something up. {c['description of a tool']}")
    async def look(query: str, context: ToolContext, number: int = 0) -> ToolResult:
        with context.progress.begin("looking") as step:
            step.send(c["progress"])
        context.stream(c["streamed by the context"])
        return ToolResult(c["result"], data={"found": [c["data"]]}, summary=c["unused summary"])

    @tool(effect="read", retain="once")
    async def glance(query: str) -> ToolResult:
        """Look at something that is used once."""
        return ToolResult(c["result of a once tool"], summary=c["summary of a once tool"])

    @tool(effect="read", shown=True)
    async def draw() -> AsyncIterator[str]:
        """Draw a long picture, piece by piece."""
        yield c["streamed item"]
        filler = "a word and another " * 3_000
        yield f"{c['start of a long result']} {filler} {c['middle of a long result']} {filler} {c['its end']}"

    @tool(effect="read")
    def fail(how: str) -> str:
        """Fail in a thread."""
        if how == "tool":
            raise ToolError(c["tool error"])
        raise ValueError(c["exception of a tool"])

    @tool(effect="idempotent")
    async def pay(amount: str, reason: str = "") -> str:
        """Pay, once it is allowed."""
        return f"{c['result after approval']} {amount}"

    @tool(effect="idempotent", remote=True)
    async def outside() -> Pending:
        """Order something outside."""
        return Pending(note=c["note of a pending call"])

    return [look, glance, draw, fail, pay, outside]


class Agent(AgentConfig[Notes]):
    """An agent with a canary in every hook."""

    allow_prompt_override = True

    def __init__(self, canaries: Canaries, policy: DataPolicy, name: str, *below: AgentConfig[Any]) -> None:
        self.name = name
        self.c = canaries
        self.policy = policy
        self.prompt = f"You are the {name}. {canaries['prompt of ' + name]}"
        self.tools = [*tools(canaries), *(delegate(agent, description="An agent.") for agent in below)]

    def get_data_policy(self) -> DataPolicy:
        return self.policy

    def initialize_agent_state(self, run: RunContext[Notes]) -> Notes:
        # pydantic encodes the state as JSON, which allows valid Unicode only.
        return Notes(self.c["agent state"].encode("utf-8", "replace").decode())

    async def prepare(self, run: RunContext[Notes]) -> list[Message]:
        answer = await run.ask(self.c["question aside"], system=f"Asked aside. {self.c['system aside']}")
        return [SystemMessage(answer), UserMessage(self.c["prepared message"])]

    async def conclude(self, run: RunContext[Notes], text: str) -> str:
        return f"{text} {self.c['conclusion']}"

    def build_request(self, run: RunContext[Notes], request: ModelRequest) -> ModelRequest:
        added = UserMessage(self.c["message of build_request"])
        return dataclasses.replace(
            request,
            system=f"{request.system} {self.c['system of build_request']}",
            messages=[*request.messages, added] if run.state.step == 1 else request.messages,
            extra={"metadata": {"about": self.c["extra of build_request"]}},
        )

    def authorize_tool_call(self, run: RunContext[Notes], call: ToolCall, arguments: dict[str, Any]) -> Allow | Ask:
        return Ask(who=("the boss",), note=self.c["note of an approval"]) if call.name == "pay" else Allow()

    def handle_special_tools(self, run: RunContext[Notes], call: ToolCall, outcome: Outcome) -> Special | None:
        if call.name != "glance":
            return None
        run.agent_state.text += "!"
        messages = (UserMessage(self.c["special message"]),)
        return Special(result=self.c["special result"], messages=messages)

    def on_no_tool_calls(self, run: RunContext[Notes]) -> NextStep:
        if run.state.iteration > 90 or any("once more" in getattr(m, "text", "") for m in run.messages):
            return Finish()
        return Continue(messages=(SystemMessage(f"once more {self.c['message of Continue']}"),))


def family(c: Canaries, policy: DataPolicy) -> Agent:
    """Return the boss with a child and a grandchild."""
    return Agent(c, policy, "boss", Agent(c, policy, "child", Agent(c, policy, "grandchild")))


def scripted(c: Canaries) -> SigningModel:
    """Return the script of the three agents: their first turn does everything, and some of it waits."""

    def asides(text: str) -> list[str]:
        return [c[f"answer aside {text}"]] * 9

    first = Answer(
        reasoning=c["reasoning"],
        text=c["text next to calls"],
        calls=(
            call("look", query=c["argument"]),
            call("look", query="x", number=c["argument of the wrong type"]),
            call("look", f"{{broken {c['broken arguments']}"),
            call("draw"),
            call("fail", how="tool"),
            call("fail", how="x"),
            call("pay", amount=c["argument to be approved"]),
            call("pay", amount=c["argument to be denied"]),
            call("child", query=c["task of the child"]),
        ),
    )
    last = [call("glance", query=c["argument of a once tool"]), Answer(text=c["text"], reasoning=c["last reasoning"])]
    child = [call("grandchild", query=c["task of the grandchild"]), c["text of the child"], c["answer of the child"]]
    waits = [call("outside"), call("outside")]
    grandchild = [waits, c["text of the grandchild"], c["answer of the grandchild"]]
    scripts: dict[str, list[Any]] = {
        "the boss": [first, *last, c["answer"]],
        "the child": child,
        "the grandchild": grandchild,
        "Asked aside": asides("of all"),
    }
    model = SigningModel(scripts=scripts)
    model.canaries = c
    return model


def chat(c: Canaries, model: Any, **changes: Any) -> Chat:
    """Return a chat with a canary in every field."""
    called = ToolCall("old_1", "look", f'{{"query": "{c["argument in the history"]}"}}')
    history: list[Message] = [
        UserMessage(c["history"]),
        AssistantMessage((Reasoning(c["reasoning in the history"], None, "s", "scripted"), called)),
        ToolMessage("old_1", "look", "cut", whole=c["result in the history"], summary=c["summary in the history"]),
        AssistantMessage((Text(c["answer in the history"]),)),
    ]
    plain = Chat(
        model=model,
        message=c["message"],
        history=history,
        summary=c["summary"],
        few_shot={"scripted:script": [UserMessage(c["few shot"])]},
        scope=USER,
        conversation_id="talk-1",
        system_prompt=f"You are the boss. {c['system prompt']}",
        personalization=c["personalization"],
        memories=[c["memory"]],
        project_rules=c["project rules"],
        attachments=[Attachment(c["name of an attachment"], c["attachment"])],
    )
    return dataclasses.replace(plain, **changes)
