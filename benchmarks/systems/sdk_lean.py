"""The same loop with the SDK as transport only: finished JSON in, lines out, both through documented methods."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from functools import partial
from typing import Any

from benchmarks.common import QUESTION, URL, Outcome
from benchmarks.systems.sdk_typed import TOOLS

DISTRIBUTIONS = ("openai",)


def _used(prompt: int, completion: int) -> tuple[int, int]:
    return prompt, completion


class Lean:
    """The loop around a tool; `chunks` gets its answers."""

    def __init__(self, tool: Callable[..., Any]) -> None:
        self._tool = tool
        self._client: Any = None

    async def chunks(self, body: dict[str, Any]) -> AsyncIterator[dict[str, Any]]:
        """Yield the chunks of one answer."""
        from openai import AsyncOpenAI

        if self._client is None:
            self._client = AsyncOpenAI(api_key="k", base_url="http://127.0.0.1")
        self._client.base_url = f"{URL.get()}/v1/"
        asked = self._client.chat.completions.with_streaming_response.create(
            model="gpt-5", messages=[], stream=True, extra_body=body
        )
        async with asked as response:
            async for line in response.iter_lines():
                if line.startswith("data: {"):
                    yield json.loads(line[6:])

    async def run(self) -> Outcome:
        """Run the loop."""
        messages: list[dict[str, Any]] = [{"role": "user", "content": QUESTION}]
        prompt = completion = 0
        while True:
            text = ""
            calls: dict[int, Any] = {}
            body = {"messages": messages, "tools": TOOLS, "stream_options": {"include_usage": True}}
            async for chunk in self.chunks(body):
                if used := chunk.get("usage"):
                    prompt += used["prompt_tokens"]
                    completion += used["completion_tokens"]
                for choice in chunk["choices"]:
                    delta = choice["delta"]
                    text += delta.get("content") or ""
                    for piece in delta.get("tool_calls") or ():
                        call = calls.setdefault(piece["index"], piece | {"text": ""})
                        call["text"] += piece["function"].get("arguments") or ""
            if not calls:
                return Outcome(text, partial(_used, prompt, completion))
            made = [
                {"id": c["id"], "type": "function", "function": {"name": c["function"]["name"], "arguments": c["text"]}}
                for c in calls.values()
            ]
            messages.append({"role": "assistant", "tool_calls": made})
            for call in calls.values():
                result = await self._tool(**json.loads(call["text"]))
                messages.append({"role": "tool", "tool_call_id": call["id"], "content": result})

    async def stream(self) -> AsyncIterator[str]:
        """Yield one answer in pieces."""
        async for chunk in self.chunks({"messages": [{"role": "user", "content": QUESTION}]}):
            for choice in chunk["choices"]:
                if piece := choice["delta"].get("content"):
                    yield piece

    async def close(self) -> None:
        """Close the client."""
        await self._client.close()


def build(tool: Callable[..., Any]) -> Lean:
    """Return the loop around *tool*."""
    return Lean(tool)
