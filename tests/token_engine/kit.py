"""An exact counter, a tool and the fixed parts of a request."""

from __future__ import annotations

from concertino.messages import ToolSpec

TOOL = ToolSpec("look_up", "Looks up.", {"type": "object", "properties": {}})
FIXED = {"system prompt": "You are an agent. " * 3, "tools": TOOL.text}


class Bytes:
    """A tokenizer with tokens of three bytes; exact, so that the test can check limits."""

    name = "three bytes"
    exact = True

    def count(self, text: str) -> int:
        return (len(text.encode("utf-8", "replace")) + 2) // 3

    def cut(self, text: str, limit: int) -> str:
        return text.encode("utf-8", "replace")[: 3 * limit].decode("utf-8", "ignore")


COUNTER = Bytes()
