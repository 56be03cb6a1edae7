"""Problems that OpenAI's Chat Completions API would refuse."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

from openai.types.chat import completion_create_params

from . import strict_tools
from .schema import Schema

Json = dict[str, Any]

_ANY = {"type": "any"}
_schema = Schema(
    completion_create_params.CompletionCreateParamsStreaming,
    {
        "CompletionCreateParamsStreaming.stream": {"type": "bool"},
        "CompletionCreateParamsStreaming.response_format": None,
        "ChatCompletionAssistantMessageParam.annotations": _ANY,
        "ChatCompletionToolMessageParam.name": {"type": "str"},
    },
)
"""With what recorded requests have beyond the types, and were answered."""

_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_LONGEST_ID = 40
_STOPS = 4
_REASONS = re.compile(r"o\d|gpt-[5-9](?!.*-chat)")


def problems(body: Json) -> list[str]:
    """Return the problems of *body*; rules apply only to a valid form."""
    return schema_problems(body) or rule_problems(body)


def schema_problems(body: Json) -> list[str]:
    """Check against `openai.types.chat.completion_create_params`."""
    return _schema(body)


def rule_problems(body: Json) -> list[str]:
    """Check the documented rules."""
    return [problem for rule in RULES for problem in rule(body)]


def _results(body: Json) -> Iterator[str]:
    """Results stand right after the message with the calls, one for each ("An assistant message with 'tool_calls'
    must be followed by tool messages responding to each 'tool_call_id'", "messages with role 'tool' must be a
    response to a preceeding message with 'tool_calls'")."""
    called: Counter[str] = Counter()
    answered: Counter[str] = Counter()
    for position, message in enumerate([*body["messages"], {"role": "end"}]):
        if message["role"] == "tool":
            answered[message["tool_call_id"]] += 1
            if answered[message["tool_call_id"]] > called[message["tool_call_id"]]:
                yield f"messages.{position}: a result for {message['tool_call_id']}, which is not open"
            continue
        for call in called - answered:
            yield f"messages.{position}: no result for the call {call} before it"
        called = Counter(call["id"] for call in message.get("tool_calls") or ())
        answered = Counter()
        for call, times in called.items():
            if times > 1:
                yield f"messages.{position}: {times} calls with the id {call}"


def _messages(body: Json) -> Iterator[str]:
    """There is a message ("Invalid 'messages': empty array"). The assistant's has content or calls ("Invalid value for
    'content': expected a string, got null"), and a list of calls is not empty ("Invalid 'messages[1].tool_calls': empty
    array"). Only the assistant's may have null for content."""
    if not body["messages"]:
        yield "messages: empty"
    for position, message in enumerate(body["messages"]):
        calls = message.get("tool_calls")
        if calls == []:
            yield f"messages.{position}: tool_calls is empty"
        others = calls or message.get("function_call") or message.get("refusal") or message.get("audio")
        if message.get("content") is None and not others:
            yield f"messages.{position}: no content"
        if message.get("content") == []:
            yield f"messages.{position}: content is an empty list"


def _ids(body: Json) -> Iterator[str]:
    """An id of a call has at most 40 characters ("Invalid 'messages[1].tool_calls[0].id': string too long. Expected a
    string with maximum length 40"), and is not empty."""
    for position, message in enumerate(body["messages"]):
        for call in message.get("tool_calls") or ():
            if not 0 < len(call["id"]) <= _LONGEST_ID:
                yield f"messages.{position}: a call id of {len(call['id'])} characters"


def _tools(body: Json) -> Iterator[str]:
    """Names match `^[a-zA-Z0-9_-]{1,64}$` ("Create chat completion", `tools.function.name`), also in calls; the list is
    not empty ("Invalid 'tools': empty array"). A strict function lists every property as required ("Invalid schema for
    function")."""
    if body.get("tools") == []:
        yield "tools: empty"
    for function in _functions(body):
        if not _NAME.fullmatch(function["name"]):
            yield f"tools: the name {function['name']!r}"
        if function.get("strict"):
            found = strict_tools.problems(function.get("parameters"))
            yield from (f"tools: {function['name']}: {problem}" for problem in found)
    for position, message in enumerate(body["messages"]):
        for call in message.get("tool_calls") or ():
            if (called := call.get("function")) and not _NAME.fullmatch(called["name"]):
                yield f"messages.{position}: a call of {called['name']!r}"


def _functions(body: Json) -> list[Json]:
    return [tool["function"] for tool in body.get("tools") or () if tool.get("function")]


def _choice(body: Json) -> Iterator[str]:
    """A choice is of the tools that are there ("'tool_choice' is only allowed when 'tools' are specified",
    "'parallel_tool_calls' is only allowed when 'tools' are specified")."""
    for name in ("tool_choice", "parallel_tool_calls"):
        if body.get(name) not in (None, "none") and not body.get("tools"):
            yield f"{name} without tools"
    choice = body.get("tool_choice")
    chosen = choice["function"]["name"] if isinstance(choice, dict) and choice.get("function") else None
    if chosen and chosen not in [function["name"] for function in _functions(body)]:
        yield f"tool_choice: {chosen} is not among the tools"


def _settings(body: Json) -> Iterator[str]:
    """Limits are above 0; models that reason want `max_completion_tokens` ("Unsupported parameter: 'max_tokens' is not
    supported with this model") and take no stop sequences ("Unsupported parameter: 'stop'"), of which there are at most
    four ("Create chat completion"). Stream options go with a stream ("The 'stream_options' parameter is only allowed
    when 'stream' is enabled")."""
    for name in ("max_tokens", "max_completion_tokens"):
        if body.get(name) is not None and body[name] < 1:
            yield f"{name}: {body[name]}"
    if _REASONS.match(body.get("model") or ""):
        for name in ("max_tokens", "stop"):
            if body.get(name) is not None:
                yield f"{name}: {body['model']} does not take it"
    if isinstance(body.get("stop"), list) and len(body["stop"]) > _STOPS:
        yield f"stop: {len(body['stop'])} sequences"
    if not 0 <= (body.get("temperature") or 0) <= 2:
        yield f"temperature: {body['temperature']}"
    if body.get("stream_options") and not body.get("stream"):
        yield "stream_options without a stream"


RULES: tuple[Callable[[Json], Iterator[str]], ...] = (_messages, _results, _ids, _tools, _choice, _settings)
