"""Answers as the vendors' SDKs read them: their objects, and their helpers for streams."""

from __future__ import annotations

import itertools
import json
import re
from dataclasses import dataclass, field
from typing import Any

from anthropic._models import construct_type as anthropic_object
from anthropic.lib.streaming._beta_messages import accumulate_event
from anthropic.types.beta import BetaMessage, BetaRawMessageStreamEvent
from google.genai import types
from openai._models import construct_type as openai_object
from openai.lib.streaming.chat import ChatCompletionStreamState
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from openai.types.responses import Response, ResponseStreamEvent

from .exchanges import Exchange


@dataclass(slots=True)
class Reading:
    """The content of an answer that all formats share."""

    text: str = ""
    reasoning: str = ""
    signatures: list[str] = field(default_factory=list)
    calls: list[tuple[str, Any]] = field(default_factory=list)
    opaque: list[str] = field(default_factory=list)
    """The kinds of all other blocks."""
    stop: str = ""
    model: str = ""
    prompt: int = 0
    completion: int = 0


def arguments_of(text: str | None) -> Any:
    """Return arguments as JSON, or as text if they are not."""
    try:
        return json.loads(text or "{}")
    except ValueError:
        return text


def read_anthropic(exchange: Exchange) -> Reading:
    """Read an answer as `BetaMessage`, which has all blocks."""
    message: Any = None
    if exchange.streamed:
        buffers: dict[int, bytes] = {}
        for chunk in exchange.chunks:
            event: Any = anthropic_object(type_=BetaRawMessageStreamEvent, value=chunk)
            if event.type == "message_start":
                message, buffers = None, {}
            if event.type != "ping":
                message = accumulate_event(
                    event=event,
                    current_snapshot=message,
                    json_bufs=buffers,
                    request_headers={},  # type: ignore[arg-type]
                )
    else:
        message = anthropic_object(type_=BetaMessage, value=json.loads(exchange.body))
    reading = Reading(stop=message.stop_reason or "", model=message.model)
    for block in message.content:
        match block.type:
            case "text":
                reading.text += block.text
            case "thinking":
                reading.reasoning += block.thinking
                reading.signatures += [block.signature] if block.signature else []
            case "redacted_thinking":
                reading.signatures.append(block.data)
            case "tool_use":
                reading.calls.append((block.name, block.input))
            case kind:
                reading.opaque.append(kind)
    side_work = [turn for turn in message.usage.iterations or [] if turn.type in ("compaction", "advisor_message")]
    reading.prompt = sum(map(anthropic_input, (message.usage, *side_work)))
    reading.completion = sum(usage.output_tokens for usage in (message.usage, *side_work))
    return reading


def anthropic_input(usage: Any) -> int:
    cached: int = (usage.cache_read_input_tokens or 0) + (usage.cache_creation_input_tokens or 0)
    return cached + int(usage.input_tokens)


def read_responses(exchange: Exchange) -> Reading:  # noqa: C901, PLR0912 - a case each
    """Read an answer as `Response`; for a stream, that of the last event."""
    response: Any = None
    if exchange.streamed:
        done = {}
        for chunk in exchange.chunks:
            event: Any = openai_object(type_=ResponseStreamEvent, value=chunk)
            if event.type == "response.output_item.done":
                done[event.output_index] = event.item
            if event.type in ("response.completed", "response.incomplete"):
                response = event.response
        output = [done[index] for index in sorted(done)] or response.output  # what is encrypted, is anew each time
    else:
        response = openai_object(type_=Response, value=json.loads(exchange.body))
        output = response.output
    why = response.incomplete_details.reason if response.incomplete_details else ""
    reading = Reading(stop=why or "", model=response.model)
    for item in output:
        match item.type:
            case "message":
                reading.text += "".join(
                    part.text if part.type == "output_text" else part.refusal for part in item.content
                )
                if any(part.type == "refusal" for part in item.content):
                    reading.stop = "content_filter"
            case "reasoning":
                reading.reasoning += "\n\n".join(part.text for part in item.summary or item.content or [])
                reading.signatures += [item.encrypted_content] if item.encrypted_content else []
            case "function_call":
                reading.calls.append((item.name, arguments_of(item.arguments)))
            case "custom_tool_call":
                reading.calls.append((item.name, {"input": item.input}))
            case "local_shell_call":
                reading.calls.append(("local_shell", item.action.to_dict()))
            case "shell_call" if not any(each.type == "shell_call_output" for each in output):
                reading.calls.append(("shell", item.action.to_dict(exclude_none=True)))
            case kind:
                reading.opaque.append(kind)
    if response.usage:
        reading.prompt, reading.completion = response.usage.input_tokens, response.usage.output_tokens
    return reading


def read_chat(exchange: Exchange) -> Reading:
    """Read an answer as `ChatCompletion`; a stream goes through the SDK's accumulator."""
    reading = Reading()
    usage: Any = None
    if exchange.streamed:
        state = ChatCompletionStreamState()
        for chunk in exchange.chunks:
            parsed: Any = openai_object(type_=ChatCompletionChunk, value=chunk)
            usage = parsed.usage or (getattr(parsed, "x_groq", None) or {}).get("usage") or usage
            if not parsed.choices:
                continue
            for choice in parsed.choices:
                if isinstance(choice.delta.content, list):  # Mistral
                    thoughts = [part["thinking"] for part in choice.delta.content if part["type"] == "thinking"]
                    reading.reasoning += "".join(piece["text"] for pieces in thoughts for piece in pieces)
                    choice.delta.content = "".join(part.get("text", "") for part in choice.delta.content)
                for position, call in enumerate(choice.delta.tool_calls or []):
                    call.index = position if call.index is None else call.index
            state.handle_chunk(parsed)
        completion: Any = state.current_completion_snapshot
    else:
        completion = openai_object(type_=ChatCompletion, value=json.loads(exchange.body))
        usage = completion.usage
    reading.model = completion.model
    choice = completion.choices[0]
    message = choice.message
    reading.text = message.content or message.refusal or ""
    if isinstance(message.content, list):
        thoughts = [part["thinking"] for part in message.content if part["type"] == "thinking"]
        reading.reasoning += "".join(piece["text"] for pieces in thoughts for piece in pieces)
        reading.text = "".join(part.get("text", "") for part in message.content)
    reading.reasoning += getattr(message, "reasoning_content", None) or getattr(message, "reasoning", None) or ""
    for call in message.tool_calls or []:
        reading.calls.append((call.function.name, arguments_of(call.function.arguments)))
    reading.stop = "content_filter" if message.refusal else choice.finish_reason or ""
    if usage:
        counts = usage if isinstance(usage, dict) else usage.to_dict()
        reading.prompt = counts["prompt_tokens"]
        details = counts.get("completion_tokens_details") or {}
        reasoning = details.get("reasoning_tokens") or 0
        outside = counts["prompt_tokens"] + counts["completion_tokens"] + reasoning == counts["total_tokens"]
        reading.completion = counts["completion_tokens"] + (reasoning if outside else 0)
    return reading


def read_google(exchange: Exchange) -> Reading:  # noqa: C901, PLR0912 - a case each
    """Read an answer as one `GenerateContentResponse` per chunk."""
    if exchange.streamed:
        chunks = exchange.chunks
    else:
        whole = json.loads(exchange.body)
        chunks = whole if isinstance(whole, list) else [whole]
    reading = Reading()
    counts: dict[str, int] = {}
    for chunk in chunks:
        parsed = types.GenerateContentResponse._from_response(response=chunk, kwargs={})
        reading.model = parsed.model_version or reading.model
        if parsed.usage_metadata:
            counts |= {name: value for name, value in parsed.usage_metadata if isinstance(value, int)}
        for candidate in (parsed.candidates or [])[:1]:
            if candidate.finish_reason:
                reading.stop = candidate.finish_reason.value
            for part in (candidate.content and candidate.content.parts) or []:
                if part.thought_signature:
                    reading.signatures.append("signed")
                if call := part.function_call:
                    if call.name:
                        reading.calls.append((call.name, call.args or {}))
                    for piece in call.partial_args or []:
                        _put(reading.calls[-1][1], piece)
                elif part.text is not None:
                    reading.reasoning += part.text if part.thought else ""
                    reading.text += "" if part.thought else part.text
                else:
                    reading.opaque += [name for name in _GOOGLE if getattr(part, name) is not None]
    reading.prompt = counts.get("prompt_token_count", 0) + counts.get("tool_use_prompt_token_count", 0)
    reading.completion = counts.get("candidates_token_count", 0) + counts.get("thoughts_token_count", 0)
    return reading


def _put(position: Any, piece: types.PartialArg) -> None:
    """Set a piece of an argument at its path, such as `$.steps[0].text`."""
    steps = [int(step) if step.isdecimal() else step for step in re.findall(r"[^.$\[\]]+", piece.json_path or "")]
    for step, following in itertools.pairwise(steps):
        empty: Any = [] if isinstance(following, int) else {}
        if isinstance(step, str):
            position = position.setdefault(step, empty)
        else:
            position += [empty] * (step == len(position))
            position = position[step]
    last = steps[-1]
    values = (piece.string_value, piece.number_value, piece.bool_value)
    value = next((value for value in values if value is not None), None)
    if isinstance(position, list):
        position += [None] * (last == len(position))  # type: ignore[operator]
    before = position[last] if isinstance(position, list) else position.get(last)
    position[last] = before + value if isinstance(before, str) and isinstance(value, str) else value


_GOOGLE = ("executable_code", "code_execution_result", "inline_data", "file_data", "tool_call", "tool_response")

READINGS = {"anthropic": read_anthropic, "responses": read_responses, "chat": read_chat, "google": read_google}
