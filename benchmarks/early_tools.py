"""The share of a real stream that follows a complete tool call: `python -m benchmarks.early_tools`.

The recorded streams beside the repository (../shared/data/provider-traffic) are read event by event. For each call of
each reply: which share of the stream is still to come when it is ready, in bytes, in events, and in characters that
the model has yet to write (text, reasoning, arguments). The last is what a tool gains; bytes flatter formats that
say everything once more at the end. The recordings have no times of arrival, so there is no share of time.
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Callable
from dataclasses import dataclass, field

from tests.wire.recordings import TRAFFIC, TROUBLE, recordings

from concertino.providers.anthropic.reply import MessageReader
from concertino.providers.base import ReasoningChunk, TextChunk, ToolCallChunk, ToolCallReady
from concertino.providers.google.reply import ContentReader
from concertino.providers.http.reader import AnswerReader
from concertino.providers.http.sse import SseDecoder
from concertino.providers.openai.chat.reply import ChatReader
from concertino.providers.openai.chat.vendors import OPENAI
from concertino.providers.openai.responses.reply import ResponseReader

READERS: dict[str, Callable[[], AnswerReader]] = {
    "anthropic": MessageReader,
    "responses": lambda: ResponseReader("openai"),
    "chat": lambda: ChatReader("openai", OPENAI),
    "google": ContentReader,
}


@dataclass(slots=True)
class Place:
    """The progress of a stream."""

    bytes: int = 0
    events: int = 0
    written: int = 0

    def left(self, whole: Place) -> tuple[float, float, float]:
        """Return the remaining shares of *whole*."""
        return 1 - self.bytes / whole.bytes, 1 - self.events / whole.events, 1 - self.written / max(whole.written, 1)


@dataclass(slots=True)
class Group:
    """Streams of one kind, each with its remaining shares when a call is complete."""

    streams: list[list[tuple[float, float, float]]] = field(default_factory=list)

    def row(self, name: str) -> str:
        """Return the median shares at the first call and at every call, and the number of calls that gain time."""
        if not self.streams:
            return f"{name:30} {0:>7}"
        calls = [call for stream in self.streams for call in stream]
        early = sum(call[2] > 0 for call in calls)
        return f"{name:30} {len(self.streams):>7} {len(calls):>5}  {_shares([s[0] for s in self.streams])}  " + (
            f"{_shares(calls)}  {early:>5}"
        )


def _shares(places: list[tuple[float, float, float]]) -> str:
    return " ".join(f"{statistics.median(column):>8.1%}" for column in zip(*places, strict=True))


def measure(reader: AnswerReader, body: bytes) -> list[tuple[float, float, float]]:
    """Return the remaining shares of the stream *body* at each complete call. Raises the reader's errors."""
    decoder = SseDecoder()
    now = Place()
    ready: list[Place] = []
    for line in [*body.splitlines(keepends=True), b""]:
        now.bytes += len(line)
        for event in decoder.feed(line) if line else decoder.close():
            now.events += 1
            for item in reader.read(event):
                if isinstance(item, TextChunk | ReasoningChunk):
                    now.written += len(item.text)
                elif isinstance(item, ToolCallChunk):
                    now.written += len(item.arguments)
                elif isinstance(item, ToolCallReady):
                    ready.append(Place(now.bytes, now.events, now.written))
    calls = len(reader.reply().message.tool_calls)
    return [place.left(now) for place in ready] + [(0.0, 0.0, 0.0)] * (calls - len(ready))


def main() -> None:
    """Measure and print."""
    if not TRAFFIC.is_dir():
        sys.exit(f"no recordings at {TRAFFIC}")
    print(f"{'still to come (medians) when':44}  {'the first call is ready':26}  {'each call is ready':26}  still")
    head = f"{'bytes':>8} {'events':>8} {'written':>8}"
    print(f"{'format':30} {'streams':>7} {'calls':>5}  {head}  {head}  writing")
    for kind, make in READERS.items():
        one, several, both = Group(), Group(), Group()
        for _, features, body in recordings(kind):
            if TROUBLE & features:
                continue
            found = measure(make(), body.encode())
            if found:
                (one if len(found) == 1 else several).streams.append(found)
                both.streams.append(found)
        print(both.row(kind))
        print(one.row("  answers with one call"))
        print(several.row("  answers with several calls"))
    print(
        "`still writing`: calls that are ready while the model has more to write. No times: the recordings have none."
    )


if __name__ == "__main__":
    main()
