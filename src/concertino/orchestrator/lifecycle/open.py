"""Opening a run: its place in the tree, its limits, and its first messages."""

from __future__ import annotations

import dataclasses
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ...context_state import ContextState
from ...ids import child_run_id
from ...messages import UserMessage
from ...providers.base import model_id
from ...storage.codec import encode_message
from ...storage.types import RunStart
from ...token_engine.engine import TokenEngine, prepared_edits
from ...tools.base import Session
from ...tools.registry import ToolRegistry
from ..agent import AgentConfig
from ..chat import Attachment, Chat
from ..journal.data_policy import policy_form
from ..journal.lease import Ledger, Tree
from ..journal.replay import OpenRequest, Record
from ..limits import Limits
from ..run import Run
from .prompt import before_user_message, system_prompt
from .repair import call_ids, mended


@dataclass(frozen=True, slots=True)
class Parent:
    """The call of a run that has started this one."""

    run: Run[Any]
    call_id: str
    key: str
    """The engine's id of the call."""
    element: str
    """This run's element of the agent path."""
    ordinal: int
    """Which of the call's sub-agents it is, from 1."""
    again: bool = False
    """Whether the call is run again, so that the sub-agent may have begun already."""

    def child_id(self) -> str:
        """The child's run id: it follows from its parent's and the call's."""
        return child_run_id(self.key, self.ordinal)


def open_run(
    chat: Chat,
    config: AgentConfig[Any],
    registry: ToolRegistry,
    run_id: str,
    tool_call_limit: int | None,
    parent: Parent | None,
    lease: float,
) -> Run[Any]:
    """A run of *config*, below *parent* if there is one. Raises `ConfigurationError` for limits that are none."""
    limits = chat.limits_of(chat.model, config)
    if tool_call_limit is not None:
        limits = dataclasses.replace(limits, tool_calls=tool_call_limit)
    chat, changed = mended(chat)
    run = Run(
        id=run_id,
        path=f"{parent.run.path}/{parent.element}" if parent else config.name,
        chat=chat,
        registry=registry.copy(),
        limits=limits,
        ledger=Ledger(parent.run.ledger if parent else None),
        tree=parent.run.tree if parent else Tree(run_id, chat.store, chat.session, lease),
    )
    if changed:
        run.notify("history_repaired", f"the history was mended, so that a model can be sent it: {changed}")
    return run


def run_start(run: Run[Any], config: AgentConfig[Any], parent: Parent | None) -> RunStart:
    """What the store is told when the run begins."""
    chat = run.chat
    return RunStart(
        run_id=run.id,
        root_id=run.root_id,
        parent_id=parent.run.id if parent else None,
        parent_call=parent.call_id if parent else None,
        agent=config.name,
        agent_path=run.path,
        conversation_id=chat.conversation_id,
        user_id=chat.session.user_id,
        organization_id=chat.session.organization_id,
        task=chat.message,
        started=time.time(),
        forked_from=None,
    )


def what_is_given(run: Run[Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """What the run is given, for entry 0 of its journal: structure, and content. `chat_of` reads it."""
    chat, limits = run.chat, run.limits
    body: dict[str, Any] = {
        "model": model_id(chat.model),
        "plan": chat.session.plan,
        "chatbot": chat.chatbot_id,
        "policy": policy_form(run.journal.policy),
        "limits": dataclasses.asdict(limits),
        "before": run.journal.text_ids([encode_message(message) for message in before_user_message(chat)]),
    }
    if skipped := _skipped(chat, len(body["before"])):
        body["skipped"] = skipped
    if (context := chat.context) is not None:
        logs = ([json.dumps(edit) for edit in log] for log in (context.edits, context.prepared))
        body["context"] = [*map(run.journal.text_ids, logs), context.sent_at, context.model, context.carrying_cost]
    content = {
        "message": chat.message,
        "system_prompt": chat.system_prompt,
        "personalization": chat.personalization,
        "memories": list(chat.memories),
        "project_rules": chat.project_rules,
        "attachments": [[file.name, file.description] for file in chat.attachments],
    }
    return body, {name: value for name, value in content.items() if value}


def _skipped(chat: Chat, earlier: int) -> tuple[int, ...]:
    """The places of the examples and of the older summary among the messages before the user's."""
    first = earlier - len(chat.history) - bool(chat.summary)
    return tuple(place for place in range(earlier) if not 0 <= place - first < len(chat.history))


def _examples(skipped: Sequence[int]) -> int:
    """How many messages stand in front of the history."""
    return next((count for count, place in enumerate(skipped) if count != place), len(skipped))


def chat_of(record: Record, chat: Chat) -> Chat:
    """The chat that a run was given, with the means of *chat*: a store and an agent's choice of models are not kept."""
    start, given = record.run.start, record.given
    context = None
    if "context" in record.begun:
        *logs, at, model, rent = record.begun["context"]
        edits, ready = ([json.loads(record.texts[key]) for key in log] for log in logs)
        context = ContextState(edits, ready, at, model, tuple(rent))
    session = Session(user_id=start.user_id, organization_id=start.organization_id, plan=record.begun.get("plan", ""))
    return dataclasses.replace(
        chat,
        message=given["message"],
        history=record.before,
        context=context,
        summary="",
        few_shot={},
        session=session,
        conversation_id=start.conversation_id,
        system_prompt=given.get("system_prompt"),
        personalization=given.get("personalization", ""),
        memories=given.get("memories", ()),
        project_rules=given.get("project_rules", ""),
        attachments=[Attachment(*file) for file in given.get("attachments", ())],
        chatbot_id=record.begun.get("chatbot"),
    )


def restore(run: Run[Any], record: Record) -> None:
    """Put *run* where its journal says it stands; all but the agent's own state."""
    run.limits = Limits(**record.begun["limits"])
    run.window = TokenEngine(run.chat.counter, run.limits.context, run.chat.retention)
    run.state, run.attempts, run.data = record.state, record.attempts, record.data
    run.index.value = max(run.index.value, record.index)
    run.journal.restore(record.entries, record.commands, record.state.text)
    if record.stage == "begun":
        return
    run.system = record.system
    skipped = tuple(record.begun.get("skipped", ()))
    run.skipped = None if record.replaced else skipped
    run.window.example_count = 0 if record.replaced else _examples(skipped)
    for message in record.messages:
        run.window.append(message)
    run.window.restore(record.edits, record.rent)
    if record.ready or run.chat.context is None:
        run.window.restore_prepared(record.ready)
    else:
        run.window.restore_prepared(prepared_edits(run.chat.context, run.window.example_count))
    run.added = record.added
    run.call_ids = call_ids(record.messages)
    kept = {spec.name for spec in record.tools}
    for name in run.registry.names():
        if name not in kept:  # a hook took it out
            run.registry.unregister(name)
    if record.stage == "asking":
        assert record.request is not None
        run.opened = OpenRequest(record.request, record.model, record.own_messages)
    else:
        run.opened = record.turn


def build_messages(run: Run[Any], config: AgentConfig[Any], record: Record | None) -> None:
    """The system prompt and the first messages; a user message that is too long is cut, and that is said. *record* is
    that of a run that got no further than its beginning."""
    chat = run.chat
    run.system = system_prompt(chat, config, run.registry)
    earlier = before_user_message(chat)
    for message in earlier:
        run.window.append(message)  # kept already, by the runs that it comes from
    run.call_ids = call_ids(earlier)
    skipped = _skipped(chat, len(earlier)) if record is None else tuple(record.begun.get("skipped", ()))
    run.skipped, run.window.example_count = skipped, _examples(skipped)
    if chat.context is not None:
        if not run.window.resume(chat.context, run.window.example_count):
            told = "the history is not the one that Chat(context=...) is about: some of it is seen anew"
            run.notify("context_not_applied", told)
        if run.journal.on:
            run.journal.edit(run.window.edits)
    run.add(UserMessage(that_fits(run, chat.message)))


def that_fits(run: Run[Any], text: str) -> str:
    """As much of a user's message as the model can take; that it was cut, the user and the model are told.

    Raises `ContextFloorError` if there is room for nothing.
    """
    sent = run.window.truncate(text, run.fixed(), run.limits.output, run.model_id)
    if sent is text:
        return text
    size = run.chat.counter.count(sent)
    run.notify("user_message_cut", f"the message is too long: the model is sent its first {size:,} tokens")
    return f"{sent}\n\n[The message was cut here: it is too long for the model.]"
