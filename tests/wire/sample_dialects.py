"""The wire formats of the samples, after the vendors' API references."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .samples import SampleAnswer, SampleCall, SampleUsage

SIGNATURE = "c2lnbmVkIHJlYXNvbmluZw=="


def _sse(events: Iterable[dict[str, Any]], *, named: bool = False, end: str = "") -> str:
    lines = []
    for event in events:
        name = f"event: {event['type']}\n" if named else ""
        lines.append(f"{name}data: {json.dumps(event, ensure_ascii=False)}\n\n")
    return "".join(lines) + end


def _halves(text: str) -> tuple[str, str]:
    return text[: len(text) // 2], text[len(text) // 2 :]


def _arguments(call: SampleCall) -> str:
    return json.dumps(call.arguments, ensure_ascii=False)


class Dialect(ABC):
    """A wire format, as one vendor writes it."""

    name: str
    folder: str
    """The provider and end point, as in recorded traffic."""
    host: str

    @abstractmethod
    def whole(self, answer: SampleAnswer) -> dict[str, Any]:
        """Return the body of an unstreamed answer."""

    @abstractmethod
    def stream(self, answer: SampleAnswer) -> str:
        """Return the body of a streamed answer."""

    @abstractmethod
    def request(
        self, question: str, schema: dict[str, Any], *, answer: SampleAnswer | None = None, result: str = ""
    ) -> dict[str, Any]:
        """Return a request with *question*, and with an *answer* and the *result* of its call."""

    @abstractmethod
    def error(self, status: int, kind: str, message: str) -> dict[str, Any]:
        """Return the body of an error response."""


class AnthropicMessages(Dialect):
    """Anthropic's Messages API."""

    name, folder, host = "messages", "anthropic/messages", "api.anthropic.com"
    model = "claude-sonnet-4-5"
    _STOPS = {"end": "end_turn", "calls": "tool_use", "length": "max_tokens"}
    _ERRORS = {
        "invalid": "invalid_request_error", "too_long": "invalid_request_error",
        "authentication": "authentication_error", "permission": "permission_error", "not_found": "not_found_error",
        "rate_limit": "rate_limit_error", "overloaded": "overloaded_error",
    }  # fmt: skip

    def _usage(self, usage: SampleUsage) -> dict[str, Any]:
        return {
            "input_tokens": usage.prompt - usage.cached - usage.cache_write,
            "cache_creation_input_tokens": usage.cache_write,
            "cache_read_input_tokens": usage.cached,
            "output_tokens": usage.completion,
        }

    def _blocks(self, answer: SampleAnswer) -> list[dict[str, Any]]:
        blocks: list[dict[str, Any]] = []
        if answer.reasoning:
            blocks.append({"type": "thinking", "thinking": "".join(answer.reasoning), "signature": SIGNATURE})
        if answer.text:
            blocks.append({"type": "text", "text": "".join(answer.text)})
        blocks += [{"type": "tool_use", "id": c.id, "name": c.name, "input": c.arguments} for c in answer.calls]
        return blocks

    def whole(self, answer: SampleAnswer) -> dict[str, Any]:
        """See `Dialect.whole`."""
        return {
            "id": "msg_sample", "type": "message", "role": "assistant", "model": self.model,
            "content": self._blocks(answer), "stop_reason": self._STOPS[answer.stop], "stop_sequence": None,
            "usage": self._usage(answer.usage),
        }  # fmt: skip

    def stream(self, answer: SampleAnswer) -> str:
        """See `Dialect.stream`."""
        return _sse(self._events(answer), named=True)

    def _events(self, answer: SampleAnswer) -> Iterator[dict[str, Any]]:
        whole = self.whole(answer)
        usage = whole["usage"]
        start = {**whole, "content": [], "stop_reason": None, "usage": {**usage, "output_tokens": 1}}
        yield {"type": "message_start", "message": start}
        yield {"type": "ping"}
        for index, block in enumerate(whole["content"]):
            empty, deltas = self._deltas(block, answer)
            yield {"type": "content_block_start", "index": index, "content_block": empty}
            for delta in deltas:
                yield {"type": "content_block_delta", "index": index, "delta": delta}
            yield {"type": "content_block_stop", "index": index}
        delta = {"stop_reason": whole["stop_reason"], "stop_sequence": None}
        yield {"type": "message_delta", "delta": delta, "usage": usage}
        yield {"type": "message_stop"}

    def _deltas(self, block: dict[str, Any], answer: SampleAnswer) -> tuple[dict[str, Any], list[dict[str, Any]]]:
        match block["type"]:
            case "thinking":
                deltas = [{"type": "thinking_delta", "thinking": piece} for piece in answer.reasoning]
                return {**block, "thinking": "", "signature": ""}, [
                    *deltas,
                    {"type": "signature_delta", "signature": SIGNATURE},
                ]
            case "text":
                return {**block, "text": ""}, [{"type": "text_delta", "text": piece} for piece in answer.text]
            case _:
                pieces = _halves(json.dumps(block["input"], ensure_ascii=False)) if block["input"] else ("", "")
                return {**block, "input": {}}, [{"type": "input_json_delta", "partial_json": p} for p in pieces]

    def request(
        self, question: str, schema: dict[str, Any], *, answer: SampleAnswer | None = None, result: str = ""
    ) -> dict[str, Any]:
        """See `Dialect.request`."""
        messages: list[dict[str, Any]] = [{"role": "user", "content": [{"type": "text", "text": question}]}]
        if answer is not None:
            messages.append({"role": "assistant", "content": self._blocks(answer)})
            results = [{"type": "tool_result", "tool_use_id": c.id, "content": result} for c in answer.calls]
            messages.append({"role": "user", "content": results})
        tools = [{"name": "weather", "description": "The weather.", "input_schema": schema}]
        return {"model": self.model, "max_tokens": 1_000, "stream": True, "tools": tools, "messages": messages}

    def error(self, status: int, kind: str, message: str) -> dict[str, Any]:
        """See `Dialect.error`."""
        return {"type": "error", "error": {"type": self._ERRORS[kind], "message": message}}


_OPENAI_CODES = {
    "invalid": None, "too_long": "context_length_exceeded", "authentication": "invalid_api_key", "permission": None,
    "not_found": "model_not_found", "rate_limit": "rate_limit_exceeded", "overloaded": "server_error",
}  # fmt: skip


def _openai_error(kind: str, message: str) -> dict[str, Any]:
    return {"error": {"message": message, "type": "invalid_request_error", "param": None, "code": _OPENAI_CODES[kind]}}


class OpenAIResponses(Dialect):
    """OpenAI's Responses API."""

    name, folder, host = "responses", "openai/responses", "api.openai.com"
    model = "gpt-5"

    def _items(self, answer: SampleAnswer) -> list[dict[str, Any]]:
        items: list[dict[str, Any]] = []
        if answer.reasoning:
            summary = [{"type": "summary_text", "text": "".join(answer.reasoning)}]
            items.append({"id": "rs_1", "type": "reasoning", "summary": summary, "encrypted_content": SIGNATURE})
        if answer.text:
            content = [{"type": "output_text", "text": "".join(answer.text), "annotations": [], "logprobs": []}]
            items.append(
                {"id": "msg_1", "type": "message", "role": "assistant", "status": "completed", "content": content}
            )
        for number, call in enumerate(answer.calls):
            items.append({
                "id": f"fc_{number}", "type": "function_call", "status": "completed", "call_id": call.id,
                "name": call.name, "arguments": _arguments(call),
            })  # fmt: skip
        return items

    def whole(self, answer: SampleAnswer) -> dict[str, Any]:
        """See `Dialect.whole`."""
        usage, cut = answer.usage, answer.stop == "length"
        return {
            "id": "resp_sample", "object": "response", "created_at": 1_760_000_000, "model": self.model,
            "status": "incomplete" if cut else "completed", "error": None,
            "incomplete_details": {"reason": "max_output_tokens"} if cut else None,
            "output": self._items(answer), "parallel_tool_calls": True, "tool_choice": "auto", "tools": [],
            "usage": {
                "input_tokens": usage.prompt,
                "input_tokens_details": {"cached_tokens": usage.cached, "cache_write_tokens": usage.cache_write},
                "output_tokens": usage.completion,
                "output_tokens_details": {"reasoning_tokens": usage.reasoning},
                "total_tokens": usage.prompt + usage.completion,
            },
        }  # fmt: skip

    def stream(self, answer: SampleAnswer) -> str:
        """See `Dialect.stream`."""
        events = ({**event, "sequence_number": number} for number, event in enumerate(self._events(answer)))
        return _sse(events, named=True)

    def _events(self, answer: SampleAnswer) -> Iterator[dict[str, Any]]:
        whole = self.whole(answer)
        begun = {**whole, "status": "in_progress", "output": [], "usage": None, "incomplete_details": None}
        yield {"type": "response.created", "response": begun}
        yield {"type": "response.in_progress", "response": begun}
        for index, item in enumerate(whole["output"]):
            position = {"item_id": item["id"], "output_index": index}
            match item["type"]:
                case "reasoning":
                    yield from self._reasoning(position, item, answer)
                case "message":
                    yield from self._message(position, item, answer)
                case _:
                    yield from self._call(position, item)
            yield {"type": "response.output_item.done", "output_index": index, "item": item}
        yield {"type": f"response.{whole['status']}", "response": whole}

    def _reasoning(
        self, position: dict[str, Any], item: dict[str, Any], answer: SampleAnswer
    ) -> Iterator[dict[str, Any]]:
        empty = {**item, "summary": [], "encrypted_content": ""}
        part = {**position, "summary_index": 0}
        yield {"type": "response.output_item.added", "output_index": position["output_index"], "item": empty}
        yield {
            "type": "response.reasoning_summary_part.added",
            **part,
            "part": {"type": "summary_text", "text": ""},
        }
        for piece in answer.reasoning:
            yield {"type": "response.reasoning_summary_text.delta", **part, "delta": piece}
        text = "".join(answer.reasoning)
        yield {"type": "response.reasoning_summary_text.done", **part, "text": text}
        yield {"type": "response.reasoning_summary_part.done", **part, "part": item["summary"][0]}

    def _message(
        self, position: dict[str, Any], item: dict[str, Any], answer: SampleAnswer
    ) -> Iterator[dict[str, Any]]:
        empty = {**item, "status": "in_progress", "content": []}
        part = {**position, "content_index": 0}
        blank = {**item["content"][0], "text": ""}
        yield {"type": "response.output_item.added", "output_index": position["output_index"], "item": empty}
        yield {"type": "response.content_part.added", **part, "part": blank}
        for piece in answer.text:
            yield {"type": "response.output_text.delta", **part, "delta": piece, "logprobs": []}
        yield {"type": "response.output_text.done", **part, "text": "".join(answer.text), "logprobs": []}
        yield {"type": "response.content_part.done", **part, "part": item["content"][0]}

    def _call(self, position: dict[str, Any], item: dict[str, Any]) -> Iterator[dict[str, Any]]:
        empty = {**item, "status": "in_progress", "arguments": ""}
        yield {"type": "response.output_item.added", "output_index": position["output_index"], "item": empty}
        for piece in _halves(item["arguments"]):
            yield {"type": "response.function_call_arguments.delta", **position, "delta": piece}
        done = {"arguments": item["arguments"], "name": item["name"]}
        yield {"type": "response.function_call_arguments.done", **position, **done}

    def request(
        self, question: str, schema: dict[str, Any], *, answer: SampleAnswer | None = None, result: str = ""
    ) -> dict[str, Any]:
        """See `Dialect.request`."""
        items: list[dict[str, Any]] = [{"role": "user", "content": question}]
        if answer is not None:
            items += self._items(answer)
            items += [{"type": "function_call_output", "call_id": c.id, "output": result} for c in answer.calls]
        tools = [{"type": "function", "name": "weather", "description": "The weather.", "parameters": schema}]
        return {
            "model": self.model, "stream": True, "store": False, "include": ["reasoning.encrypted_content"],
            "tools": tools, "input": items,
        }  # fmt: skip

    def error(self, status: int, kind: str, message: str) -> dict[str, Any]:
        """See `Dialect.error`."""
        return _openai_error(kind, message)


class ChatCompletions(Dialect):
    """OpenAI's Chat Completions, and the deviations of other servers."""

    name, folder, host = "openai", "openai/chat_completions", "api.openai.com"
    model = "gpt-5"
    reasoning_field = ""
    """The field of reasoning; "" if the server sends none."""
    end = "data: [DONE]\n\n"

    def usage(self, usage: SampleUsage) -> dict[str, Any]:
        """Return the usage object."""
        return {
            "prompt_tokens": usage.prompt, "completion_tokens": usage.completion,
            "total_tokens": usage.prompt + usage.completion,
            "prompt_tokens_details": {"cached_tokens": usage.cached},
            "completion_tokens_details": {"reasoning_tokens": usage.reasoning},
        }  # fmt: skip

    def content(self, answer: SampleAnswer) -> Any:
        """Return the content of a whole message."""
        return "".join(answer.text) or None

    def pieces(self, answer: SampleAnswer) -> Iterator[dict[str, Any]]:
        """Yield the deltas of reasoning and text."""
        if self.reasoning_field:
            for piece in answer.reasoning:
                yield {self.reasoning_field: piece}
        for piece in answer.text:
            yield {"content": piece}

    def message(self, answer: SampleAnswer) -> dict[str, Any]:
        """Return a whole message."""
        message: dict[str, Any] = {"role": "assistant", "content": self.content(answer)}
        if answer.reasoning and self.reasoning_field:
            message[self.reasoning_field] = "".join(answer.reasoning)
        if answer.calls:
            message["tool_calls"] = [
                {"id": c.id, "type": "function", "function": {"name": c.name, "arguments": _arguments(c)}}
                for c in answer.calls
            ]
        return message

    def whole(self, answer: SampleAnswer) -> dict[str, Any]:
        """See `Dialect.whole`."""
        choice = {"index": 0, "message": self.message(answer), "finish_reason": self._finish(answer), "logprobs": None}
        return {
            "id": "chatcmpl-sample", "object": "chat.completion", "created": 1_760_000_000, "model": self.model,
            "choices": [choice], "usage": self.usage(answer.usage),
        }  # fmt: skip

    def _finish(self, answer: SampleAnswer) -> str:
        return {"end": "stop", "calls": "tool_calls", "length": "length"}[answer.stop]

    def stream(self, answer: SampleAnswer) -> str:
        """See `Dialect.stream`."""
        return _sse(self._chunks(answer), end=self.end)

    def _chunk(self, delta: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
        base = {"id": "chatcmpl-sample", "object": "chat.completion.chunk", "created": 1_760_000_000}
        return {**base, "model": self.model, "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}

    def _chunks(self, answer: SampleAnswer) -> Iterator[dict[str, Any]]:
        yield self._chunk({"role": "assistant", "content": ""})
        for delta in self.pieces(answer):
            yield self._chunk(delta)
        for index, call in enumerate(answer.calls):
            function = {"name": call.name, "arguments": ""}
            yield self._chunk(
                {"tool_calls": [{"index": index, "id": call.id, "type": "function", "function": function}]}
            )
            for piece in _halves(_arguments(call)):
                yield self._chunk({"tool_calls": [{"index": index, "function": {"arguments": piece}}]})
        yield from self.last(answer)

    def last(self, answer: SampleAnswer) -> Iterator[dict[str, Any]]:
        """Yield the finish reason and the usage."""
        yield self._chunk({}, self._finish(answer))
        yield {**self._chunk({}), "choices": [], "usage": self.usage(answer.usage)}

    def request(
        self, question: str, schema: dict[str, Any], *, answer: SampleAnswer | None = None, result: str = ""
    ) -> dict[str, Any]:
        """See `Dialect.request`."""
        messages: list[dict[str, Any]] = [{"role": "user", "content": question}]
        if answer is not None:
            message = self.message(answer)
            messages.append(message)
            messages += [
                {"role": "tool", "tool_call_id": call["id"], "content": result} for call in message["tool_calls"]
            ]
        function = {"name": "weather", "description": "The weather.", "parameters": schema}
        tools = [{"type": "function", "function": function}]
        return {"model": self.model, "stream": True, "tools": tools, "messages": messages}

    def error(self, status: int, kind: str, message: str) -> dict[str, Any]:
        """See `Dialect.error`."""
        return _openai_error(kind, message)


class DeepSeekChat(ChatCompletions):
    """DeepSeek: `reasoning_content`, cache counts of its own, and usage in the chunk with the finish reason."""

    name, folder, host = "deepseek", "openai_compat/chat_completions", "api.deepseek.com"
    model, reasoning_field = "deepseek-reasoner", "reasoning_content"

    def usage(self, usage: SampleUsage) -> dict[str, Any]:
        """See `ChatCompletions.usage`."""
        hits = {"prompt_cache_hit_tokens": usage.cached, "prompt_cache_miss_tokens": usage.prompt - usage.cached}
        return {**super().usage(usage), **hits}

    def last(self, answer: SampleAnswer) -> Iterator[dict[str, Any]]:
        """See `ChatCompletions.last`."""
        yield {**self._chunk({"content": ""}, self._finish(answer)), "usage": self.usage(answer.usage)}


class MistralChat(ChatCompletions):
    """Mistral: reasoning in content parts, whole calls in one delta, ids of nine characters, usage without details."""

    name, folder, host = "mistral", "openai_compat/chat_completions", "api.mistral.ai"
    model = "magistral-medium-latest"

    def usage(self, usage: SampleUsage) -> dict[str, Any]:
        """See `ChatCompletions.usage`."""
        total = usage.prompt + usage.completion
        return {"prompt_tokens": usage.prompt, "completion_tokens": usage.completion, "total_tokens": total}

    def content(self, answer: SampleAnswer) -> Any:
        """See `ChatCompletions.content`."""
        text = "".join(answer.text)
        if not answer.reasoning:
            return text
        thinking = [{"type": "text", "text": "".join(answer.reasoning)}]
        parts = [{"type": "thinking", "thinking": thinking}]
        return [*parts, {"type": "text", "text": text}] if text else parts

    def pieces(self, answer: SampleAnswer) -> Iterator[dict[str, Any]]:
        """See `ChatCompletions.pieces`."""
        for piece in answer.reasoning:
            yield {"content": [{"type": "thinking", "thinking": [{"type": "text", "text": piece}]}]}
        for piece in answer.text:
            yield {"content": piece}

    def message(self, answer: SampleAnswer) -> dict[str, Any]:
        """See `ChatCompletions.message`."""
        message = super().message(answer)
        for call in message.get("tool_calls", []):
            call["id"] = call["id"][-9:].replace("_", "x")
        return message

    def _chunks(self, answer: SampleAnswer) -> Iterator[dict[str, Any]]:
        yield self._chunk({"role": "assistant", "content": ""})
        for delta in self.pieces(answer):
            yield self._chunk(delta)
        calls = self.message(answer).get("tool_calls", [])
        last = {"content": "", **({"tool_calls": [{**c, "index": n} for n, c in enumerate(calls)]} if calls else {})}
        yield {**self._chunk(last, self._finish(answer)), "usage": self.usage(answer.usage)}


class OpenRouterChat(ChatCompletions):
    """OpenRouter: comments that keep the stream alive, `reasoning` with `reasoning_details`, cache writes."""

    name, folder, host = "openrouter", "openai_compat/chat_completions", "openrouter.ai"
    model, reasoning_field = "anthropic/claude-sonnet-4.5", "reasoning"

    def usage(self, usage: SampleUsage) -> dict[str, Any]:
        """See `ChatCompletions.usage`."""
        details = {"cached_tokens": usage.cached, "cache_write_tokens": usage.cache_write}
        return {**super().usage(usage), "prompt_tokens_details": details}

    def _details(self, text: str, **fields: Any) -> list[dict[str, Any]]:
        return [{"type": "reasoning.text", "text": text, "format": "anthropic-claude-v1", "index": 0, **fields}]

    def message(self, answer: SampleAnswer) -> dict[str, Any]:
        """See `ChatCompletions.message`."""
        message = super().message(answer)
        if answer.reasoning:
            message["reasoning_details"] = self._details("".join(answer.reasoning), signature=SIGNATURE)
        return message

    def pieces(self, answer: SampleAnswer) -> Iterator[dict[str, Any]]:
        """See `ChatCompletions.pieces`."""
        for delta in super().pieces(answer):
            details = {"reasoning_details": self._details(delta["reasoning"])} if "reasoning" in delta else {}
            yield {**delta, **details}
            if details and delta["reasoning"] == answer.reasoning[-1]:
                yield {"reasoning_details": self._details("", signature=SIGNATURE)}

    def stream(self, answer: SampleAnswer) -> str:
        """See `Dialect.stream`."""
        return ": OPENROUTER PROCESSING\n\n" + super().stream(answer)


class GeminiContent(Dialect):
    """Google's generateContent."""

    name, folder, host = "gemini", "google/generateContent", "generativelanguage.googleapis.com"
    model = "gemini-3-flash"

    def _usage(self, usage: SampleUsage) -> dict[str, Any]:
        return {
            "promptTokenCount": usage.prompt, "candidatesTokenCount": usage.completion - usage.reasoning,
            "totalTokenCount": usage.prompt + usage.completion,
            **({"cachedContentTokenCount": usage.cached} if usage.cached else {}),
            **({"thoughtsTokenCount": usage.reasoning} if usage.reasoning else {}),
        }  # fmt: skip

    def _calls(self, answer: SampleAnswer) -> list[dict[str, Any]]:
        parts: list[dict[str, Any]] = [
            {"functionCall": {"id": c.id, "name": c.name, "args": c.arguments}} for c in answer.calls
        ]
        if parts:
            parts[0]["thoughtSignature"] = SIGNATURE
        return parts

    def _chunk(self, parts: list[dict[str, Any]], usage: SampleUsage, finish: str = "") -> dict[str, Any]:
        candidate: dict[str, Any] = {"content": {"parts": parts, "role": "model"}, "index": 0}
        if finish:
            candidate["finishReason"] = finish
        return {
            "candidates": [candidate], "usageMetadata": self._usage(usage), "modelVersion": self.model,
            "responseId": "sample",
        }  # fmt: skip

    def whole(self, answer: SampleAnswer) -> dict[str, Any]:
        """See `Dialect.whole`."""
        parts: list[dict[str, Any]] = []
        if answer.reasoning:
            parts.append({"text": "".join(answer.reasoning), "thought": True})
        if answer.text:
            parts.append({"text": "".join(answer.text)})
        finish = "MAX_TOKENS" if answer.stop == "length" else "STOP"
        return self._chunk([*parts, *self._calls(answer)], answer.usage, finish)

    def stream(self, answer: SampleAnswer) -> str:
        """See `Dialect.stream`."""
        thoughts = [[{"text": piece, "thought": True}] for piece in answer.reasoning]
        pieces: list[list[dict[str, Any]]] = [*thoughts, *[[{"text": piece}] for piece in answer.text]]
        pieces += [[part] for part in self._calls(answer)]
        finish = "MAX_TOKENS" if answer.stop == "length" else "STOP"
        chunks = [self._chunk(parts, answer.usage) for parts in pieces[:-1]]
        chunks.append(self._chunk(pieces[-1], answer.usage, finish))
        return _sse(chunks).replace("\n", "\r\n")

    def request(
        self, question: str, schema: dict[str, Any], *, answer: SampleAnswer | None = None, result: str = ""
    ) -> dict[str, Any]:
        """See `Dialect.request`."""
        contents: list[dict[str, Any]] = [{"role": "user", "parts": [{"text": question}]}]
        if answer is not None:
            contents.append({"role": "model", "parts": self._calls(answer)})
            results = [
                {"functionResponse": {"id": c.id, "name": c.name, "response": {"output": result}}} for c in answer.calls
            ]
            contents.append({"role": "user", "parts": results})
        declaration = {"name": "weather", "description": "The weather.", "parametersJsonSchema": schema}
        return {"contents": contents, "tools": [{"functionDeclarations": [declaration]}]}

    def error(self, status: int, kind: str, message: str) -> dict[str, Any]:
        """See `Dialect.error`."""
        names = {400: "INVALID_ARGUMENT", 401: "UNAUTHENTICATED", 403: "PERMISSION_DENIED", 404: "NOT_FOUND"}
        status_name = names.get(status) or ("RESOURCE_EXHAUSTED" if status == 429 else "UNAVAILABLE")
        return {"error": {"code": status, "message": message, "status": status_name}}


DIALECTS: tuple[Dialect, ...] = (
    AnthropicMessages(),
    OpenAIResponses(),
    ChatCompletions(),
    DeepSeekChat(),
    MistralChat(),
    OpenRouterChat(),
    GeminiContent(),
)
