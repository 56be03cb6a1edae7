"""An answer goes back to its provider with everything that the recorded request sent back. Ours may contain more."""

from __future__ import annotations

import json
from collections import Counter
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from concertino.errors import ProviderError
from concertino.messages import Message, ToolMessage, UserMessage
from concertino.providers.openai import OpenAICompatibleModel
from concertino.providers.openai.chat.vendors import vendor_of

from .conftest import Source
from .exchanges import Exchange, cases
from .wire_kit import MODELS, events_of, model_of, reply_of, request, serving

# What of an answer a recorded request has and ours has not, and why.
REASONS: dict[str, str] = {
    "openai/responses/test-openai-client-tool-search-streaming-yaml-2494d6d7.json#1: tool_search_output":
        "the recorder's own answer to a search of tools, which the next answer repeats",
    "openai/responses/test-openai-native-tool-search-streaming-yaml-d907a727.json#1: tool_search_call":
        "the recorder calls the arguments otherwise than the provider did",
    "openai/chat_completions/openai-gpt-4o-completions-yaml-ce3a53c1.json#1: text":
        "a result that the recorder puts in the mouth of the model",
    "openai/chat_completions/test-tools-streaming-variant-c-yaml-8f38c6f7.json#1: tool_call":
        "the recorder gave the call an id of its own",
}  # fmt: skip


def canonical(value: Any) -> str:
    return json.dumps(value, sort_keys=True, ensure_ascii=False)


def without_nothing(value: Any) -> Any:
    """Return *value* without null and empty values at any depth, which recorders may omit."""
    if isinstance(value, dict):
        found = {name: without_nothing(held) for name, held in value.items()}
        return {name: held for name, held in found.items() if held not in (None, "", [], {})}
    return [without_nothing(held) for held in value] if isinstance(value, list) else value


def parsed(text: Any) -> Any:
    try:
        return json.loads(text)
    except (TypeError, ValueError):
        return text


def anthropic_blocks(body: dict[str, Any]) -> list[tuple[str, Any]]:
    found = []
    for message in body.get("messages") or []:
        if message.get("role") != "assistant":
            continue
        content = message["content"]
        for block in [{"type": "text", "text": content}] if isinstance(content, str) else content:
            kept = {name: value for name, value in block.items() if name not in ("cache_control", "caller")}
            found.append((block["type"], kept))
    return found


def responses_blocks(body: dict[str, Any]) -> list[tuple[str, Any]]:
    found = []
    for item in body.get("input") if isinstance(body.get("input"), list) else []:
        kind = item.get("type") or "message"
        if kind == "message":
            if item.get("role") == "assistant":
                content = item["content"]
                text = content if isinstance(content, str) else "".join(part.get("text", "") for part in content)
                found.append((kind, {"text": text}))
        elif kind == "function_call":
            ids = {item["call_id"], item.get("id", item["call_id"])}  # some send the item's own id as the call's
            found += [(kind, {"id": i, "name": item["name"], "arguments": parsed(item["arguments"])}) for i in ids]
        elif kind == "reasoning":
            found.append((kind, {"encrypted": item.get("encrypted_content"), "content": item.get("content")}))
        elif item.get("role") != "developer":
            found.append((kind, {n: v for n, v in item.items() if n not in ("id", "call_id", "status", "execution")}))
    return found


def chat_blocks(body: dict[str, Any]) -> list[tuple[str, Any]]:
    found: list[tuple[str, Any]] = []
    for message in body.get("messages") or []:
        if message.get("role") != "assistant":
            continue
        content = message.get("content")
        text = "".join(p.get("text", "") for p in content) if isinstance(content, list) else content
        found.append(("text", text))
        for call in message.get("tool_calls") or []:
            arguments = parsed(call["function"]["arguments"])
            found.append(("tool_call", {"id": call["id"], "name": call["function"]["name"], "arguments": arguments}))
        found.append(("reasoning", message.get("reasoning_content")))
        found += [("reasoning_detail", detail) for detail in message.get("reasoning_details") or []]
    return found


def google_blocks(body: dict[str, Any]) -> list[tuple[str, Any]]:
    found: list[tuple[str, Any]] = []
    for content in body.get("contents") if isinstance(body.get("contents"), list) else []:
        if content.get("role") != "model":
            continue
        first = len(found)
        for part in content["parts"]:
            kind = next((name for name in part if name not in ("thought", "thoughtSignature")), "text")
            value: Any = part.get(kind)
            if kind in ("functionCall", "function_call"):
                kind, value = "functionCall", {"name": value["name"], "args": value.get("args")}
            if signature := part.get("thoughtSignature"):
                found.append(("signature", signature.replace("-", "+").replace("_", "/").rstrip("=")))
            if kind == "text":
                kind += "/thought" if part.get("thought") else ""
                if len(found) > first and found[-1][0] == kind:  # pieces of a stream, joined or not
                    value = found.pop()[1] + value
            found.append((kind, value))
    return found


BLOCKS = {
    "anthropic": anthropic_blocks,
    "responses": responses_blocks,
    "chat": chat_blocks,
    "google": google_blocks,
}


def blocks_of(kind: str, body: Any) -> list[tuple[str, Any]]:
    blocks = BLOCKS[kind](body) if isinstance(body, dict) else []
    cleaned = [(name, without_nothing(value)) for name, value in blocks]
    return [(name, value) for name, value in cleaned if value not in (None, "", [], {})]


def contains(ours: Any, recorded: Any) -> bool:
    """Return whether *ours* contains all of *recorded*."""
    if isinstance(recorded, dict) and isinstance(ours, dict):
        return all(name in ours and contains(ours[name], value) for name, value in recorded.items())
    return bool(ours == recorded)


def is_of(value: Any, answer: bytes) -> bool:
    """Return whether *answer* contains the longest text of a recorded block, or its beginning."""
    texts = [value["id"]] if isinstance(value, dict) and "id" in value else sorted(strings(value), key=len)
    return bool(texts) and json.dumps(texts[-1], ensure_ascii=False)[1:30].encode() in answer


def strings(value: Any) -> list[str]:
    if isinstance(value, dict):
        return [text for held in value.values() for text in strings(held)]
    if isinstance(value, list):
        return [text for held in value for text in strings(held)]
    return [value] if isinstance(value, str) else []


def pairs(root: Path) -> list[tuple[Exchange, Exchange]]:
    """Return answers with the requests that sent them back."""
    found = []
    for case in cases(root).values():
        for before, after in zip(case, case[1:], strict=False):
            same = before.kind == after.kind and before.host == after.host
            if same and before.status < 300 and after.request is not None and before.request is not None:
                found.append((before, after))
    return found


@pytest.mark.parametrize("kind", list(MODELS))
async def test_an_answer_goes_back_as_recorded(kind: str, source: Source) -> None:
    wrong: list[str] = []
    counts: Counter[str] = Counter()
    async with serving() as server, AsyncExitStack() as stack:
        models: dict[str, Any] = {}
        for before, after in pairs(source.root):
            if before.kind != kind:
                continue
            vendor = vendor_of("", f"https://{before.host}/").name if kind == "chat" else ""
            if vendor not in models:
                own = OpenAICompatibleModel("m", server.url, vendor=vendor, api_key="k") if vendor else None
                models[vendor] = own or await stack.enter_async_context(model_of(kind, server))
                stack.push_async_callback(models[vendor].close)
            model = models[vendor]
            old = blocks_of(kind, before.request)
            new = [block for block in blocks_of(kind, after.request) if block not in old]
            new = [(name, value) for name, value in new if is_of(value, before.body)]
            if not new:
                continue
            server.play(before.body)
            try:
                message = reply_of(await events_of(model)).message
            except ProviderError:
                continue
            history: list[Message] = [UserMessage("Q"), message]
            history += [ToolMessage(call.id, call.name, "result") for call in message.tool_calls]
            settings: dict[str, Any] = {"model": before.request.get("model") or "gemini-3-flash"}
            if before.request.get("store") is not False:
                settings["extra"] = {"store": True}
            sent = json.loads(model._body(request(*history, UserMessage("And?"), **settings)).data)
            ours = blocks_of(kind, sent)
            counts["answers"] += 1
            for name, value in new:
                counts["blocks"] += 1
                if any(name == other and contains(found, value) for other, found in ours):
                    continue
                near = [canonical(found)[:300] for other, found in ours if other == name]
                line = f"{after.name}: {name}"
                if line in REASONS:
                    counts["known"] += 1
                else:
                    wrong.append(f"{line}: {canonical(value)[:300]}; ours: {near}")
    assert not wrong, f"{dict(counts)}\n" + "\n".join(wrong)
    assert counts["answers"] >= source.at_least(10)
