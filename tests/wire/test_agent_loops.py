"""Tool loops driven through the engine send the recorded requests.

The local server plays the recorded answers through the SDKs; the tools return the recorded results, and the user sends
the recorded messages. Each request after the first must contain everything that the recorded one adds to the one before
it. Ours may contain more of the model's content: recorders omit reasoning, or leave it to the server's memory.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest

from concertino import AgentConfig, Chat, Continue, Finish, NextStep, Resources, RunContext, ToolCall, ToolOrchestrator
from concertino.errors import ToolError
from concertino.messages import UserMessage
from concertino.orchestrator.model_call.retry import Retry
from concertino.providers import Model, ModelRequest
from concertino.providers.openai import OpenAICompatibleModel
from concertino.providers.openai.chat.vendors import vendor_of
from concertino.token_engine.retention import Retention
from concertino.tools.base import Tool, ToolContext

from .exchanges import Exchange, cases
from .loop_contents import Content, contents, same_text
from .recordings import TRAFFIC
from .samples import SAMPLES
from .test_lossless import blocks_of, canonical, contains, is_of
from .wire_kit import MODELS, Server, serving

REASONS = {
    r"anthropic/messages/google-gemini-2-5-flash-.*: nothing": "its exchanges are with two providers, one each",
    r".*: turn 1: result auto_load_0f10f8b659c3c105":
        "a call that the recorder's own program put in, and no model had made",
    r"openai/chat_completions/test-tools-streaming-variant-c-.*: turn 1: (result 0|tool_call|not recorded: .*)":
        "the recorder gave the call an id of its own",
    r"openai/chat_completions/(test-disabling-cache-for|test-max-usage|testmaxusagecount).*: not recorded: .*":
        "the recorder left calls of the answer out, as if the model had not made them; we answer each",
    r"openai/responses/test-openai-client-tool-search-streaming-.*: turn 1: tool_search_output":
        "the recorder's own answer to a search of tools, which the next answer repeats",
    r"openai/responses/test-openai-native-tool-search-streaming-.*: turn 1: tool_search_call":
        "the recorder calls the arguments otherwise than the provider did",
}  # fmt: skip
"""What recorded requests have and ours have not (case, turn, what), and why. Each is needed: see the last test."""

ANY = Retention(summaries=False, max_result_tokens=1_000_000)


def loops() -> list[str]:
    """Return the names of the cases with calls, results and following requests."""
    if not TRAFFIC.is_dir():
        return []
    listed = json.loads((TRAFFIC / "index.json").read_text())["cases"]
    return sorted(case["file"] for case in listed if "agent_loop" in case["features"])


def conversations(case: list[Exchange]) -> list[list[Exchange]]:
    """Return the exchanges of a case as conversations; recorders interleave several of them."""
    found: list[list[Exchange]] = []
    for exchange in case:
        if exchange.request is None or exchange.status >= 300:
            continue
        own = next((chain for chain in reversed(found) if _continues(chain[-1], exchange)), None)
        if own is None:
            found.append([exchange])
        else:
            own.append(exchange)
    return [chain for chain in found if len(chain) > 1]


def _continues(before: Exchange, after: Exchange) -> bool:
    """Return whether *after* continues the conversation of *before*."""
    if (before.kind, before.host) != (after.kind, after.host):
        return False
    results = [key for kind, key, _ in added(before, after) if kind == "result"]
    earlier = blocks_of(before.kind, before.request)
    return any(key.encode() in before.body for key in results) or any(
        block not in earlier and is_of(block[1], before.body) for block in blocks_of(after.kind, after.request)
    )


def added(before: Exchange, after: Exchange) -> list[Content]:
    """Return the results and user texts that a request adds; results by the calls' own ids."""
    old = Counter(contents(before.kind, before.request))
    own = call_ids(before)
    found = []
    for content in contents(after.kind, after.request):
        if old[content]:
            old[content] -= 1
        elif content[0] != "user" or content[2].strip():
            found.append((content[0], own.get(content[1], content[1]), content[2]))
    return found


def call_ids(exchange: Exchange) -> dict[str, str]:
    """Return call ids by item id of the Responses API; some recorders mix them up."""
    if exchange.kind != "responses":
        return {}
    items = exchange.chunks if exchange.streamed else json.loads(exchange.body).get("output") or []
    items = [item.get("item") or item for item in items]
    return {item["id"]: item["call_id"] for item in items if item.get("call_id") and item.get("id")}


class Recorded(Tool):
    """A tool that returns recorded results, by call id or in order."""

    effect = "read"

    def __init__(self, name: str, answers: dict[str, list[str]]) -> None:
        self.name = name
        self.description = name
        self.parameters = {"type": "object"}
        self._answers = answers

    async def execute(self, arguments: dict[str, Any], context: ToolContext) -> str:
        """The recorded result."""
        for key in (context.call_id, context.tool):
            if self._answers.get(key):
                return self._answers[key].pop(0)
        raise ToolError("nothing was recorded for this call")

    def validate(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """As the model wrote them."""
        return arguments


class Player(AgentConfig[None]):
    """Sends the recorded user messages, and ends with the recording."""

    name = "player"
    tool_call_limit = 1_000

    def __init__(self, recorded: Sequence[Exchange]) -> None:
        self._recorded = recorded

    def should_continue_loop(self, run: RunContext[None]) -> NextStep:
        step = run.state.step
        if step >= len(self._recorded):
            return Finish()
        if step == 0:
            return Continue()
        new = added(self._recorded[step - 1], self._recorded[step])
        reading = tuple(UserMessage(text) for kind, _, text in new if kind == "user" and text.strip())
        return Continue(messages=reading)

    def on_no_tool_calls(self, run: RunContext[None]) -> NextStep:
        return Continue()

    def on_limit(self, run: RunContext[None], reason: Any) -> NextStep:
        return Continue()

    def preprocess_tool_arguments(self, run: RunContext[None], call: ToolCall) -> dict[str, Any]:
        return {}

    def build_request(self, run: RunContext[None], request: ModelRequest) -> ModelRequest:
        asked = self._recorded[min(run.state.step, len(self._recorded)) - 1].request
        if asked.get("store") is not False and self._recorded[0].kind == "responses":
            request.extra = {"store": True}
        return request


def model_for(exchange: Exchange, server: Server) -> Model:
    """Return a model of *server* with the settings of the recording."""
    if exchange.kind == "chat":
        vendor = vendor_of("", f"https://{exchange.host}/").name
        if vendor not in ("openai", "azure", ""):
            return OpenAICompatibleModel(exchange.request["model"], server.url, vendor=vendor, api_key="k")
    return MODELS[exchange.kind](server.url)


async def driven(recorded: list[Exchange]) -> tuple[list[Any], Any]:
    """Return the requests for a recorded conversation, and the run's result."""
    results: dict[str, list[str]] = {}
    for before, after in zip(recorded, recorded[1:], strict=False):
        for kind, key, text in added(before, after):
            if kind == "result":
                results.setdefault(key, []).append(text)
    names = {name for exchange in recorded for name in tool_names(exchange)} or {"none"}
    async with serving() as server:
        model = model_for(recorded[0], server)
        for exchange in recorded:
            server.play(exchange.body, headers=_type(exchange))
        asked = [text for kind, _, text in contents(recorded[0].kind, recorded[0].request) if kind == "user"]
        agent = Player(recorded)
        agent.tools = tuple(Recorded(name, results) for name in sorted(names))
        chat = Chat(model=model, message=asked[-1] if asked else "Go.")
        try:
            run = ToolOrchestrator(chat, agent, resources=Resources(retry=Retry(attempts=1), retention=ANY))
            async for _ in run.stream():
                pass
        finally:
            await model.close()
        return [request.body for request in server.asked], run.result


def tool_names(exchange: Exchange) -> set[str]:
    """Return the names of tools that a request declares or calls."""
    found = [value for _, value in blocks_of(exchange.kind, exchange.request) if isinstance(value, dict)]
    tools = exchange.request.get("tools") or []
    for tool in [tools] if isinstance(tools, dict) else tools:
        found += [tool, tool.get("function") or {}]
        found += tool.get("functionDeclarations") or tool.get("function_declarations") or []
    return {held["name"] for held in found if isinstance(held.get("name"), str)}


def _type(exchange: Exchange) -> dict[str, str]:
    return {"content-type": "text/event-stream" if exchange.streamed else "application/json"}


def missing(recorded: list[Exchange], sent: list[Any]) -> list[tuple[str, str]]:
    """Return the content that only the recorded requests, or only ours, add in each turn."""
    lines = []
    kind = recorded[0].kind
    for turn in range(1, min(len(recorded), len(sent))):
        before, after = recorded[turn - 1], recorded[turn]
        ours = Counter(map(_plain, contents(kind, sent[turn])))
        new = ours - Counter(map(_plain, contents(kind, sent[turn - 1])))
        for content in added(before, after):
            if not ours[_plain(content)]:
                lines.append((f"turn {turn}: {content[0]} {content[1]}", content[2]))
            ours[_plain(content)] -= 1
            new[_plain(content)] -= 1
        lines += [(f"turn {turn}: not recorded: {kind} {key}", text) for kind, key, text in (+new).elements()]
        reading = blocks_of(kind, sent[turn])
        earlier = blocks_of(kind, before.request)
        for name, value in blocks_of(kind, after.request):
            if (name, value) in earlier or not is_of(value, before.body):
                continue
            if not any(name == other and contains(found, value) for other, found in reading):
                lines.append((f"turn {turn}: {name}", canonical(value)))
    return lines


def _plain(content: Content) -> Content:
    kind, key, text = content
    return kind, key, same_text(text)


def reason(line: str) -> str | None:
    """Return the entry of `REASONS` for *line*."""
    return next((pattern for pattern in REASONS if re.fullmatch(pattern, line)), None)


SAMPLED = [name for name in cases(SAMPLES) if "tool_loop" in name]


@pytest.mark.parametrize("case", SAMPLED)
async def test_a_sampled_loop(case: str) -> None:
    (sampled,) = conversations(cases(SAMPLES)[case])
    sent, result = await driven(sampled)
    assert result.status == "completed", result.error
    assert len(sent) == len(sampled) == 2
    assert missing(sampled, sent) == []


NEEDED: set[str] = set()
DRIVEN: Counter[str] = Counter()


@pytest.mark.parametrize("case", loops())
async def test_a_recorded_loop(case: str, data: Any) -> None:
    found = conversations(cases()[case])
    wrong = [] if found else [(f"{case}: nothing", "to drive")]
    for recorded in found:
        sent, result = await driven(recorded)
        assert result.status == "completed", result.error
        assert len(sent) == len(recorded)
        wrong += [(f"{case}: {line}", all_of_it) for line, all_of_it in missing(recorded, sent)]
        DRIVEN[recorded[0].kind] += len(recorded) - 1
    NEEDED.update(filter(None, (reason(line) for line, _ in wrong)))
    assert not [f"{line}: {all_of_it[:300]}" for line, all_of_it in wrong if reason(line) is None]


def test_every_reason_is_needed(data: Any) -> None:
    if DRIVEN.total() < 300:
        pytest.skip("only with all cases before it")
    assert set(REASONS) == NEEDED
    assert set(DRIVEN) == set(MODELS)
