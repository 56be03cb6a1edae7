"""Calls of the Responses API other than function calls, and items that the client does not answer."""

from __future__ import annotations

import json
from typing import Any

import pytest

from concertino import AgentConfig, Chat, RunContext, ToolOrchestrator, tool
from concertino.messages import (
    AssistantMessage,
    ForcedTool,
    Media,
    Opaque,
    ToolCall,
    ToolMessage,
    ToolSpec,
    UserMessage,
)
from concertino.providers import ModelRequest, ToolCallReady
from tests.validity import responses as judge

from .test_typed_requests import sent
from .wire_kit import events_of, model_of, played, reply_of, request, serving, sse

CUSTOM = {"type": "custom_tool_call", "id": "ctc_1", "call_id": "call_1", "name": "write_sql", "input": 'SELECT "a"'}
SHELL = {
    "type": "shell_call",
    "id": "sh_1",
    "call_id": "call_1",
    "status": "completed",
    "action": {"commands": ["ls", "pwd"], "timeout_ms": None, "max_output_length": 900},
}
LOCAL = {
    "type": "local_shell_call",
    "id": "lsh_1",
    "call_id": "call_1",
    "status": "completed",
    "action": {"type": "exec", "command": ["ls"], "env": {}},
}
PATCH = {
    "type": "apply_patch_call",
    "id": "apc_1",
    "call_id": "call_1",
    "status": "completed",
    "operation": {"type": "update_file", "path": "a.py", "diff": "@@\n-a\n+b\n"},
}
APPROVAL = {"type": "mcp_approval_request", "id": "mcpr_1", "name": "f", "arguments": "{}", "server_label": "s"}
MCP = {"type": "mcp_call", "id": "mcp_1", "name": "f", "arguments": "{}", "server_label": "s", "output": "42"}
COMPUTER = {
    "type": "computer_call",
    "id": "cu_1",
    "call_id": "call_1",
    "status": "completed",
    "action": {"type": "screenshot"},
    "pending_safety_checks": [{"id": "check_1"}],
}


def answer(*items: dict[str, Any]) -> str:
    """Return a stream whose output is *items*."""
    done = [
        {"type": f"response.output_item.{word}", "output_index": index, "item": item}
        for index, item in enumerate(items)
        for word in ("added", "done")
    ]
    whole = {"id": "resp_1", "status": "completed", "model": "gpt-5", "output": list(items)}
    return sse(*done, {"type": "response.completed", "response": whole})


async def history(*items: dict[str, Any]) -> AssistantMessage:
    return reply_of(await played("responses", answer(*items))).message


def back(message: AssistantMessage, *results: ToolMessage) -> list[dict[str, Any]]:
    """Return the items that go back after a user message; the judge accepts them."""
    body = sent("responses", UserMessage("Hi"), message, *results)
    assert judge.problems(body) == []
    found: list[dict[str, Any]] = body["input"][1:]
    return found


def shell_output(content: str, code: int) -> dict[str, Any]:
    outcome = {"type": "exit", "exit_code": code}
    return {"max_output_length": 900, "output": [{"stdout": content, "stderr": "", "outcome": outcome}]}


@pytest.mark.parametrize(
    ("item", "name", "arguments", "output", "failed"),
    [
        (CUSTOM, "write_sql", {"input": 'SELECT "a"'}, {"output": "out"}, {"output": "out"}),
        (SHELL, "shell", {"commands": ["ls", "pwd"], "max_output_length": 900}, shell_output("out", 0),
         shell_output("out", 1)),
        (LOCAL, "local_shell", LOCAL["action"], {"output": "out"}, {"output": "out"}),
        (PATCH, "apply_patch", PATCH["operation"], {"status": "completed", "output": "out"},
         {"status": "failed", "output": "out"}),
    ],
    ids=lambda value: value["type"] if isinstance(value, dict) and "type" in value else "",
)  # fmt: skip
async def test_a_call_answered_by_the_client(
    item: dict[str, Any], name: str, arguments: Any, output: dict[str, Any], failed: dict[str, Any]
) -> None:
    events = await played("responses", answer(item))
    message = reply_of(events).message
    (call,) = message.tool_calls
    assert (call.name, json.loads(call.arguments), message.stop_reason) == (name, arguments, "tool_calls")
    assert [event.call for event in events if isinstance(event, ToolCallReady)] == [call]
    for is_error, expected in ((False, output), (True, failed)):
        if item is LOCAL:  # the SDK's types want an id that OpenAI's guide does not send
            sends = sent("responses", UserMessage("Hi"), message, ToolMessage(call.id, name, "out", is_error))["input"]
            first, result = sends[1:]
        else:
            first, result = back(message, ToolMessage(call.id, name, "out", is_error))
        assert first == item
        assert result == {"type": f"{item['type']}_output", "call_id": call.id, **expected}


async def test_a_custom_tool_can_return_an_image() -> None:
    message = await history(CUSTOM)
    shown = ToolMessage("call_1", "write_sql", "a plot", media=(Media("image/png", data="QUJD"),))
    _, result = back(message, shown)
    assert [part["type"] for part in result["output"]] == ["input_text", "input_image"]


async def test_results_of_other_functions_are_unchanged() -> None:
    function = {"type": "function_call", "id": "fc_1", "call_id": "call_2", "name": "f", "arguments": "{}"}
    message = await history(CUSTOM, function)
    results = (ToolMessage("call_2", "f", "two"), ToolMessage("call_1", "write_sql", "one"))
    found = [(item["type"], item["output"]) for item in back(message, *results)[2:]]
    assert found == [("function_call_output", "two"), ("custom_tool_call_output", "one")]


@pytest.mark.parametrize("item", [APPROVAL, MCP, COMPUTER], ids=lambda item: item["type"])
async def test_other_items_go_back_unmodified(item: dict[str, Any]) -> None:
    message = await history(item)
    assert [(part.kind, part.type) for part in message.parts if isinstance(part, Opaque)] == [("opaque", item["type"])]
    assert message.tool_calls == ()
    assert sent("responses", UserMessage("Hi"), message)["input"][1] == item


@pytest.mark.parametrize("environment", [None, {"type": "container_reference", "container_id": "cntr_1"}])
async def test_a_shell_that_ran_at_openai_is_not_called_again(environment: Any) -> None:
    call = {**SHELL, **({"environment": environment} if environment else {})}
    output = {"type": "shell_call_output", "id": "sho_1", "call_id": "call_1", "status": "completed", "output": []}
    events = await played("responses", answer(call, output))
    message = reply_of(events).message
    assert [part.type for part in message.parts if isinstance(part, Opaque)] == ["shell_call", "shell_call_output"]
    assert (message.tool_calls, message.stop_reason) == ((), "end")
    assert not any(isinstance(event, ToolCallReady) for event in events)


async def test_a_local_shell_is_a_call() -> None:
    (call,) = (await history({**SHELL, "environment": {"type": "local"}})).tool_calls
    assert call.name == "shell"


async def test_another_provider_gets_an_ordinary_call() -> None:
    message = await history(CUSTOM)
    conversation = (UserMessage("Hi"), message, ToolMessage("call_1", "write_sql", "out"))
    (block,) = sent("anthropic", *conversation)["messages"][1]["content"]
    assert (block["name"], block["input"]) == ("write_sql", {"input": 'SELECT "a"'})
    assert "custom_tool_call" not in json.dumps(sent("chat", *conversation))


def test_a_native_tool_is_not_declared_as_a_function() -> None:
    tools = tuple(ToolSpec(name, "", {"type": "object", "properties": {}}) for name in ("shell", "write_sql", "f"))
    own = [{"type": "shell"}, {"type": "custom", "name": "write_sql"}, {"type": "web_search"}]
    body = sent("responses", tools=tools, extra={"tools": own}, tool_choice=ForcedTool("write_sql"))
    assert [tool.get("name") or tool["type"] for tool in body["tools"]] == ["f", "shell", "write_sql", "web_search"]
    assert body["tools"][1:] == own
    assert body["tool_choice"] == {"type": "custom", "name": "write_sql"}
    forced = sent("responses", tools=tools, extra={"tools": own}, tool_choice=ForcedTool("shell"))
    assert forced["tool_choice"] == {"type": "shell"}
    assert sent("responses", tools=tools, tool_choice=ForcedTool("shell"))["tool_choice"]["type"] == "function"


async def test_the_engine_answers_a_custom_call() -> None:
    @tool
    async def write_sql(input: str) -> str:
        """Run a query."""
        return f"ran {input}"

    class Analyst(AgentConfig[None]):
        tools = (write_sql,)

        def build_request(self, run: RunContext, request: ModelRequest) -> ModelRequest:
            request.extra = {"tools": [{"type": "custom", "name": "write_sql"}]}
            return request

    text = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Done."}]}
    async with serving() as server, model_of("responses", server) as model:
        server.play(answer(CUSTOM))
        server.play(answer(text))
        result = await ToolOrchestrator(Chat(model=model, message="Go"), Analyst()).run()
    assert result.text == "Done."
    first, second = (asked.body for asked in server.asked)
    assert first["tools"] == [{"type": "custom", "name": "write_sql"}]
    assert second["input"][1] == CUSTOM
    assert second["input"][2] == {
        "type": "custom_tool_call_output",
        "call_id": "call_1",
        "output": 'ran SELECT "a"',
    }
    assert judge.problems(second) == []


async def test_a_broken_stream_keeps_its_calls() -> None:
    whole = answer(CUSTOM)
    async with serving() as server, model_of("responses", server) as model:
        server.play(whole[: whole.index("event: response.completed")], broken=True)
        with pytest.raises(Exception, match="broke off") as caught:
            await events_of(model, request())
    partial: AssistantMessage = caught.value.partial  # type: ignore[attr-defined]
    assert partial.tool_calls == (ToolCall("call_1", "write_sql", '{"input":"SELECT \\"a\\""}'),)
