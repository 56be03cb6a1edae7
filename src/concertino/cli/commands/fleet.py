"""`concertino fleet run`: a worker, which does what other processes record."""

from __future__ import annotations

import asyncio
import signal
from contextlib import suppress

from ...errors import ConfigurationError
from ...runtime import Runtime
from ..command_context import CommandContext
from ..fleet_file import read_fleet_file
from .runs_resume import runtime_of

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


async def run_worker_process(context: CommandContext) -> int:
    """Work until a signal arrives, then drain. A second signal ends at once. Raises `ConfigurationError`."""
    options = context.options
    if options.config is None:
        raise ConfigurationError("a worker needs the file of its fleet: concertino fleet run --config config.toml")
    file = read_fleet_file(options.config)
    takes = file.worker.worker_targets
    async with file.bell(options) as bell:
        runtime = await runtime_of(context)
        runtime.join(file.fleet(bell, takes, runtime.store))
        _check_agents(options.config, runtime, [agent for target in takes for agent in file.targets.get(target, ())])
        stopping = _first_signal()
        async with runtime:
            _announce(context, takes, file.worker.coroutines)
            await stopping.wait()
            context.console.notice(f"draining: runs have {file.worker.grace:g} s to end")
            await runtime.close(file.worker.grace)
    return 0


def _first_signal() -> asyncio.Event:
    """Return the event of the first signal. The next one has its default effect again."""
    loop, received = asyncio.get_running_loop(), asyncio.Event()

    def receive() -> None:
        received.set()
        for number in _SIGNALS:
            loop.remove_signal_handler(number)

    for number in _SIGNALS:
        with suppress(NotImplementedError):  # Windows
            loop.add_signal_handler(number, receive)
    return received


def _check_agents(path: str, runtime: Runtime, wanted: list[str]) -> None:
    missing = [agent for agent in wanted if not runtime.knows(agent)]
    if missing:
        known = ", ".join(agent.name for agent in runtime.agents)
        raise ConfigurationError(
            f"{path}: invalid targets: this worker has no agent {missing[0]!r} for its targets; it has: {known}"
        )


def _announce(context: CommandContext, takes: list[str], coroutines: int) -> None:
    if context.console.as_json:
        context.console.json({"targets": takes, "coroutines": coroutines})
    else:
        context.console.notice(f"taking {', '.join(takes)} with {coroutines} coroutines; end with Ctrl-C")
