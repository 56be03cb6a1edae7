"""The start of a run: its parts and limits, its row in the store, its system prompt and first messages."""

from __future__ import annotations

import asyncio
import dataclasses
import time
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any, get_args

from ...errors import ConfigurationError
from ...events import Audience
from ...messages import ForcedTool, Message, SystemMessage, ToolChoice, ToolMessage, UserMessage
from ...operations import Operation
from ...providers.base import Model, model_id
from ...storage.process import process_name, process_owner
from ...storage.types import Claim, RunStart
from ...token_engine.digests import RECALL
from ...tools.registry import ToolRegistry
from ..agent import AgentConfig
from ..chat import Attachment, Chat
from ..event_stream import RedactedStream
from ..hooks import Hooks, hooks_of, report_unknown
from ..journal.data_policy import policy_form
from ..journal.entries import Started, pack_context
from ..journal.lease import Tree
from ..journal.patterns import Pattern, redactor_of
from ..journal.writer import Journal
from ..meter import Meter
from ..model_call.request import add_recall
from ..resources import Limits, Resources, limits_below, limits_form
from ..run import RunSession
from ..tool_calls.context import Parent
from ..validation import media_problem
from .repair import NOTHING_CHECKED, call_ids, repaired

RAG_TOOL = "rag"
CHATBOT_TOOL = "chatbot"
MEMORY_TOOLS = ("store_memory", "retrieve_memory")
AUDIENCES = get_args(Audience)


def open_run(
    chat: Chat,
    resources: Resources,
    config: AgentConfig[object],
    registry: ToolRegistry,
    run_id: str,
    *,
    tool_call_limit: int | None,
    parent: Parent | None,
    lease: float,
) -> RunSession:
    """Return a new run of *config*, below *parent* if there is one.

    Raises `ConfigurationError` if the limits are invalid.
    """
    model = _model_of(chat, resources)
    limits, caller = resources.limits_of(chat.scope, model, config), chat.caller
    if tool_call_limit is not None:
        limits = _with_tool_calls(limits, tool_call_limit)
    if caller is not None:
        limits = limits_below(limits, caller.limits)
    if chat.media and (problem := media_problem(tuple(chat.media), limits.media_bytes)):
        raise ConfigurationError(f"Chat(media=...): {problem}")
    name = model_id(model)
    resources.preload_prices(model, name)
    checked, changes = NOTHING_CHECKED, ""
    if chat.history or chat.few_shot:
        kept = resources.kept(chat.context)
        chat, checked, changes = repaired(chat, name, kept.checked if kept else NOTHING_CHECKED)
    run = RunSession(
        id=run_id,
        path=f"{parent.run.path}/{parent.element}" if parent else caller.path if caller else config.name,
        agent=config,
        chat=chat,
        resources=resources,
        model=model,
        model_id=name,
        registry=_allowed_tools(registry, resources, config) if resources.allowed_tools else registry.copy(),
        limits=limits,
        tree=parent.run.tree if parent else Tree(run_id, resources.store, lease),
        meter=parent.run.meter if parent else Meter(limits),
    )
    if (audience := config.audience) not in AUDIENCES:
        raise ConfigurationError(f"agent {config.name!r}: audience={audience!r:.80}: use {', '.join(AUDIENCES)}")
    run.audience = audience
    if (parent or caller) and audience == "answer":
        run.audience = "draft"  # only the root agent answers the user
    if parent is not None:
        run.parent = parent.run
        run.first_record = len(run.tree.ledger)
        run.show(parent.run.stream)
    run.checked = checked
    if config.output_type is not None or config.turn_type is not None:
        from ..output import output_of  # noqa: PLC0415 - most agents answer with text, and pydantic is slow to import

        run.output = output_of(config.output_type)
        run.turn_output = run.output or output_of(config.turn_type)
    if changes:
        run.repairs = f"the history was repaired so that the model accepts it: {changes}"
    return run


def _allowed_tools(registry: ToolRegistry, resources: Resources, config: AgentConfig[object]) -> ToolRegistry:
    """Return a copy of *registry* that takes only tools that the agent may have, and the engine's own."""
    registry, allowed = registry.copy(), resources.allowed_tools.get(config.name)
    if allowed is None:
        return registry
    registry.restrict({*allowed, RECALL})
    if not hooks_of(config).load_tools.own:
        report_unknown(allowed, registry, config.name)
    return registry


@lru_cache(maxsize=64)
def _with_tool_calls(limits: Limits, tool_calls: int) -> Limits:
    if not isinstance(tool_calls, int):
        raise ConfigurationError(f"invalid tool_call_limit {tool_calls!r:.80}: use a whole number")
    return dataclasses.replace(limits, tool_calls=tool_calls)


def _model_of(chat: Chat, resources: Resources) -> Model:
    """Return the model that *chat* names, or the default. Raises `ConfigurationError` if there is no model."""
    if isinstance(chat.model, str):
        return resources.find_model(chat.model)
    model = chat.model or resources.model
    if model is None:
        raise ConfigurationError("the run has no model: give Chat(model=...) or Resources(model=...)")
    return model


async def apply_policy(run: RunSession, hooks: Hooks) -> None:
    """Set the data policy of a run, and redact what the run is given by its patterns and those of the run above."""
    journal = run.journal
    if hooks.get_data_policy.own:
        journal.policy = (await hooks.get_data_policy()).for_tools(run.registry.names())
    above: Sequence[Pattern] = (
        run.parent.redactor.patterns if run.parent is not None and run.parent.redactor is not None else ()
    )
    if run.chat.caller is not None:
        above = run.chat.caller.patterns
    if above:
        patterns = dict.fromkeys([*above, *journal.policy.patterns])
        journal.policy = dataclasses.replace(journal.policy, patterns=tuple(patterns))
    run.redactor = redactor_of(tuple(journal.policy.patterns))
    if run.redactor is not None:
        run.set_chat(run.redactor.chat(run.chat))
        if run.stream is not None:
            run.show(RedactedStream(run.stream, run.redactor), run.recorder)


async def begin(run: RunSession, parent: Parent | None) -> None:
    """Record that the run has started. Raises `RunExistsError`."""
    tree, start = run.tree, _run_start(run, parent)
    assert tree.store is not None
    if parent is not None:
        await run.journal.start(start, _started(run), [_sub_agent(run, start, parent)])
        return
    owner, caller = process_owner(), run.chat.caller
    claim = Claim(root_id=run.id, scope=run.scope, epoch=1, owner=owner, seconds=tree.lease, tries=1)
    if caller is not None:
        claim = dataclasses.replace(claim, payer=caller.payer)
    if run.chat.budget is not None:
        await tree.store.set_budget(run.scope, run.chat.budget, run_id=run.id)
    tree.claim = claim
    since = asyncio.get_running_loop().time()
    await run.journal.start(start, _started(run))
    tree.start_lease(claim, since)


async def build_messages(run: RunSession, hooks: Hooks, message: str, skipped: Sequence[int] | None = None) -> None:
    """Add the system prompt and the first messages, with the user's *message* as the agent admits it.

    A user message that is too long is cut, and a notice reports it.

    *skipped* is recorded for a run that starts again because its process ended before the first request.
    """
    chat = run.chat
    if not chat.memory_enabled:
        for name in MEMORY_TOOLS:
            run.registry.unregister(name)
    earlier, kept = before_user_message(chat, run.model_id), None
    if earlier:
        _open_box(run)
        kept = run.resources.kept(chat.context)
        run.earlier_calls = run.checked.call_ids if skipped is None else call_ids(earlier)
    run.system = system_prompt(chat, hooks.config, run.registry)
    if hooks.build_system_prompt.own:
        run.system = await hooks.build_system_prompt(run.context, run.system)
    if run.turn_output is not None and not run.turn_output.is_enforced(run.model, tools=bool(run.registry)):
        run.system = f"{run.system}\n\n{run.turn_output.instructions}"
    run.skipped = _skipped(chat, len(earlier)) if skipped is None else tuple(skipped)
    examples = example_count(run.skipped)
    applied = run.window.start(earlier, chat.context, example_count=examples, last=kept.window if kept else None)
    if not applied:
        text = "Chat(context=...) belongs to another history: a part of the history is sent in full again"
        run.notify("context_not_applied", text)
    if chat.context is not None and run.journal.on:
        if applied:
            run.journal.carry(examples)
        else:
            run.journal.edit(run.window.edits)
    files = (*chat.attachments, *chat.project_attachments)
    if files and RAG_TOOL not in run.registry:
        count = len(files)  # their names are text, which the data policy may forbid
        text = f"the model sees only the names of the {count} attached files: register a tool {RAG_TOOL!r}"
        run.notify("attachments_unread", text)
    run.add(UserMessage(fitting(run, message), tuple(chat.media) if chat.media else ()))
    run.state.tool_choice = first_tool_choice(chat, run.registry)


def _open_box(run: RunSession) -> None:
    """Let a sub-agent read the cards that were cut, even if it has no tools: its model is its caller's, with tools."""
    chat = run.chat
    if run.parent is None and chat.caller is None:
        return
    if any(isinstance(message, ToolMessage) and message.whole is not None for message in chat.history):
        add_recall(run)


def fitting(run: RunSession, text: str) -> str:
    """Return as much of a user message as the model can take; a notice informs the user and the model of a cut.

    Raises `ContextFloorError` if nothing of it fits.
    """
    sent = run.window.truncate(text, run.fixed(run.registry.specs()), run.limits.output, run.model_id)
    if sent is text:
        return text
    size = run.resources.counter.count(sent)
    run.notify("user_message_cut", f"the message is too long: the model is sent its first {size:,} tokens")
    return f"{sent}\n\n[The message was cut here: it is too long for the model.]"


def example_count(skipped: Sequence[int]) -> int:
    """Return the number of example messages before the history."""
    return next((count for count, index in enumerate(skipped) if count != index), len(skipped))


def system_prompt(chat: Chat, config: AgentConfig[object], registry: ToolRegistry) -> str:
    """Return the agent's prompt or its replacement, then the sections of parts, tools, user, project and files."""
    prompt = config.prompt or registry.base_prompt()
    if chat.system_prompt is not None and config.allow_prompt_override:
        prompt = chat.system_prompt
    sections, memories = [prompt.strip()], chat.memories if chat.memory_enabled else ()
    if config.parts:
        sections += [part.prompt.strip() for part in config.parts]
    for title, text in (
        ("When to use which tool", _rules(registry)),
        ("How the user wants to be answered", chat.personalization if chat.personalization_enabled else ""),
        ("Facts about the user", "\n".join([f"- {memory}" for memory in memories]) if memories else ""),
        ("Rules of this project", chat.project_rules),
        ("Files of this project", _files(chat.project_attachments) if chat.project_attachments else ""),
        ("Files that the user attached", _files(chat.attachments) if chat.attachments else ""),
    ):
        if text and (text := text.strip()):
            sections.append(f"# {title}\n{text}")
    return "\n\n".join(filter(None, sections))


def before_user_message(chat: Chat, model: str) -> Sequence[Message]:
    """Return the model's examples, the history, and the summary of the conversation before it."""
    examples = chat.examples(model) if chat.few_shot else ()
    if not examples and not chat.summary:
        return chat.history  # not a copy: it may be long
    messages: list[Message] = [*examples, *chat.history]
    if chat.summary:
        messages.append(SystemMessage(f"Summary of the conversation before this:\n{chat.summary}"))
    return messages


def first_tool_choice(chat: Chat, registry: ToolRegistry) -> ToolChoice:
    """Force the chatbot if the user addresses one, else RAG if there are attachments."""
    if chat.chatbot_id and CHATBOT_TOOL in registry:
        return ForcedTool(CHATBOT_TOOL)
    if chat.attachments and RAG_TOOL in registry:
        return ForcedTool(RAG_TOOL)
    return "auto"


def _run_start(run: RunSession, parent: Parent | None) -> RunStart:
    """Return the store's row of a run that starts."""
    chat, caller = run.chat, run.chat.caller
    return RunStart(
        run_id=run.id,
        root_id=run.tree.root_id,
        parent_id=parent.run.id if parent else caller.run_id if caller else None,
        parent_call=parent.call_id if parent else caller.key if caller else None,
        agent=run.agent.name,
        agent_path=run.path,
        conversation_id=chat.conversation_id,
        scope=run.scope,
        task=chat.message,
        started=time.time(),
        forked_from=None,
        turn=chat.turn,
    )


def _started(run: RunSession) -> Started:
    """Return entry 0 of the journal: what the run is given."""
    chat, journal = run.chat, run.journal
    earlier = before_user_message(chat, run.model_id)
    written, follows = earlier, None
    if chat.turn is not None and chat.turn.parent and not (run.repairs or journal.policy.expires):
        first = len(chat.examples(run.model_id))
        written = [*earlier[:first], *earlier[first + len(chat.history) :]]
        follows = (chat.turn.parent, first, len(chat.history))
    if chat.turn is not None and chat.turn.context is not None:  # stored already
        journal.packed_context = chat.turn.context
        journal.name_texts([*chat.turn.context[0], *chat.turn.context[1]])
    elif chat.context is not None:
        journal.packed_context = pack_context(chat.context, journal.conversation_text_ids)
    before = journal.message_ids(written) if written else []
    return given(
        chat,
        journal,
        run.model_id,
        limits=limits_form(run.limits),
        before=before,
        follows=follows,
        process=process_name(run.tree.claim.owner) if run.tree.claim is not None else "",
        skipped=_skipped(chat, len(earlier)),
        context=journal.packed_context,
    )


def given(chat: Chat, journal: Journal, model: str | None, **more: Any) -> Started:
    """Return the start of a run from its chat, with *more* of its fields."""
    budget, examples = chat.budget, chat.few_shot if chat.turn is not None else {}
    return Started(
        model=model,
        policy=policy_form(journal.policy),
        media=journal.message_ids([UserMessage("", tuple(chat.media))])[0] if chat.media else None,
        chatbot=chat.chatbot_id,
        traceparent=chat.traceparent,
        payer="" if chat.caller is None else chat.caller.payer,
        few_shot=[[name, journal.message_ids(messages)] for name, messages in examples.items()],
        budget=None if budget is None else (budget.tokens, None if budget.money is None else str(budget.money)),
        without_tools=not chat.send_tools,
        message=chat.message,
        system_prompt=chat.system_prompt,
        personalization=chat.personalization,
        memories=list(chat.memories),
        project_rules=chat.project_rules,
        **more,
        attachments=[[file.name, file.description] for file in chat.attachments],
        project_attachments=[[file.name, file.description] for file in chat.project_attachments]
        if chat.project_attachments
        else (),
        without_memory=not chat.memory_enabled,
        without_personalization=not chat.personalization_enabled,
    )


def _sub_agent(run: RunSession, start: RunStart, parent: Parent) -> Operation:
    """Return the operation of a sub-agent, which its parent's run owns."""
    return Operation(
        key=run.id,
        scope=run.scope,
        run_id=parent.run.id,
        kind="sub_agent",
        state="running",
        step=parent.run.state.step,
        name=start.agent,
    )


def _skipped(chat: Chat, earlier: int) -> tuple[int, ...]:
    """Return the indexes of examples and older summary among the messages before the user's."""
    first = earlier - len(chat.history) - bool(chat.summary)
    return (*range(first), *range(first + len(chat.history), earlier))


def _rules(registry: ToolRegistry) -> str:
    return "\n".join(f"- {tool.spec.name}: {tool.selection_rule}" for tool in registry.all() if tool.selection_rule)


def _files(attachments: Iterable[Attachment]) -> str:
    return "\n".join(f"- {file.name}: {file.description}".rstrip(": ") for file in attachments)
