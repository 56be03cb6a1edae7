"""A model whose provider has a rate limit, for tests with several processes."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from time import monotonic

from ..errors import RateLimitError
from ..messages import AssistantMessage, Text
from ..number_checks import check_amount, check_whole
from ..providers.base import ModelEvent, ModelRequest, Reply
from ..usage import Tokens


class LimitedModel:
    """Answers requests, but refuses those above a number in the last *seconds*, as a provider does with a 429.

    All processes of a machine with the same *file* are counted together. The file has one line for each request: the
    seconds of the machine's monotonic clock, `sent` or `refused`, and the *user*.
    """

    provider, name = "limited", "model"

    def __init__(
        self, file: Path, requests: int, seconds: float, *, user: str = "", tokens: Tokens | None = None
    ) -> None:
        check_whole("LimitedModel", "requests", requests)
        check_amount("LimitedModel", "seconds", seconds)
        self._file, self._requests, self._seconds, self._user = file, requests, seconds, user
        self._tokens = Tokens(prompt=10, completion=5) if tokens is None else tokens

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """Answer, or raise `RateLimitError` with the seconds until a request is admitted again."""
        # Written before it is counted: of two requests at the same time, at least one sees the other.
        now = self._write("sent")
        recent = [(at, state) for at, state, _ in read_requests(self._file) if at > now - self._seconds]
        states = [state for _, state in recent]
        if states.count("sent") - states.count("refused") > self._requests:
            self._write("refused")
            left = recent[0][0] + self._seconds - now
            raise RateLimitError("too many requests", provider=self.provider, retry_after=max(left, 0.001), status=429)
        yield Reply(AssistantMessage((Text("yes"),), "end", self.name), Tokens(prompt=10, completion=5))

    async def close(self) -> None:
        """See `Model.close`."""

    def _write(self, state: str) -> float:
        now = monotonic()
        with self._file.open("a") as file:
            file.write(f"{now} {state} {self._user}\n")
        return now


def read_requests(file: Path) -> list[tuple[float, str, str]]:
    """Return the requests in the file of a `LimitedModel`: time, state and user."""
    written = file.read_text() if file.exists() else ""
    lines = written.rpartition("\n")[0].splitlines()  # without a line that another process is writing
    return [(float(at), state, user) for at, state, user in (line.split(" ") for line in lines)]
