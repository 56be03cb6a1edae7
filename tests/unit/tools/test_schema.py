"""Schemas of tools that do not validate by themselves: compiled once, never fetched, and checked within limits."""

from __future__ import annotations

import asyncio
import json
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest

from concertino import AgentConfig, Chat, Tool, ToolContext, ToolOrchestrator, ToolRegistry
from concertino.errors import ConfigurationError, ToolArgumentsError
from concertino.messages import ToolMessage
from concertino.testing import ScriptedModel, call
from concertino.tools.schema import check


class Looks(Tool):
    """A tool of a host or a bridge."""

    name = "looks"
    description = "Look."

    def __init__(self, schema: dict[str, Any]) -> None:
        self.parameters = schema

    def execute(self, arguments: dict[str, Any], context: ToolContext) -> str:
        return "seen"


def of(**properties: Any) -> Looks:
    return Looks({"type": "object", "properties": properties})


CHEAP = of(n={"type": "integer", "minimum": 1}, words={"type": "array", "items": {"enum": ["a", "b"]}})


def test_cheap_arguments_are_checked_at_once() -> None:
    assert CHEAP.validate({"n": 1, "words": ["a"]}) == {"n": 1, "words": ["a"]}
    with pytest.raises(ToolArgumentsError, match=r"words\.0: 'c' is not one of"):
        CHEAP.validate({"n": 1, "words": ["c"]})
    assert CHEAP.schema is CHEAP.schema


@pytest.mark.parametrize(
    ("tool", "good", "bad", "problem"),
    [
        (of(q={"uniqueItems": True}), {"q": [1, 2]}, {"q": [1, 1]}, "q: .* has non-unique elements"),
        (of(q={"pattern": "^a+$"}), {"q": "aaa"}, {"q": "b"}, "q: 'b' does not match"),
        (Looks({"$defs": {"a": {"type": "string"}}, "items": {"$ref": "#/$defs/a"}}), {}, None, ""),
        (of(q={"items": {"type": "integer"}}), {"q": [1] * 50_000}, {"q": [1] * 50_000 + ["x"]}, "q.50000: 'x' is not"),
    ],
    ids=["uniqueItems", "pattern", "ref", "many values"],
)
async def test_others_are_checked_in_a_worker(tool: Looks, good: Any, bad: Any, problem: str) -> None:
    checked = tool.validate(good)
    assert not isinstance(checked, dict)
    assert await checked == good
    if bad is not None:
        with pytest.raises(ToolArgumentsError, match=problem):
            await tool.validate(bad)  # type: ignore[misc]


@pytest.mark.parametrize("hostile", ["uniqueItems", "pattern", "references"])
async def test_a_check_that_takes_too_long_ends_and_blocks_nothing(
    hostile: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("concertino.tools.schema._CPU_SECONDS", 0.2)
    doubling = {f"a{i}": {"allOf": [{"$ref": f"#/$defs/a{i + 1}"}] * 2} for i in range(40)} | {"a40": {}}
    tool, value = {
        "uniqueItems": (of(q={"uniqueItems": True}), [{"a": [i]} for i in range(10_000)]),
        "pattern": (of(q={"pattern": "^(a+)+$"}), "a" * 60 + "!"),
        "references": (Looks({"$defs": doubling, "properties": {"q": {"$ref": "#/$defs/a0"}}}), 1),
    }[hostile]
    check = asyncio.ensure_future(tool.validate({"q": value}))  # type: ignore[arg-type]
    await asyncio.sleep(0.01)
    assert not check.done()  # this task runs meanwhile
    with pytest.raises(ToolArgumentsError, match=r"too expensive to check .*: use fewer"):
        await check


@pytest.mark.parametrize("keyword", ["$ref", "$dynamicRef"])
@pytest.mark.parametrize("target", ["http://127.0.0.1:1/s.json", "file:///etc/passwd", "other.json", "//host/s"])
def test_a_schema_elsewhere_is_refused_when_the_tool_is_registered(keyword: str, target: str) -> None:
    with pytest.raises(ConfigurationError, match="schemas are not fetched: copy it to '\\$defs'"):
        ToolRegistry([of(q={"anyOf": [{keyword: target}]})])


def test_the_words_of_references_may_be_names_and_data() -> None:
    ToolRegistry([of(**{"$ref": {"enum": [{"$ref": "http://127.0.0.1/"}]}})])


async def test_nothing_is_fetched_at_run_time() -> None:
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_error(404)

        def log_message(self, *_: Any) -> None: ...

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        # Such a schema is refused when its tool is registered; this is the check behind that one.
        elsewhere = f"http://127.0.0.1:{server.server_address[1]}/s.json"
        with pytest.raises(Exception, match="Unresolvable"):
            await asyncio.to_thread(check, json.dumps({"properties": {"q": {"$ref": elsewhere}}}), {"q": 1}, 8)
    finally:
        await asyncio.to_thread(server.shutdown)
        thread.join()
        server.server_close()
    assert asked == []


def test_a_schema_that_is_too_large_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="more than 100,000 parts"):
        ToolRegistry([of(**{f"p{i}": {} for i in range(120_000)})])


def test_a_schema_that_contains_itself_is_refused() -> None:
    schema: dict[str, Any] = {"type": "object"}
    schema["not"] = schema
    with pytest.raises(ConfigurationError, match="more than 100 levels"):
        ToolRegistry([Looks(schema)])


async def test_a_run_continues_after_hostile_arguments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("concertino.tools.schema._CPU_SECONDS", 0.2)
    tool = of(q={"pattern": "^(a+)+$"})
    with ScriptedModel(call("looks", q="a" * 60 + "!"), call("looks", q="a"), "ok") as model:
        result = await ToolOrchestrator(Chat("x", model=model), AgentConfig(), ToolRegistry([tool])).run()
    found = [message.content for message in result.messages if isinstance(message, ToolMessage)]
    assert "too expensive to check" in found[0]
    assert found[1] == "seen"


def nested(levels: int) -> Looks:
    schema: dict[str, Any] = {}
    for _ in range(levels // 2):
        schema = {"anyOf": [schema]}
    return Looks(schema)


async def test_a_schema_that_is_nested_too_deeply_is_refused() -> None:
    with pytest.raises(
        ConfigurationError, match="tool 'looks': its schema has more than 100 levels; use a flatter one"
    ):
        ToolRegistry([nested(102)])
    deep = ToolRegistry([nested(98)])
    result = await ToolOrchestrator(Chat("x", model=ScriptedModel(call("looks"), "ok")), AgentConfig(), deep).run()
    assert [m.content for m in result.messages if isinstance(m, ToolMessage)] == ["seen"]
