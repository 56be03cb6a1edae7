"""The program with a model that waits. Arguments: the kind of model, then the command line of `concertino`."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Callable

from concertino import wiring
from concertino.cli import main
from concertino.providers.base import Model, ModelEvent, ModelRequest


async def _wait() -> None:
    sys.stderr.write("waiting\n")
    sys.stderr.flush()
    await asyncio.Event().wait()


class Stubborn:
    """A model that ignores its cancellation."""

    provider, name = "scripted", "stubborn"

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        while True:
            try:
                await _wait()
            except asyncio.CancelledError:
                sys.stderr.write("refusing\n")
                sys.stderr.flush()
        yield  # type: ignore[unreachable]

    async def close(self) -> None:
        pass


class Pausing:
    """The built-in model up to request PAUSE_AT, which waits until the process ends."""

    def __init__(self) -> None:
        self._model = _open(wiring.model_from_environment({}))
        self.provider, self.name = self._model.provider, self._model.name
        self._left = int(os.environ["PAUSE_AT"])

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        self._left -= 1
        if not self._left:
            await _wait()
        async for event in self._model.stream(request):
            yield event

    async def close(self) -> None:
        await self._model.close()


_open = wiring.open_model
_MODELS: dict[str, Callable[[], Model]] = {"stubborn": Stubborn, "pausing": Pausing}

if __name__ == "__main__":
    kind = sys.argv.pop(1)
    wiring.open_model = lambda spec: _MODELS[kind]()
    sys.exit(main())
