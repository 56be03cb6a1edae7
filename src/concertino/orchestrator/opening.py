"""Opening a run: its place in the tree, its limits, and its first messages."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from ..errors import ConfigurationError
from ..ids import child_run_id
from ..messages import UserMessage
from ..storage.port import RunStart
from ..tools.registry import ToolRegistry
from .chat import Chat
from .config import AgentConfig
from .ledger import Ledger
from .limits import Limits
from .prompting import before_user_message, has_calls, system_prompt
from .recorder import Recorder
from .run import Run
from .state import ContentIndex


@dataclass(frozen=True, slots=True)
class Parent:
    """The call of a run that has started this one."""

    run: Run[Any]
    call_id: str
    element: str
    """This run's element of the agent path."""
    ordinal: int
    """Which of the sub-agents of calls with this id it is, from 1."""

    def child_id(self) -> str:
        """The child's run id: it follows from its parent's and the call's."""
        return child_run_id(self.run.id, self.call_id, self.ordinal)


def open_run(
    chat: Chat,
    config: AgentConfig[Any],
    registry: ToolRegistry,
    run_id: str,
    tool_call_limit: int | None,
    parent: Parent | None,
) -> Run[Any]:
    """A run of *config*, below *parent* if there is one. Raises `ConfigurationError` for limits that are none."""
    limits = chat.limits(chat.session, chat.model, config)
    if not isinstance(limits, Limits):
        raise ConfigurationError(f"Chat(limits=...) returned {limits!r:.80}; it must return Limits")
    if tool_call_limit is not None:
        limits = Limits(
            context=limits.context,
            output=limits.output,
            tool_calls=tool_call_limit,
            parallel_tools=limits.parallel_tools,
        )
    return Run(
        id=run_id,
        root_id=parent.run.root_id if parent else run_id,
        path=f"{parent.run.path}/{parent.element}" if parent else config.name,
        chat=chat,
        registry=registry.copy(),
        limits=limits,
        ledger=Ledger(parent.run.ledger if parent else None),
        index=parent.run.index if parent else ContentIndex(),
        recorder=Recorder(chat.store, run_id, chat.counter),
    )


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
    )


def build_messages(run: Run[Any], config: AgentConfig[Any]) -> None:
    """The system prompt and the first messages; a user message that is too long is cut, and that is said."""
    chat = run.chat
    run.system = system_prompt(chat, config, run.registry)
    earlier = before_user_message(chat)
    for message in earlier:
        run.window.append(message)  # kept already, by the runs that it comes from
    run.calls_in_history = has_calls(earlier)
    text = chat.message
    sent = run.window.cut(text, run.fixed(), run.limits.output)
    if sent is not text:
        size = chat.counter.count(sent)
        run.notify("user_message_cut", f"the message is too long: the model is sent its first {size:,} tokens")
        sent += "\n\n[The message was cut here: it is too long for the model.]"
    run.add(UserMessage(sent))
