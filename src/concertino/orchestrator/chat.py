"""What the product hands to the engine: the conversation, who asks, and what to work with."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from ..context_state import ContextState
from ..errors import ConfigurationError, UnknownModelError
from ..messages import Message
from ..providers.base import Model, model_id
from ..providers.rate_limit import Gate
from ..storage.base import Store
from ..storage.types import Budget
from ..token_engine.counting.base import EstimatingCounter, TokenCounter
from ..token_engine.pricing import price
from ..token_engine.retention import Retention
from ..tools.base import Session
from ..usage import Tokens
from .limits import HasLimits, Limits, LimitsFunction, default_limits
from .model_call.retry import Retry


@dataclass(frozen=True, slots=True)
class Attachment:
    """A file that the user gave along."""

    name: str
    description: str = ""
    """What it is, in a line; the contents are found by the RAG tool."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Chat:
    """One request of a user. Only `model` and `message` are needed."""

    model: Model
    """The model that answers unless the agent chooses another one."""
    message: str = ""
    """What the user says now. Only a run that is taken up from its journal needs none."""
    history: Sequence[Message] = ()
    """What was said before: the `messages` of the results of earlier runs, one after another. What no provider would
    take, such as one cut between a call and its result, is mended, and a `Notice` says how."""
    context: ContextState | None = None
    """How the last run saw the history (`RunResult.context`), so that this one goes on with the same view, and nothing
    is summarised twice; None: begin anew with all of it."""
    summary: str = ""
    """A summary of what came before the history."""
    session: Session = field(default_factory=Session)
    conversation_id: str = ""
    system_prompt: str | None = None
    """Replaces the prompt of an agent that allows it (`allow_prompt_override`)."""
    personalization: str = ""
    """How the user wants to be answered."""
    memories: Sequence[str] = ()
    """What is known of the user."""
    project_rules: str = ""
    attachments: Sequence[Attachment] = ()
    chatbot_id: str | None = None
    """The chatbot that the user talks to: its tool is forced first."""
    few_shot: Mapping[str, Sequence[Message]] = field(default_factory=dict)
    """Examples to begin with, by model id, for the models that want them."""
    models: Callable[[str], Model] | None = None
    """Finds a model by its id, for agents that choose one, and for `fallback`. It is asked once for each id. Whoever
    gives it closes what it opens: `concertino.wiring.Models` does both."""
    store: Store | None = None
    """Where runs are kept; None: nowhere."""
    retry: Retry = field(default_factory=Retry)
    """How often a model is asked again that could not be asked."""
    fallback: Sequence[str] = ()
    """The models, by id, that are asked instead of one that cannot be asked, in this order. `models` finds them; one
    that it cannot open is passed over, and a `Notice` says why."""
    gates: Mapping[str, Gate] = field(default_factory=dict)
    """By provider: how many requests and tokens a minute its key may take. Share one gate between all chats."""
    budget: Budget | None = None
    """What the run and its sub-agents may spend together; needs a store. Budgets of users and organizations are the
    store's (`Store.set_budget`)."""
    deps: Any = None
    """The product's own object, for its tools."""
    limits: LimitsFunction = default_limits
    counter: TokenCounter = field(default_factory=EstimatingCounter)
    retention: Retention = field(default_factory=Retention)
    """How much of the conversation stays as it is while it grows."""
    price: Callable[[str, str, Tokens], tuple[Decimal | None, str]] = price
    """What an attempt costs, by provider, model and tokens: US dollars and the price list's version."""
    _found: dict[str, tuple[object, Model]] = field(default_factory=dict, repr=False, compare=False)
    """By id, who was asked for a model, and what was found; the same one in the chats that are made of this one."""

    def find_model(self, wanted: str) -> Model:
        """The model with the id *wanted* (`provider:name`). Raises `UnknownModelError`, and what `models` raises."""
        if wanted == model_id(self.model):
            return self.model
        if self.models is None:
            raise UnknownModelError(
                f"the agent asks for the model {wanted!r}, and this chat only has {model_id(self.model)!r}; "
                "give it Chat(models=concertino.wiring.Models())"
            )
        asked, found = self._found.get(wanted, (None, self.model))
        if asked is not self.models:
            found = self.models(wanted)
            if not hasattr(found, "stream"):
                raise ConfigurationError(
                    f"Chat(models=...) returned {found!r:.80} for {wanted!r}; it must return a model"
                )
            self._found[wanted] = self.models, found
        return found

    def limits_of(self, model: Model, agent: HasLimits) -> Limits:
        """The limits of *agent* where it asks *model*. Raises `ConfigurationError` if they are none."""
        found = self.limits(self.session, model, agent)
        if not isinstance(found, Limits):
            raise ConfigurationError(f"Chat(limits=...) returned {found!r:.80}; it must return Limits")
        return found

    def for_child(self, task: str) -> Chat:
        """The chat of a sub-agent: the same means and user, and none of the conversation."""
        return dataclasses.replace(
            self,
            message=task,
            history=(),
            context=None,
            summary="",
            system_prompt=None,
            personalization="",
            memories=(),
            project_rules="",
            attachments=(),
            chatbot_id=None,
            few_shot={},
        )
