"""`concertino runs stop` and `erase`."""

from __future__ import annotations

import dataclasses

from ... import wiring
from ...errors import ConfigurationError
from ...runtime import Runtime
from ..context import Desk
from ..render.console import mended, read_line
from ..render.format import counted
from ..render.run import receipt_lines
from .run_state import find


async def stop_run(run_id: str, deadline: float, desk: Desk) -> int:
    """Stop it, wherever it goes on, and print the receipt. Raises `RunStateError`."""
    await find(desk, run_id)
    receipt = await Runtime(desk.store, models=wiring.open_model).stop(run_id, deadline)
    if desk.screen.as_json:
        desk.screen.object({"run_id": run_id, "receipt": dataclasses.asdict(receipt)})
    else:
        desk.screen.lines([(f"{run_id} is stopped", "bold"), *((f"  {line}", "") for line in receipt_lines(receipt))])
    return 0


async def erase_user(user: str, organization: str | None, sure: bool, desk: Desk) -> int:
    """Erase all that is known of a user; ask first unless *sure*. Raises `StorageError` while a run of theirs is open.

    Where nobody can be asked, or says no, nothing is erased, and the status is 2.
    """
    user = mended(user)
    if not user:
        raise ConfigurationError("--user is empty: name the user")
    whom = f"user {user!r}" + (f" of organization {organization!r}" if organization is not None else "")
    if not sure:
        desk.screen.notice(f"all that is known of {whom} in {desk.database} will be erased, but for the ledger")
        answer = read_line("to do so, type yes> ", desk.screen, desk.stop)
        if answer is None or answer.strip().lower() != "yes":
            desk.screen.notice("concertino: nothing was erased; --yes erases without asking")
            return desk.stop.status if desk.stop.signal else 2
    erased = await desk.store.erase(user_id=user, organization_id=organization)
    if desk.screen.as_json:
        desk.screen.object({"user_id": user, "organization_id": organization, **dataclasses.asdict(erased)})
    else:
        memories = f"{erased.memories:,} {'memory' if erased.memories == 1 else 'memories'}"
        desk.screen.lines([(f"erased of {whom}: {counted(erased.runs, 'run')} and {memories}", "")])
    return 0
