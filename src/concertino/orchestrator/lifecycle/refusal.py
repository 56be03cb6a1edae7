"""Runs that cannot start: the check before a message is accepted, and the record of a run that failed at its start."""

from __future__ import annotations

import time
from typing import Any

from ...ids import new_run_id
from ...messages import Message, UserMessage
from ...providers.base import model_id
from ...storage.base import Store
from ...storage.process import process_owner
from ...storage.types import Claim, RunStart
from ...token_engine.counting.base import EstimatingCounter
from ...token_engine.counting.sizes import message_text
from ...tools.registry import ToolRegistry
from ..agent import AgentConfig
from ..chat import Chat
from ..journal.data_policy import DataPolicy
from ..journal.entries import Ended
from ..journal.lease import LEASE, Tree
from ..journal.writer import Journal
from ..resources import Resources
from ..validation import check_run
from .open import given, open_run


def check_start(chat: Chat, resources: Resources, config: AgentConfig[Any], registry: ToolRegistry | None) -> None:
    """Raise `ConfigurationError` if a run of *config* cannot start with *chat*."""
    run_id = new_run_id()
    found = check_run(chat, config, registry, resources, (), resume=False, run_id=run_id)
    open_run(chat, resources, config, found, run_id, tool_call_limit=None, parent=None, lease=LEASE)


async def record_refusal(store: Store, chat: Chat, agent: str, policy: DataPolicy, run_id: str, why: str) -> None:
    """Record a run that failed before its first step, because it could not start.

    Raises what `Store.begin` raises, and `StorageError`.
    """
    tree = Tree(run_id, store, LEASE)
    tree.claim = Claim(root_id=run_id, scope=chat.scope, epoch=1, owner=process_owner(), seconds=LEASE, tries=1)
    journal = Journal(tree, run_id, chat.scope, _count, chat.conversation_id)
    journal.policy = policy.for_tools(())
    start = RunStart(
        run_id=run_id,
        root_id=run_id,
        parent_id=None,
        parent_call=None,
        agent=agent,
        agent_path=agent,
        conversation_id=chat.conversation_id,
        scope=chat.scope,
        task=chat.message,
        started=time.time(),
        forked_from=None,
        turn=chat.turn,
    )
    model = "" if chat.model is None else chat.model if isinstance(chat.model, str) else model_id(chat.model)
    await journal.start(start, given(chat, journal, model, limits={}, before=()))
    journal.add(UserMessage(chat.message, tuple(chat.media)))
    context = None if chat.turn is None or chat.turn.context is None else list(chat.turn.context)
    if context is not None:
        journal.name_texts([*context[0], *context[1]])
    end = journal.end_of("failed", "", why)
    await journal.append(Ended(status="failed", error=why, context=context), 0, end=end)


def _count(message: Message) -> int:
    return EstimatingCounter().count(message_text(message))
