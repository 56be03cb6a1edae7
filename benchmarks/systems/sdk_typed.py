"""A bare loop over OpenAI's SDK with its own types for requests and chunks."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from functools import partial
from typing import Any

from benchmarks.common import QUESTION, URL, Outcome

DISTRIBUTIONS = ("openai",)
TOOLS: list[Any] = [
    {
        "type": "function",
        "function": {
            "name": "ping",
            "description": "Answer at once.",
            "parameters": {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]},
        },
    }
]


def _used(prompt: int, completion: int) -> tuple[int, int]:
    return prompt, completion


class _Typed:
    def __init__(self, tool: Callable[..., Any]) -> None:
        self._tool = tool
        self._client: Any = None

    def _ready(self) -> Any:
        from openai import AsyncOpenAI

        if self._client is None:
            self._client = AsyncOpenAI(api_key="k", base_url="http://127.0.0.1")
        self._client.base_url = f"{URL.get()}/v1/"
        return self._client

    async def run(self) -> Outcome:
        client, messages = self._ready(), [{"role": "user", "content": QUESTION}]
        prompt = completion = 0
        while True:
            text = ""
            calls: dict[int, Any] = {}
            stream = await client.chat.completions.create(
                model="gpt-5", messages=messages, tools=TOOLS, stream=True, stream_options={"include_usage": True}
            )
            async for chunk in stream:
                if chunk.usage:
                    prompt += chunk.usage.prompt_tokens
                    completion += chunk.usage.completion_tokens
                for choice in chunk.choices:
                    text += choice.delta.content or ""
                    for piece in choice.delta.tool_calls or ():
                        call = calls.setdefault(piece.index, {"id": piece.id, "name": piece.function.name, "text": ""})
                        call["text"] += piece.function.arguments or ""
            if not calls:
                return Outcome(text, partial(_used, prompt, completion))
            made = [
                {"id": c["id"], "type": "function", "function": {"name": c["name"], "arguments": c["text"]}}
                for c in calls.values()
            ]
            messages.append({"role": "assistant", "tool_calls": made})  # type: ignore[dict-item]
            for call in calls.values():
                result = await self._tool(**json.loads(call["text"]))
                messages.append({"role": "tool", "tool_call_id": call["id"], "content": result})

    async def stream(self) -> AsyncIterator[str]:
        stream = await self._ready().chat.completions.create(
            model="gpt-5", messages=[{"role": "user", "content": QUESTION}], stream=True
        )
        async for chunk in stream:
            for choice in chunk.choices:
                if choice.delta.content:
                    yield choice.delta.content

    async def close(self) -> None:
        await self._client.close()


def build(tool: Callable[..., Any]) -> _Typed:
    """Return the loop around *tool*."""
    return _Typed(tool)
