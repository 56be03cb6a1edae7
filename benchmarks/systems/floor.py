"""The floor: a minimal in-process loop with tools. It has no events, no error handling and no usage records."""

from __future__ import annotations

import asyncio
import inspect
import json
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from benchmarks.common import COMPLETION_TOKENS, PROMPT_TOKENS, QUESTION, SCRIPT, Call, Outcome

DISTRIBUTIONS: tuple[str, ...] = ()
_Message = dict[str, Any]


class Floor:
    """The loop around a tool."""

    def __init__(self, tool: Callable[..., Any]) -> None:
        self._tool = tool
        self._blocking = not inspect.iscoroutinefunction(tool)
        self._threads = ThreadPoolExecutor(32) if self._blocking else None

    async def run(self, conversation: list[_Message] | None = None, *, keep: bool = False) -> Outcome:
        messages = conversation if conversation is not None else []
        messages.append({"role": "user", "content": QUESTION})
        prompt = completion = 0
        while True:
            turn = await SCRIPT.get().next(len(messages))
            prompt += PROMPT_TOKENS
            completion += COMPLETION_TOKENS
            messages.append({"role": "assistant", "content": turn.text, "calls": turn.calls})
            if not turn.calls:
                return _outcome(turn.text, prompt, completion, messages if keep else None)
            messages += await self._results(turn.calls)

    async def stream(self) -> AsyncIterator[str]:
        messages = [{"role": "user", "content": QUESTION}]
        turn = await SCRIPT.get().next(len(messages))
        for delta in turn.deltas:
            yield delta
        messages.append({"role": "assistant", "content": turn.text})

    async def _results(self, calls: tuple[Call, ...]) -> list[_Message]:
        if len(calls) == 1 and not self._blocking:
            return [await self._result(calls[0])]
        return await asyncio.gather(*map(self._result, calls))

    async def _result(self, call: Call) -> _Message:
        arguments = json.loads(call.arguments)
        if self._blocking:
            loop = asyncio.get_running_loop()
            content = await loop.run_in_executor(self._threads, lambda: self._tool(**arguments))
        else:
            content = await self._tool(**arguments)
        return {"role": "tool", "call_id": call.id, "content": content}


def _outcome(text: str, prompt: int, completion: int, kept: list[_Message] | None) -> Outcome:
    return Outcome(text, lambda: (prompt, completion), kept)


def build(tool: Callable[..., Any]) -> Floor:
    """Return the loop around *tool*."""
    return Floor(tool)
