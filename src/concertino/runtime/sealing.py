"""The stop of a run that another process may have."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any

from ..errors import RunClaimedError, RunEndedError
from ..events import StopReceipt
from ..orchestrator.agent import AgentConfig
from ..orchestrator.journal.replay import receipt_of
from ..orchestrator.lifecycle.seal import seal
from ..scope import AnyScope, Scope
from ..storage.base import Store
from ..waits import Wait

log = logging.getLogger("concertino")


async def sealed(store: Store, scope: AnyScope, run_id: str, seconds: float, interval: float) -> StopReceipt | None:
    """End a stopped run as soon as no process has it, or wait until its process has ended it.

    Return the receipt, or None if neither happens within *seconds*. The store is asked every *interval* seconds. Raises
    `UnknownRunError` if the run is erased meanwhile.
    """
    loop = asyncio.get_running_loop()
    until = loop.time() + seconds
    while True:
        with suppress(RunClaimedError, RunEndedError):
            return await seal(store, scope, run_id, "cancelled", "the run was stopped")
        run = await store.run(scope, run_id)
        if run is not None and run.end is not None:
            journal = await store.load(scope, run_id)
            return (journal and receipt_of(journal)) or StopReceipt()
        if loop.time() > until:
            return None
        await asyncio.sleep(interval)


def tell_stopped(agents: Iterable[AgentConfig[Any]], scope: Scope, waits: Sequence[Wait]) -> None:
    """Let the parts of *agents* end what worked for a stopped run elsewhere. A failure is logged."""
    for part in {id(part): part for agent in agents for part in agent.parts}.values() if waits else ():
        try:
            part.on_stopped(scope, waits)
        except Exception as error:  # noqa: BLE001 - parts are the product's, and the run has ended
            log.warning("on_stopped of %s failed: %s", type(part).__name__, type(error).__name__)
