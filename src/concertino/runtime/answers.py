"""Answers to waiting calls: their effect, and who may give them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..errors import ConfigurationError, ErasedError, NotAllowedError, RunStateError, StorageError, UnknownWaitError
from ..orchestrator.journal.replay import replay
from ..records import record
from ..scope import OPERATOR, AnyScope, Scope, TenantScope
from ..storage.base import Store
from ..waits import Wait


@record
class AnswerOutcome:
    """The effect of an answer to a waiting call."""

    won: bool
    """Whether the answer was the first. If not, it changed nothing: `wait.resolution` is the answer that counts."""
    wait: Wait


async def approval_of(store: Store, scope: AnyScope, key: str) -> tuple[AnyScope, Wait]:
    """Return the approval that waits under *key*, and the scope that answers it; `Store.approvals` lists the same ones.

    Raises `NotAllowedError`, `UnknownWaitError`, and `RunStateError` if the call waits for a result.
    """
    wait = await store.wait(scope, key)
    if wait is None and isinstance(scope, Scope):
        # An approver is named by the call, and need not own the run.
        scope = TenantScope(scope.tenant, by=scope.user)
        wait = await store.wait(scope, key)
        wait = wait if wait is not None and scope.by in wait.who else None
    if wait is None:
        raise UnknownWaitError(f"no call waits under {key!r}")
    if wait.kind != "approval":
        raise RunStateError(f"{key} waits for a result, not for an approval: use resolve")
    if wait.who and scope.by not in wait.who:
        raise NotAllowedError(f"{scope.by!r} may not answer {key}; those who may: {', '.join(wait.who)}")
    return scope, wait


async def check_arguments(store: Store, wait: Wait, arguments: Mapping[str, Any]) -> None:
    """Raise `ConfigurationError` if the schema of the waiting call's tool rejects *arguments*.

    Only the first answer counts, and the call would fail with these. The journal contains the schema as the model
    received it; where its content was erased, nothing is checked.
    """
    journal = None if wait.resolution is not None else await store.load(OPERATOR, wait.run_id)
    if journal is None:
        return
    try:
        tools = {tool.name: tool for tool in replay(journal).tools}
    except (ErasedError, StorageError):
        return
    if wait.tool in tools:
        import jsonschema  # noqa: PLC0415 - takes as long to import as all of concertino

        schema = tools[wait.tool].parameters
        error = next(jsonschema.validators.validator_for(schema)(schema).iter_errors(dict(arguments)), None)
        if error is not None:
            part = ".".join(str(step) for step in error.absolute_path)
            problem = f"{part}: {error.message}" if part else error.message
            raise ConfigurationError(f"the arguments do not fit {wait.tool}: {problem}")
