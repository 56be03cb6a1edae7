"""Problems that Anthropic's Messages API would refuse."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

from anthropic.types.beta import message_create_params

from .schema import Schema

Json = dict[str, Any]
Turn = tuple[str, list[Json]]

_TAKEN = {
    "stream": {"type": "bool"},
    "temperature": {"type": "float"},
    "top_p": {"type": "float"},
    "top_k": {"type": "int"},
    "output_format": {"type": "dict"},
}
"""Fields that the API takes and the newest types leave out: models of before want them."""
_schema = Schema(
    message_create_params.MessageCreateParamsStreaming,
    {f"MessageCreateParamsStreaming.{name}": form for name, form in _TAKEN.items()},
)

_NAME = re.compile(r"[a-zA-Z0-9_-]{1,128}")
_ID = re.compile(r"[a-zA-Z0-9_-]+")
_REASONING = ("thinking", "redacted_thinking")
_NO_PREFILL = re.compile(r"(?:.*[/.])?claude-(fable|mythos|[a-z]+-[5-9]|(opus|sonnet)-4-[6-9])")
_NO_INNER_SYSTEM = re.compile(r"(?:.*[/.])?claude-(\d|instant|[a-z]+-4-[0-7]\b|[a-z]+-4-\d{8}|[a-z]+-4$)")
_BREAKPOINTS = 4
_LEAST_BUDGET = 1_024
_TOP = "cache_control"


def problems(body: Json) -> list[str]:
    """Return the problems of *body*; rules apply only to a valid form."""
    return schema_problems(body) or rule_problems(body)


def schema_problems(body: Json) -> list[str]:
    """Check against `anthropic.types.beta.message_create_params`, which has all fields of the stable types and more."""
    return _schema(body)


def rule_problems(body: Json) -> list[str]:
    """Check the documented rules."""
    turns = _turns(body["messages"])
    return [problem for rule in RULES for problem in rule(body, turns)]


def _turns(messages: list[Json]) -> list[Turn]:
    """The turns as the API reads them: a string is one text block, and neighbours of one role are one turn ("Create a
    Message", `messages`). A message of the role `system` in between does not end a turn."""
    turns: list[Turn] = []
    for message in messages:
        role, content = message["role"], message.get("content", [])
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        if role == "system":
            continue
        if turns and turns[-1][0] == role:
            turns[-1] = (role, [*turns[-1][1], *blocks])
        else:
            turns.append((role, blocks))
    return turns


def _first_turn(body: Json, turns: list[Turn]) -> Iterator[str]:
    """The conversation is not empty and begins with the user: "messages: at least one message is required",
    "messages: first message must use the `user` role"."""
    if not turns:
        yield "messages: at least one is required"
    elif turns[0][0] != "user" or body["messages"][0]["role"] != "user":
        yield f"messages.0: the first message is of the {body['messages'][0]['role']}"


def _contents(body: Json, turns: list[Turn]) -> Iterator[str]:
    """ "all messages must have non-empty content except for the optional final assistant message"."""
    for position, message in enumerate(body["messages"]):
        if not message.get("content") and not (message["role"] == "system" and message.get("output_config")):
            yield f"messages.{position}: no content"


def _inner_system(body: Json, turns: list[Turn]) -> Iterator[str]:
    """The role `system` inside the conversation comes right after a user's message, and models before Opus 4.8 refuse
    it ("Mid-conversation system messages")."""
    for position, message in enumerate(body["messages"]):
        if message["role"] != "system":
            continue
        if _NO_INNER_SYSTEM.match(body["model"]):
            yield f"messages.{position}: {body['model']} does not take the role system"
        if position and body["messages"][position - 1]["role"] == "assistant":
            yield f"messages.{position}: the role system comes after the assistant"


def _texts(body: Json, turns: list[Turn]) -> Iterator[str]:
    """ "text content blocks must be non-empty", "text content blocks must contain non-whitespace text". The API accepts
    white space next to other blocks; there is no reason to send it."""
    for position, block in _blocks(body, turns):
        if block.get("type") == "text" and not block["text"].strip():
            yield f"{position}: a text block without text"


def _blocks(body: Json, turns: list[Turn]) -> Iterator[tuple[str, Json]]:
    """Every block in the order in which a prompt is read: system, then messages with what is inside results."""
    if isinstance(body.get("system"), list):
        for number, block in enumerate(body["system"]):
            yield f"system.{number}", block
    for position, (_, blocks) in enumerate(turns):
        for number, block in enumerate(blocks):
            yield f"turn {position}.{number}", block
            if block.get("type") == "tool_result" and isinstance(block.get("content"), list):
                for inner, part in enumerate(block["content"]):
                    yield f"turn {position}.{number}.content.{inner}", part


def _roles(body: Json, turns: list[Turn]) -> Iterator[str]:
    """ "`tool_use` blocks can only be in `assistant` messages", "`tool_result` blocks can only be in `user` messages";
    reasoning is the assistant's ("Extended thinking")."""
    wrong = {"user": ("tool_use", "server_tool_use", *_REASONING), "assistant": ("tool_result",)}
    for position, (role, blocks) in enumerate(turns):
        for number, block in enumerate(blocks):
            if block["type"] in wrong[role]:
                yield f"turn {position}.{number}: {block['type']} of the {role}"


def _results(body: Json, turns: list[Turn]) -> Iterator[str]:
    """Each call has exactly one result, in the next user message, and results come before all else there ("Handle tool
    calls": "tool result blocks must immediately follow their corresponding tool use blocks", "must come first");
    "`tool_use` ids were found without `tool_result` blocks immediately after", "unexpected `tool_use_id` found in
    `tool_result` blocks", "each tool_use must have a single result"."""
    called: Counter[str] = Counter()
    for position, (role, blocks) in enumerate([*turns, ("user", [])]):
        if role == "assistant":
            called = Counter(block["id"] for block in blocks if block["type"] == "tool_use")
            continue
        answered = Counter(block["tool_use_id"] for block in blocks if block["type"] == "tool_result")
        if position == len(turns) and not called:
            break
        for call in called - answered:
            yield f"turn {position}: no result for the call {call}"
        for call in answered - called:
            yield f"turn {position}: a result for {call}, which is not open"
        if any(block["type"] != "tool_result" for block in blocks[: answered.total()]):
            yield f"turn {position}: results come after something else"
        called = Counter()


def _call_ids(body: Json, turns: list[Turn]) -> Iterator[str]:
    """Ids match `^[a-zA-Z0-9_-]+$` ("tool_use.id: String should match pattern") and are unique ("`tool_use` ids must be
    unique")."""
    seen: set[str] = set()
    for position, (_, blocks) in enumerate(turns):
        for block in blocks:
            if block["type"] in ("tool_use", "server_tool_use"):
                if not _ID.fullmatch(block["id"]):
                    yield f"turn {position}: the id {block['id']!r} of a call"
                if block["id"] in seen:
                    yield f"turn {position}: the id {block['id']} a second time"
                seen.add(block["id"])


def _tools(body: Json, turns: list[Turn]) -> Iterator[str]:
    """Names match `^[a-zA-Z0-9_-]{1,128}$` and are unique ("Define tools", "Tool names must be unique"); the choice
    names one of them; where there are calls or results in the history, tools are defined ("Requests which include
    `tool_use` or `tool_result` blocks must define tools")."""
    names = Counter(tool["name"] for tool in body.get("tools", ()) if "name" in tool)
    for name, times in names.items():
        if not _NAME.fullmatch(name):
            yield f"tools: the name {name!r}"
        if times > 1:
            yield f"tools: {name} {times} times"
    choice = body.get("tool_choice") or {}
    if choice.get("type") == "tool" and choice["name"] not in names:
        yield f"tool_choice: {choice['name']} is not among the tools"
    if choice and not body.get("tools"):
        yield "tool_choice without tools"
    used = any(block["type"] in ("tool_use", "tool_result") for _, blocks in turns for block in blocks)
    if used and not body.get("tools"):
        yield "tools: none are defined, and the conversation has calls"
    for position, (_, blocks) in enumerate(turns):
        for block in blocks:
            if block["type"] == "tool_use" and not _NAME.fullmatch(block["name"]):
                yield f"turn {position}: a call of {block['name']!r}"


def _reasoning(body: Json, turns: list[Turn]) -> Iterator[str]:
    """Reasoning goes back with its signature, before the content that followed it, and never ends a turn ("Extended
    thinking": blocks go back "unmodified and in their original order"; "The final block in an assistant message cannot
    be `thinking`"). After a provider's own tool the model may think again, so more may follow there."""
    for position, (role, blocks) in enumerate(turns):
        if role != "assistant":
            continue
        before = "thinking"
        for number, block in enumerate(blocks):
            kind = block["type"]
            if kind in _REASONING:
                if not (block["signature"] if kind == "thinking" else block["data"]):
                    yield f"turn {position}.{number}: {kind} without signature"
                if before not in _REASONING and not before.endswith("_tool_result"):
                    yield f"turn {position}.{number}: {kind} after {before}"
            before = kind
        if blocks and blocks[-1]["type"] in _REASONING:
            yield f"turn {position}: its last block is {blocks[-1]['type']}"


def _live_loop(body: Json, turns: list[Turn]) -> Iterator[str]:
    """With `thinking` of type `enabled`, a tool loop that goes on begins with its reasoning: "When `thinking` is
    enabled, a final `assistant` message must start with a thinking block (preceding the lastmost set of `tool_use`
    and `tool_result` blocks)". Adaptive thinking does not ask for it."""
    if (body.get("thinking") or {}).get("type") != "enabled":
        return
    first: list[Json] = []
    for role, blocks in reversed(turns):
        if role == "assistant":
            first = blocks
        elif any(block["type"] != "tool_result" for block in blocks):
            break
    if first and first[0]["type"] not in _REASONING:
        yield f"the live tool loop begins with {first[0]['type']}, not with reasoning"


def _cache(body: Json, turns: list[Turn]) -> Iterator[str]:
    """At most four breakpoints, the automatic one counted; none on reasoning or empty text; those of an hour before
    those of five minutes, in the order tools, system, messages ("Prompt caching": "What cannot be cached", "Mixing
    different TTLs"; "A maximum of 4 blocks with cache_control may be provided", "cache_control cannot be set for
    empty text blocks")."""
    marked = [(f"tools.{number}", tool) for number, tool in enumerate(body.get("tools", ()))]
    marked = [(position, block) for position, block in [*marked, *_blocks(body, turns)] if block.get(_TOP)]
    lives = [block[_TOP].get("ttl", "5m") for _, block in marked]
    if body.get(_TOP):
        lives.append(body[_TOP].get("ttl", "5m"))
    if len(lives) > _BREAKPOINTS:
        yield f"cache_control: {len(lives)} breakpoints"
    if lives != sorted(lives):  # "1h" is before "5m" in the alphabet, too
        yield f"cache_control: lives in the order {lives}"
    for position, block in marked:
        if block.get("type") in _REASONING or (block.get("type") == "text" and not block["text"].strip()):
            yield f"{position}: cache_control on {block['type']}"


def _ending(body: Json, turns: list[Turn]) -> Iterator[str]:
    """ "final assistant content cannot end with trailing whitespace". A beginning of the answer excludes
    reasoning ("Extended thinking"), nor to newer models ("Prefill not supported")."""
    role, blocks = turns[-1] if turns else ("", [])
    if role != "assistant" or body["messages"][-1]["role"] != "assistant" or not blocks:
        return
    if blocks[-1]["type"] == "text" and blocks[-1]["text"] != blocks[-1]["text"].rstrip():
        yield "the last message ends in white space"
    if not blocks[-1]["type"].endswith(("_tool_result", "server_tool_use")):  # a paused turn goes back as it is
        if (body.get("thinking") or {}).get("type", "disabled") != "disabled":
            yield "the last message is the assistant's, and thinking is on"
        if _NO_PREFILL.match(body["model"]):
            yield f"the last message is the assistant's, which {body['model']} does not take"


def _settings(body: Json, turns: list[Turn]) -> Iterator[str]:
    """`max_tokens` is above 0 (0 only warms a cache); a budget is at least 1,024 and less than it, and requires the
    tool choice `auto` or `none`; reasoning of either kind requires the temperature 1 ("Create a Message",
    "Extended thinking"). Stop sequences are not blank ("each stop sequence must contain non-whitespace")."""
    thinking = body.get("thinking") or {"type": "disabled"}
    if body["max_tokens"] < 1:
        yield f"max_tokens: {body['max_tokens']}"
    if thinking["type"] == "enabled" and not _LEAST_BUDGET <= thinking["budget_tokens"] < body["max_tokens"]:
        yield f"thinking.budget_tokens: {thinking['budget_tokens']} of {body['max_tokens']}"
    forced = (body.get("tool_choice") or {}).get("type", "auto") not in ("auto", "none")
    if thinking["type"] == "enabled" and forced:
        yield "tool_choice: a tool is forced beside reasoning"
    if thinking["type"] != "disabled" and body.get("temperature", 1) != 1:
        yield "temperature beside reasoning"
    if not 0 <= body.get("temperature", 1) <= 1:
        yield f"temperature: {body['temperature']}"
    if any(not text.strip() for text in body.get("stop_sequences") or ()):
        yield "stop_sequences: a blank one"


RULES: tuple[Callable[[Json, list[Turn]], Iterator[str]], ...] = (
    _first_turn,
    _contents,
    _inner_system,
    _texts,
    _roles,
    _results,
    _call_ids,
    _tools,
    _reasoning,
    _live_loop,
    _cache,
    _ending,
    _settings,
)
