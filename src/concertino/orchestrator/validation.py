"""What can be wrong with what a product hands to the engine, said before the run begins."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from ..context import ContextState
from ..errors import ConfigurationError
from ..messages import (
    AssistantMessage,
    Media,
    Message,
    Opaque,
    Reasoning,
    SystemMessage,
    Text,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from ..providers.base import model_id
from ..providers.rate_limit import RateLimit
from ..storage.types import Budget
from ..token_engine.edits import edit_of
from ..token_engine.retention import Retention
from ..tools.base import Session, Tool
from ..tools.registry import ToolRegistry
from .agent import AgentConfig
from .chat import Attachment, Chat
from .model_call.retry import Retry

_FIELDS: dict[tuple[str, ...], tuple[Callable[[Any], bool], str]] = {
    ("model",): (
        lambda value: all(_has(value, part) for part in ("stream", "provider", "name")),
        "it is no model; wiring.open_model('provider:name') opens one",
    ),
    ("store",): (
        lambda value: value is None or _has(value, "append"),
        "it is no store; SqliteStore.open(path) gives one",
    ),
    ("counter",): (lambda value: _has(value, "count"), "it is no counter of tokens; EstimatingCounter() is one"),
    ("retention",): (lambda value: isinstance(value, Retention), "it must be a Retention"),
    ("context",): (
        lambda value: value is None or _is_context(value),
        "it must be the `context` of an earlier result, or None to begin anew",
    ),
    ("limits", "price"): (callable, "it must be a function"),
    ("session",): (lambda value: isinstance(value, Session), "it must be a Session"),
    ("few_shot",): (lambda value: _is_by_name(value, object), "it must be lists of messages by model id"),
    ("models",): (
        lambda value: value is None or callable(value),
        "it must be a function that finds a model by its id; concertino.wiring.Models() is one",
    ),
    ("retry",): (lambda value: isinstance(value, Retry), "it must be a Retry"),
    ("gates",): (
        lambda value: _is_by_name(value, RateLimit),
        "it must be RateLimits by provider: {'anthropic': RateLimit(...)}",
    ),
    ("budget",): (lambda value: value is None or isinstance(value, Budget), "it must be a Budget, or None for none"),
    ("system_prompt", "chatbot_id"): (lambda value: value is None or isinstance(value, str), "it must be text"),
    ("summary", "conversation_id", "personalization", "project_rules"): (
        lambda value: isinstance(value, str),
        "it must be text",
    ),
}
"""What the fields of a chat must be, and what is said of one that is not."""
_PARTS = (Text, Reasoning, ToolCall, Opaque)
_TEXTS = {"text": ("text",), "reasoning": ("text",), "tool_call": ("id", "name", "arguments"), "opaque": ("raw",)}
_MEDIA = ("media_type", "data", "url", "file_id")
_LISTS: dict[str, tuple[type | tuple[type, ...], str]] = {
    "history": (
        (UserMessage, AssistantMessage, ToolMessage, SystemMessage),
        "messages, such as UserMessage(...) or the `messages` of an earlier result",
    ),
    "memories": (str, "texts"),
    "attachments": (Attachment, "Attachments"),
    "fallback": (str, "ids of models, such as 'openai:gpt-6-luna'"),
}


def _is_by_name(value: object, kind: type) -> bool:
    return isinstance(value, Mapping) and _all_text(value) and all(isinstance(item, kind) for item in value.values())


def _is_context(value: object) -> bool:
    match value:
        case ContextState(edits=[*edits], ready=[*ready], at=None | int() | float(), model=str()):
            try:
                for written in (*edits, *ready):
                    edit_of(written)
            except ValueError:
                return False
            return (
                isinstance(value.rent, Sequence)
                and [isinstance(paid, int | float) for paid in value.rent] == [True] * 2
            )
    return False


def check_agent(config: object) -> None:
    """Raise `ConfigurationError` unless *config* is an agent whose name can stand in an agent path."""
    if not isinstance(config, AgentConfig):
        raise ConfigurationError(f"{config!r:.80} is no agent; pass an object of a subclass of AgentConfig")
    name, prompt = config.name, config.prompt
    if not isinstance(name, str) or not name.isprintable() or not name.strip() or "/" in name:
        raise ConfigurationError(f"the agent's name is {name!r:.80}; it must be a line of text without '/'")
    if not isinstance(prompt, str):
        raise ConfigurationError(f"the prompt of agent {name!r} is {prompt!r:.80}; it must be text")


def registry_of(config: AgentConfig[Any], given: object) -> ToolRegistry:
    """The registry that was given, or one of the agent's own tools. Raises `ConfigurationError` if it is none."""
    if given is None:
        if isinstance(config.tools, Tool) or not isinstance(config.tools, Iterable):
            raise ConfigurationError(f"agent {config.name!r} has the tools {config.tools!r:.80}; use a tuple of tools")
        return ToolRegistry(config.tools)
    if not isinstance(given, ToolRegistry):
        raise ConfigurationError(f"{given!r:.80} is no registry; pass ToolRegistry([...])")
    return given


def check_observers(observers: object) -> None:
    """Raise `ConfigurationError` unless *observers* are functions."""
    if not isinstance(observers, Sequence) or not all(map(callable, observers)):
        raise ConfigurationError(f"observers are {observers!r:.80}; pass a list of functions that take an event")


def check_chat(chat: object, *, resume: bool = False, run_id: str | None = None) -> None:
    """Raise `ConfigurationError`, naming the field, if a field of *chat* is not what it is declared to be.

    A run that is taken up has its message in the journal.
    """
    if not isinstance(chat, Chat):
        raise ConfigurationError(f"{chat!r:.80} is no Chat; pass Chat(model=..., message=...)")
    if resume and chat.store is None:
        raise ConfigurationError("resume=True takes up a run: pass its run_id, and Chat(store=...) that has it")
    if run_id is not None and (not isinstance(run_id, str) or not run_id or ":" in run_id):
        raise ConfigurationError(f"run_id is {run_id!r:.80}; it must be text without ':'")
    if not isinstance(chat.message, str) or not (resume or chat.message.strip()):
        raise ConfigurationError("the message is empty or no text; Chat(message=...) needs what the user says")
    _check_fields(chat)
    if chat.budget is not None and chat.store is None:
        raise ConfigurationError("Chat(budget=...) needs Chat(store=...), such as MemoryStore(): it keeps the accounts")
    _check_fallback(chat)


def _check_fields(chat: Chat) -> None:
    for fields, (fits, problem) in _FIELDS.items():
        for field in fields:
            if not fits(value := getattr(chat, field)):
                raise _wrong(field, value, problem)
    for field, (kind, wanted) in _LISTS.items():
        _check_list(field, getattr(chat, field), kind, wanted)
    _check_contents("history", chat.history)
    for examples in chat.few_shot.values():
        _check_list("few_shot", examples, *_LISTS["history"])
        _check_contents("few_shot", examples)


def _check_fallback(chat: Chat) -> None:
    for wanted in chat.fallback:
        provider, _, name = wanted.partition(":")
        if not provider or not name:
            raise ConfigurationError(f"Chat(fallback=...) holds {wanted!r:.80}; the id of a model is 'provider:name'")
        if chat.models is None and wanted != model_id(chat.model):
            raise ConfigurationError(
                f"Chat(fallback=...) holds {wanted!r:.80}, and nothing that finds it: "
                "give it Chat(models=concertino.wiring.Models()), too"
            )


def _check_contents(field: str, messages: Sequence[Message]) -> None:
    for place, message in enumerate(messages):
        if problem := _odd(message):
            raise ConfigurationError(f"Chat({field}=...) holds {message!r:.80} at place {place}; {problem}")


def _odd(message: Message) -> str:
    """What is wrong with the contents of *message*; "" if nothing is."""
    if isinstance(message, AssistantMessage):
        fits = isinstance(message.parts, tuple) and all(isinstance(part, _PARTS) for part in message.parts)
        texts = [getattr(part, name) for part in message.parts for name in _TEXTS[part.kind]] if fits else []
        return "" if fits and _all_text(texts) else "its parts must be a tuple of Text, Reasoning, ToolCall and Opaque"
    if isinstance(message, ToolMessage):
        fits = _all_text((message.call_id, message.name, message.content))
        return _odd_media(message.media) if fits else "its call_id, name and content must be text"
    if not isinstance(message.text, str):
        return "its text must be text"
    return _odd_media(message.media) if isinstance(message, UserMessage) else ""


def _odd_media(media: object) -> str:
    fits = isinstance(media, tuple) and all(map(_is_media, media))
    return "" if fits else "its media must be a tuple of Media: a type, and base64 text, a URL or a file's id"


def _is_media(value: object) -> bool:
    return isinstance(value, Media) and _all_text(getattr(value, name) or "" for name in _MEDIA)


def _all_text(values: Iterable[object]) -> bool:
    return all(isinstance(value, str) for value in values)


def _check_list(field: str, value: object, kind: type | tuple[type, ...], wanted: str) -> None:
    if not isinstance(value, Sequence) or isinstance(value, str):
        raise _wrong(field, value, f"it must be a list of {wanted}")
    for item in value:
        if not isinstance(item, kind):
            raise ConfigurationError(f"Chat({field}=...) holds {item!r:.80}; it must hold {wanted}")


def _has(value: object, method: str) -> bool:
    return not isinstance(value, type) and hasattr(value, method)


def _wrong(field: str, value: object, problem: str) -> ConfigurationError:
    return ConfigurationError(f"Chat({field}=...) is {value!r:.80}; {problem}")
