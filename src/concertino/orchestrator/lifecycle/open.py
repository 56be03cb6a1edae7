"""Opening a run: its parts, its limits and its first messages."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Sequence

from ...errors import ConfigurationError
from ...messages import UserMessage
from ...providers.base import Model, model_id
from ...storage.types import RunStart
from ...tools.registry import ToolRegistry
from ..agent import AgentConfig
from ..chat import Chat
from ..journal.data_policy import policy_form
from ..journal.entries import Started, message_texts, pack_context
from ..journal.lease import Tree
from ..resources import Resources
from ..run import RunSession
from ..tool_calls.context import Parent
from .prompt import before_user_message, system_prompt
from .repair import call_ids, repaired


def open_run(  # noqa: PLR0913 - every argument is one of the engine's
    chat: Chat,
    resources: Resources,
    config: AgentConfig[object],
    registry: ToolRegistry,
    run_id: str,
    *,
    model: Model,
    tool_call_limit: int | None,
    parent: Parent | None,
    lease: float,
) -> RunSession:
    """Return a new run of *config*, below *parent* if there is one.

    Raises `ConfigurationError` if the limits are invalid.
    """
    limits = resources.limits_of(chat.session, model, config)
    if tool_call_limit is not None:
        limits = dataclasses.replace(limits, tool_calls=tool_call_limit)
    resources.preload_prices(model)
    kept = resources.kept(chat.context)
    chat, checked, changes = repaired(chat, model_id(model), kept.checked if kept else None)
    run = RunSession(
        id=run_id,
        path=f"{parent.run.path}/{parent.element}" if parent else config.name,
        agent=config,
        chat=chat,
        resources=resources,
        model=model,
        registry=registry.copy(),
        limits=limits,
        tree=parent.run.tree if parent else Tree(run_id, resources.store, chat.session, lease),
    )
    if parent is not None:
        run.stream, run.parent = parent.run.stream, parent.run
    run.checked = checked
    if changes:
        run.repairs = f"the history was repaired so that the model accepts it: {changes}"
    return run


def model_of(chat: Chat, resources: Resources) -> Model:
    """Return the model that *chat* names, or the default. Raises `ConfigurationError` if there is no model."""
    if isinstance(chat.model, str):
        return resources.find_model(chat.model)
    model = chat.model or resources.model
    if model is None:
        raise ConfigurationError("the run has no model: give Chat(model=...) or Resources(model=...)")
    return model


def run_start(run: RunSession, config: AgentConfig[object], parent: Parent | None) -> RunStart:
    """Return the store's row of a run that starts."""
    chat = run.chat
    return RunStart(
        run_id=run.id,
        root_id=run.tree.root_id,
        parent_id=parent.run.id if parent else None,
        parent_call=parent.call_id if parent else None,
        agent=config.name,
        agent_path=run.path,
        conversation_id=chat.conversation_id,
        scope=run.scope,
        task=chat.message,
        started=time.time(),
        forked_from=None,
    )


def started_entry(run: RunSession) -> Started:
    """Return entry 0 of the journal: what the run is given."""
    chat, journal = run.chat, run.journal
    before = journal.text_ids(message_texts(before_user_message(chat, model_id(run.model))))
    return Started(
        model=model_id(run.model),
        policy=policy_form(journal.policy),
        limits=dataclasses.asdict(run.limits),
        before=before,
        skipped=_skipped(chat, len(before)),
        context=None if chat.context is None else pack_context(chat.context, journal.text_ids),
        plan=chat.session.plan,
        chatbot=chat.chatbot_id,
        message=chat.message,
        system_prompt=chat.system_prompt,
        personalization=chat.personalization,
        memories=list(chat.memories),
        project_rules=chat.project_rules,
        attachments=[[file.name, file.description] for file in chat.attachments],
    )


def build_messages(run: RunSession, config: AgentConfig[object], skipped: Sequence[int] | None = None) -> None:
    """Add the system prompt and the first messages. A user message that is too long is cut, and a notice reports it.

    *skipped* is recorded for a run that starts again because its process ended before the first request.
    """
    chat = run.chat
    run.system = system_prompt(chat, config, run.registry)
    earlier = before_user_message(chat, model_id(run.model))
    run.call_ids = set(run.checked.call_ids) if skipped is None else call_ids(earlier)
    run.skipped = _skipped(chat, len(earlier)) if skipped is None else tuple(skipped)
    kept = run.resources.kept(chat.context) if earlier else None
    folded = kept.folded if kept else None
    if not run.window.start(earlier, chat.context, example_count=example_count(run.skipped), folded=folded):
        text = "Chat(context=...) belongs to another history: a part of the history is sent in full again"
        run.notify("context_not_applied", text)
    if chat.context is not None and run.journal.on:
        run.journal.edit(run.window.edits)
    run.add(UserMessage(fitting(run, chat.message)))


def fitting(run: RunSession, text: str) -> str:
    """Return as much of a user message as the model can take; a notice informs the user and the model of a cut.

    Raises `ContextFloorError` if nothing of it fits.
    """
    sent = run.window.truncate(text, run.fixed(), run.limits.output, model_id(run.model))
    if sent is text:
        return text
    size = run.resources.counter.count(sent)
    run.notify("user_message_cut", f"the message is too long: the model is sent its first {size:,} tokens")
    return f"{sent}\n\n[The message was cut here: it is too long for the model.]"


def example_count(skipped: Sequence[int]) -> int:
    """Return the number of example messages before the history."""
    return next((count for count, index in enumerate(skipped) if count != index), len(skipped))


def _skipped(chat: Chat, earlier: int) -> tuple[int, ...]:
    """Return the indexes of examples and older summary among the messages before the user's."""
    first = earlier - len(chat.history) - bool(chat.summary)
    return (*range(first), *range(first + len(chat.history), earlier))
