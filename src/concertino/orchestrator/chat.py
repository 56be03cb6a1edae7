"""A request of a user: the message, the conversation before it, and who asks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from fnmatch import fnmatchcase
from typing import Any, Self

from ..context_state import ContextState
from ..errors import ConfigurationError
from ..messages import Media, Message
from ..providers.base import Model, ModelRequest
from ..records import record
from ..scope import Scope
from ..storage.types import Budget, Caller, TurnStart

Examples = Mapping[str, Sequence[Message]] | Mapping[str | tuple[str, ...], Sequence[Message]]
"""Example messages by model id, pattern of ids, or a tuple of both; a mapping is invariant in its keys."""


@record
class Attachment:
    """A file that the user attached."""

    name: str
    description: str = ""
    """A one-line description; the RAG tool finds the contents."""


@record
class Chat:
    """A request of a user. Only the message is required. Its repr shows ids and switches, but no content."""

    message: str = field(default="", repr=False)
    """The user's message."""
    model: Model | str | None = field(default=None, kw_only=True)
    """The model that answers, or its id, unless the agent chooses another one; None for `Resources.model`."""
    media: Sequence[Media] = field(default=(), repr=False, kw_only=True)
    """Images, documents and recordings of the message. The run fails if the model does not accept one of them."""
    history: Sequence[Message] = field(default=(), repr=False, kw_only=True)
    """The conversation so far: the `RunResult.messages` of earlier runs, in order. A history that providers would
    reject is repaired, and a `Notice` reports how."""
    context: ContextState | None = field(default=None, repr=False, kw_only=True)
    """The last run's view of the history (`RunResult.context`), so that nothing is summarized twice; None to start with
    the full history."""
    summary: str = field(default="", repr=False, kw_only=True)
    """A summary of the conversation before the history."""
    scope: Scope = field(default=Scope(), kw_only=True)
    """The owner of the run. Build it from the product's own session, never from a request's body or a model's
    output."""
    conversation_id: str = field(default="", kw_only=True)
    system_prompt: str | None = field(default=None, repr=False, kw_only=True)
    """Replaces the prompt of an agent that allows it (`allow_prompt_override`)."""
    personalization: str = field(default="", repr=False, kw_only=True)
    """How the user wants to be answered."""
    personalization_enabled: bool = field(default=True, kw_only=True)
    """The user's switch: False leaves `personalization` out."""
    memories: Sequence[str] = field(default=(), repr=False, kw_only=True)
    """Facts about the user."""
    memory_enabled: bool = field(default=True, kw_only=True)
    """The user's switch: False leaves `memories` out and removes the memory tools."""
    project_rules: str = field(default="", repr=False, kw_only=True)
    project_attachments: Sequence[Attachment] = field(default=(), repr=False, kw_only=True)
    """Files of the project, for all of its conversations. Unlike `attachments`, they do not force a search."""
    attachments: Sequence[Attachment] = field(default=(), repr=False, kw_only=True)
    send_tools: bool = field(default=True, kw_only=True)
    """Whether the agent may call tools; the hook `should_send_tools` reads it. Sub-agents have tools in any case."""
    chatbot_id: str | None = field(default=None, kw_only=True)
    """The chatbot that the user talks to: its tool is forced first."""
    few_shot: Examples = field(default_factory=dict, repr=False, kw_only=True)
    """Example messages at the start of the conversation, for models that need them: by model id, by a pattern of ids
    (`openai:gpt-4*`), or by a tuple of both. A key equal to the model's id wins over the first key that matches it."""
    budget: Budget | None = field(default=None, kw_only=True)
    """The budget of the run with its sub-agents; needs a store. `Store.set_budget` sets budgets of users and
    tenants."""

    traceparent: str = field(default="", kw_only=True)
    """The trace of the run, as the value of the W3C header `traceparent`. It is recorded, so that the trace continues
    in other processes. If empty, the run joins the trace of the code that starts it, if an observer knows that
    trace."""

    turn: TurnStart | None = field(default=None, kw_only=True)
    """The turn of the conversation that the run answers; set by `Conversation.send`."""

    caller: Caller | None = field(default=None, repr=False, kw_only=True)
    """The call of another tree that the run works for; set by the process of a target that takes the call."""

    def __new__(cls, *_: Any, **fields: Any) -> Self:
        """Raise `ConfigurationError` for a field that a chat does not have."""
        if unknown := fields.keys() - cls.__dataclass_fields__.keys():
            remedy = "see the fields of Chat"
            if unknown & ModelRequest.__dataclass_fields__.keys():
                remedy = "settings of a model's request belong to the agent's hook `build_request`"
            raise ConfigurationError(f"Chat({min(unknown)}=...): there is no such field; {remedy}")
        return object.__new__(cls)

    def examples(self, model: str) -> Sequence[Message]:
        """Return the examples for the model with the id *model*."""
        if not self.few_shot or model in self.few_shot:
            return self.few_shot.get(model, ())
        for key, messages in self.few_shot.items():
            if any(fnmatchcase(model, pattern) for pattern in ((key,) if isinstance(key, str) else key)):
                return messages
        return ()

    def for_child(self, task: str, model: Model, box: Sequence[Message] = ()) -> Chat:
        """Return the chat of a sub-agent: the same user, switches and budget; of the conversation only its *box*."""
        return Chat(
            task,
            model=model,
            history=box,
            scope=self.scope,
            conversation_id=self.conversation_id,
            memory_enabled=self.memory_enabled,
            personalization_enabled=self.personalization_enabled,
            budget=self.budget,
        )
