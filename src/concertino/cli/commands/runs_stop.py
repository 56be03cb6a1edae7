"""`concertino runs stop` and `erase`."""

from __future__ import annotations

import dataclasses

from rich.text import Text

from ...errors import ConfigurationError
from ...orchestrator.resources import Resources
from ...runtime import Runtime
from ...scope import OPERATOR, Scope, TenantScope
from ..command_context import CommandContext
from ..render.console import read_line, replace_invalid
from ..render.format import counted
from ..render.run_report import receipt_lines
from .run_state import find_run


async def stop_run(run_id: str, deadline: float, context: CommandContext) -> int:
    """Stop the run in whichever process it is, and print the receipt. Raises `RunStateError`."""
    await find_run(context, run_id)
    receipt = await Runtime((), Resources(store=context.store)).stop(OPERATOR, run_id, deadline)
    if context.console.as_json:
        context.console.json({"run_id": run_id, "receipt": dataclasses.asdict(receipt)})
    else:
        lines = (Text(f"  {line}") for line in receipt_lines(receipt))
        context.console.print(Text(f"{run_id} stopped", "bold"), *lines)
    return 0


async def erase_owner(tenant: str | None, user: str | None, confirmed: bool, context: CommandContext) -> int:
    """Erase the runs and memories of a user or a tenant after a confirmation.

    Return 2 if the confirmation is refused or cannot be read. Raises `StorageError` while one of the runs is open.
    """
    tenant, user = (None if text is None else replace_invalid(text) for text in (tenant, user))
    if not (tenant or user) or user == "":
        raise ConfigurationError("erase needs --user, --tenant or both, and neither may be empty")
    scope = TenantScope(tenant or "") if user is None else Scope(tenant or "", user)
    owner = ("all users" if user is None else f"user {user!r}") + (f" of tenant {tenant!r}" if tenant else "")
    if not confirmed:
        context.console.notice(f"erase the runs and memories of {owner} in {context.database}; the ledger stays")
        answer = read_line("type yes to continue> ", context.console, context.signals)
        if answer is None or answer.strip().lower() != "yes":
            context.console.notice("concertino: nothing was erased; --yes erases without asking")
            return context.signals.exit_status if context.signals.received else 2
    erased = await context.store.erase(scope)
    if context.console.as_json:
        context.console.json({"tenant": tenant, "user": user, **dataclasses.asdict(erased)})
    else:
        memories = f"{erased.memories:,} {'memory' if erased.memories == 1 else 'memories'}"
        context.console.print(Text(f"erased {counted(erased.runs, 'run')} and {memories} of {owner}"))
    return 0
