"""What the vendors' own SDKs make of an answer: their objects, and their own helpers for streams."""

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
class Said:
    """An answer, as far as all formats have a place for it."""

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
    """Arguments as JSON, or as the text that they are."""
    try:
        return json.loads(text or "{}")
    except ValueError:
        return text


def anthropic_says(exchange: Exchange) -> Said:
    """Over `BetaMessage`, which knows all blocks."""
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
    said = Said(stop=message.stop_reason or "", model=message.model)
    for block in message.content:
        match block.type:
            case "text":
                said.text += block.text
            case "thinking":
                said.reasoning += block.thinking
                said.signatures += [block.signature] if block.signature else []
            case "redacted_thinking":
                said.signatures.append(block.data)
            case "tool_use":
                said.calls.append((block.name, block.input))
            case kind:
                said.opaque.append(kind)
    beside = [turn for turn in message.usage.iterations or [] if turn.type in ("compaction", "advisor_message")]
    said.prompt = sum(map(anthropic_input, (message.usage, *beside)))
    said.completion = sum(usage.output_tokens for usage in (message.usage, *beside))
    return said


def anthropic_input(usage: Any) -> int:
    cached: int = (usage.cache_read_input_tokens or 0) + (usage.cache_creation_input_tokens or 0)
    return cached + int(usage.input_tokens)


def responses_say(exchange: Exchange) -> Said:  # noqa: C901, PLR0912 - a case each
    """Over `Response`, that of the last event for a stream."""
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
    said = Said(stop=why or "", model=response.model)
    for item in output:
        match item.type:
            case "message":
                said.text += "".join(part.text if part.type == "output_text" else part.refusal for part in item.content)
                if any(part.type == "refusal" for part in item.content):
                    said.stop = "content_filter"
            case "reasoning":
                said.reasoning += "\n\n".join(part.text for part in item.summary or item.content or [])
                said.signatures += [item.encrypted_content] if item.encrypted_content else []
            case "function_call":
                said.calls.append((item.name, arguments_of(item.arguments)))
            case "custom_tool_call":
                said.calls.append((item.name, {"input": item.input}))
            case "local_shell_call":
                said.calls.append(("local_shell", item.action.to_dict()))
            case "shell_call" if not any(each.type == "shell_call_output" for each in output):
                said.calls.append(("shell", item.action.to_dict(exclude_none=True)))
            case kind:
                said.opaque.append(kind)
    if response.usage:
        said.prompt, said.completion = response.usage.input_tokens, response.usage.output_tokens
    return said


def chat_says(exchange: Exchange) -> Said:
    """Over `ChatCompletion`; a stream goes through the SDK's accumulator, what it cannot take through its chunks."""
    said = Said()
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
                    said.reasoning += "".join(piece["text"] for pieces in thoughts for piece in pieces)
                    choice.delta.content = "".join(part.get("text", "") for part in choice.delta.content)
                for place, call in enumerate(choice.delta.tool_calls or []):
                    call.index = place if call.index is None else call.index
            state.handle_chunk(parsed)
        completion: Any = state.current_completion_snapshot
    else:
        completion = openai_object(type_=ChatCompletion, value=json.loads(exchange.body))
        usage = completion.usage
    said.model = completion.model
    choice = completion.choices[0]
    message = choice.message
    said.text = message.content or message.refusal or ""
    if isinstance(message.content, list):
        thoughts = [part["thinking"] for part in message.content if part["type"] == "thinking"]
        said.reasoning += "".join(piece["text"] for pieces in thoughts for piece in pieces)
        said.text = "".join(part.get("text", "") for part in message.content)
    said.reasoning += getattr(message, "reasoning_content", None) or getattr(message, "reasoning", None) or ""
    for call in message.tool_calls or []:
        said.calls.append((call.function.name, arguments_of(call.function.arguments)))
    said.stop = "content_filter" if message.refusal else choice.finish_reason or ""
    if usage:
        counts = usage if isinstance(usage, dict) else usage.to_dict()
        said.prompt = counts["prompt_tokens"]
        details = counts.get("completion_tokens_details") or {}
        reasoning = details.get("reasoning_tokens") or 0
        outside = counts["prompt_tokens"] + counts["completion_tokens"] + reasoning == counts["total_tokens"]
        said.completion = counts["completion_tokens"] + (reasoning if outside else 0)
    return said


def google_says(exchange: Exchange) -> Said:  # noqa: C901, PLR0912 - a case each
    """Over `GenerateContentResponse`, one for each chunk."""
    if exchange.streamed:
        chunks = exchange.chunks
    else:
        whole = json.loads(exchange.body)
        chunks = whole if isinstance(whole, list) else [whole]
    said = Said()
    counts: dict[str, int] = {}
    for chunk in chunks:
        parsed = types.GenerateContentResponse._from_response(response=chunk, kwargs={})
        said.model = parsed.model_version or said.model
        if parsed.usage_metadata:
            counts |= {name: value for name, value in parsed.usage_metadata if isinstance(value, int)}
        for candidate in (parsed.candidates or [])[:1]:
            if candidate.finish_reason:
                said.stop = candidate.finish_reason.value
            for part in (candidate.content and candidate.content.parts) or []:
                if part.thought_signature:
                    said.signatures.append("signed")
                if call := part.function_call:
                    if call.name:
                        said.calls.append((call.name, call.args or {}))
                    for piece in call.partial_args or []:
                        _put(said.calls[-1][1], piece)
                elif part.text is not None:
                    said.reasoning += part.text if part.thought else ""
                    said.text += "" if part.thought else part.text
                else:
                    said.opaque += [name for name in _GOOGLE if getattr(part, name) is not None]
    said.prompt = counts.get("prompt_token_count", 0) + counts.get("tool_use_prompt_token_count", 0)
    said.completion = counts.get("candidates_token_count", 0) + counts.get("thoughts_token_count", 0)
    return said


def _put(place: Any, piece: types.PartialArg) -> None:
    """A piece of an argument at its path, such as `$.steps[0].text`."""
    steps = [int(step) if step.isdecimal() else step for step in re.findall(r"[^.$\[\]]+", piece.json_path or "")]
    for step, following in itertools.pairwise(steps):
        empty: Any = [] if isinstance(following, int) else {}
        if isinstance(step, str):
            place = place.setdefault(step, empty)
        else:
            place += [empty] * (step == len(place))
            place = place[step]
    last = steps[-1]
    values = (piece.string_value, piece.number_value, piece.bool_value)
    value = next((value for value in values if value is not None), None)
    if isinstance(place, list):
        place += [None] * (last == len(place))  # type: ignore[operator]
    before = place[last] if isinstance(place, list) else place.get(last)
    place[last] = before + value if isinstance(before, str) and isinstance(value, str) else value


_GOOGLE = ("executable_code", "code_execution_result", "inline_data", "file_data", "tool_call", "tool_response")

SAYS = {"anthropic": anthropic_says, "responses": responses_say, "chat": chat_says, "google": google_says}
