"""`concertino runs stop` and `erase`."""

from __future__ import annotations

import dataclasses

from rich.text import Text

from ...errors import ConfigurationError
from ...orchestrator.resources import Resources
from ...runtime import Runtime
from ..command_context import CommandContext
from ..render.console import read_line, replace_invalid
from ..render.format import counted
from ..render.run_report import receipt_lines
from .run_state import find_run


async def stop_run(run_id: str, deadline: float, context: CommandContext) -> int:
    """Stop the run in whichever process it is, and print the receipt. Raises `RunStateError`."""
    await find_run(context, run_id)
    receipt = await Runtime((), Resources(store=context.store)).stop(run_id, deadline)
    if context.console.as_json:
        context.console.json({"run_id": run_id, "receipt": dataclasses.asdict(receipt)})
    else:
        lines = (Text(f"  {line}") for line in receipt_lines(receipt))
        context.console.print(Text(f"{run_id} stopped", "bold"), *lines)
    return 0


async def erase_user(user: str, organization: str | None, confirmed: bool, context: CommandContext) -> int:
    """Erase a user's runs and memories after a confirmation. Raises `StorageError` while one of the runs is open.

    Return 2 if the confirmation is refused or cannot be read.
    """
    user = replace_invalid(user)
    if not user:
        raise ConfigurationError("--user is empty: name the user")
    owner = f"user {user!r}" + (f" of organization {organization!r}" if organization is not None else "")
    if not confirmed:
        context.console.notice(f"erase the runs and memories of {owner} in {context.database}; the ledger stays")
        answer = read_line("type yes to continue> ", context.console, context.signals)
        if answer is None or answer.strip().lower() != "yes":
            context.console.notice("concertino: nothing was erased; --yes erases without asking")
            return context.signals.exit_status if context.signals.received else 2
    erased = await context.store.erase(user_id=user, organization_id=organization)
    if context.console.as_json:
        context.console.json({"user_id": user, "organization_id": organization, **dataclasses.asdict(erased)})
    else:
        memories = f"{erased.memories:,} {'memory' if erased.memories == 1 else 'memories'}"
        context.console.print(Text(f"erased {counted(erased.runs, 'run')} and {memories} of {owner}"))
    return 0
