"""The floor of `growth`: the same work in bare asyncio."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

from benchmarks.common import PROMPT_TOKENS, QUESTION, SCRIPT
from benchmarks.systems.floor import Floor

DISTRIBUTIONS: tuple[str, ...] = ()


class _Growth(Floor):
    async def tree(self, levels: int, width: int) -> tuple[int, int]:
        messages: list[dict[str, Any]] = [{"role": "user", "content": QUESTION}]
        if not levels:
            return 1, PROMPT_TOKENS
        messages.append({"role": "assistant", "calls": width})
        below = await asyncio.gather(*(self.tree(levels - 1, width) for _ in range(width)))
        messages += [{"role": "tool", "content": "done"} for _ in below]
        return 1 + sum(runs for runs, _ in below), 2 * PROMPT_TOKENS + sum(prompt for _, prompt in below)

    async def follow(self) -> AsyncIterator[str]:
        queue: asyncio.Queue[str | None] = asyncio.Queue()

        async def write() -> None:
            for piece in (await SCRIPT.get().next(1)).deltas:
                await asyncio.sleep(0)
                queue.put_nowait(piece)
            queue.put_nowait(None)

        task = asyncio.create_task(write())
        while (piece := await queue.get()) is not None:
            yield piece
        await task


def build(tool: Callable[..., Any]) -> _Growth:
    """Return the loop around *tool*."""
    return _Growth(tool)
