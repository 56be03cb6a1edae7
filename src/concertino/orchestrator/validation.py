"""Validation of what a product passes to the engine, before the run begins.

Each check names the field, the value and the remedy. A message that has passed is not checked again, since it is
frozen: the next run of a long conversation checks only the new messages.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import compress, repeat
from operator import attrgetter, is_not
from typing import Any

from ..context_state import ContextState
from ..errors import ConfigurationError
from ..messages import (
    AssistantMessage,
    Media,
    MediaPart,
    Message,
    Opaque,
    Reasoning,
    SystemMessage,
    Text,
    ToolCall,
    ToolMessage,
    UserMessage,
    begins_with,
    mark_valid,
    unvalidated,
)
from ..providers.base import model_id
from ..providers.rate_limit import RateLimit
from ..scope import Scope
from ..storage.types import Budget, TurnStart
from ..token_engine.edits import decode_edit
from ..token_engine.retention import Retention
from ..tools.base import Tool
from ..tools.registry import ToolRegistry
from .agent import AgentConfig, check_parts
from .chat import Attachment, Chat
from .model_call.retry import Retry
from .resources import Resources
from .run import RunContext

Check = Callable[[Any], bool]
_UNKNOWN = object()

_USE_MESSAGES = "use a list of messages, such as UserMessage(...) or the `messages` of an earlier result"


def _is(*kinds: type) -> Check:
    return lambda value: isinstance(value, kinds)


def _is_list(value: object) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str)


def _is_list_of(kind: type) -> Check:
    return lambda value: _is_list(value) and all(isinstance(item, kind) for item in value)


def _is_mapping_to(check: Check) -> Check:
    def check_mapping(value: object) -> bool:
        return isinstance(value, Mapping) and _are_texts(value) and all(map(check, value.values()))

    return check_mapping


def _are_texts(values: Iterable[object]) -> bool:
    return all(isinstance(value, str) for value in values)


def _are_names(value: object) -> bool:
    return isinstance(value, Collection) and not isinstance(value, str) and _are_texts(value)


def _is_few_shot(value: object) -> bool:
    if not isinstance(value, Mapping) or not all(map(_is_list, value.values())):
        return False
    return all(isinstance(key, str) or (isinstance(key, tuple) and _are_texts(key)) for key in value)


def _is_instance_with(*names: str) -> Check:
    return lambda value: not isinstance(value, type) and all(hasattr(value, name) for name in names)


_MOST_TOKENS = 10**15


def _is_context(value: object) -> bool:
    if not isinstance(value, ContextState):
        return False
    try:
        for encoded in (*value.edits, *value.prepared):
            decode_edit(encoded)
        tokens = [int(each) for each in (value.failures, *value.anchor)]
        sizes = 0 <= min(tokens) <= max(tokens) < _MOST_TOKENS and len(tokens) in (1, 4)
        known = isinstance(value.model, str) and abs(value.omitted) < _MOST_TOKENS
        return sizes and known and 0.0 <= (value.sent_at or 0.0) + value.bill < math.inf
    except (TypeError, ValueError, OverflowError):
        return False


def _is_traceparent(value: object) -> bool:
    return isinstance(value, str) and re.fullmatch(r"00-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}", value) is not None


def _optional(check: Check) -> Check:
    return lambda value: value is None or check(value)


_TEXT = (_is(str), "use text")
_OPTIONAL_TEXT = (_optional(_is(str)), "use text, or None")
_FUNCTION = (callable, "use a function")

_is_model = _is_instance_with("stream", "provider", "name")

_CHAT: dict[str, tuple[Check, str]] = {
    "model": (
        _optional(lambda value: isinstance(value, str) or _is_model(value)),
        "use a model or its id; wiring.open_model('provider:name') opens one",
    ),
    "history": (_is_list, _USE_MESSAGES),
    "few_shot": (_is_few_shot, f"for each model id, pattern or tuple of them, {_USE_MESSAGES}"),
    "context": (_optional(_is_context), "use the `context` of an earlier result, or None to start anew"),
    "scope": (_is(Scope), "use a Scope"),
    "memories": (_is_list_of(str), "use a list of texts"),
    "attachments": (_is_list_of(Attachment), "use a list of Attachments"),
    "turn": (_optional(_is(TurnStart)), "leave it out: Conversation.send sets it"),
    "budget": (_optional(_is(Budget)), "use a Budget, or None"),
    "system_prompt": _OPTIONAL_TEXT,
    "chatbot_id": _OPTIONAL_TEXT,
    "project_attachments": (_is_list_of(Attachment), "use a list of Attachments"),
    "send_tools": (_is(bool), "use True or False"),
    "memory_enabled": (_is(bool), "use True or False"),
    "personalization_enabled": (_is(bool), "use True or False"),
    "summary": _TEXT,
    "conversation_id": _TEXT,
    "traceparent": (_is_traceparent, "use the value of a W3C header traceparent, or leave it out"),
    "personalization": _TEXT,
    "project_rules": _TEXT,
}
_RESOURCES: dict[str, tuple[Check, str]] = {
    "model": (_optional(_is_model), "use a model; wiring.open_model('provider:name') opens one"),
    "models": (_optional(callable), "use a function that opens a model by its id, such as wiring.Models()"),
    "store": (_optional(_is_instance_with("append")), "use a store; SqliteStore.open(path) opens one"),
    "counter": (_is_instance_with("count"), "use a token counter, such as EstimatingCounter()"),
    "retention": (_is(Retention), "use a Retention"),
    "retry": (_is(Retry), "use a Retry"),
    "allowed_tools": (_is_mapping_to(_are_names), "use names of tools per agent: {'desk': ['search', 'fetch']}"),
    "rate_limits": (_is_mapping_to(_is(RateLimit)), "use one RateLimit per provider: {'anthropic': RateLimit(...)}"),
    "fallback": (_is_list_of(str), "use a list of model ids, such as 'openai:gpt-6-luna'"),
    "limits": _FUNCTION,
    "price": _FUNCTION,
}


def check_run(
    chat: object,
    config: object,
    registry: object,
    resources: object,
    observers: object,
    *,
    resume: bool,
    run_id: str | None,
) -> ToolRegistry:
    """Check the arguments of a run, and return its registry. Raises `ConfigurationError`, naming the part."""
    agent = check_agent(config)
    check_chat(chat, resources, resume=resume, run_id=run_id)
    check_observers(observers)
    return registry_of(agent, registry)


def check_agent(config: object) -> AgentConfig[Any]:
    """Return *config*. Raise `ConfigurationError` unless it is an agent with a valid name and prompt."""
    if not isinstance(config, AgentConfig):
        raise ConfigurationError(f"{config!r:.80} is not an agent; pass an instance of a subclass of AgentConfig")
    name, prompt = config.name, config.prompt
    if not isinstance(name, str) or not name.isprintable() or not name.strip() or "/" in name:
        raise ConfigurationError(f"invalid agent name {name!r:.80}: use one line of text without '/'")
    if not isinstance(prompt, str):
        raise ConfigurationError(f"agent {name!r}: invalid prompt {prompt!r:.80}: use text")
    if config.parts:
        check_parts(config)
    return config


def registry_of(config: AgentConfig[Any], registry: object) -> ToolRegistry:
    """Return *registry*, or a registry of the agent's own tools if it is None, with the tools of the agent's parts.

    Raises `ConfigurationError`.
    """
    if registry is None:
        if isinstance(config.tools, Tool) or not isinstance(config.tools, Iterable):
            raise ConfigurationError(f"agent {config.name!r}: invalid tools {config.tools!r:.80}: use a tuple of tools")
        kept = vars(config).get("_concertino_registry")
        brought = [part.tools for part in config.parts] if config.parts else ()  # those of servers may change
        if (
            kept is None
            or kept[0] is not config.tools
            or any(map(is_not, kept[1], brought))
            or isinstance(config.tools, list)
        ):
            own = ToolRegistry([*config.tools, *_tools_of_parts(config)])
            keep_registry(config, own)
            return own
        shared: ToolRegistry = kept[-1]  # every run copies it
        return shared
    if not isinstance(registry, ToolRegistry):
        raise ConfigurationError(f"{registry!r:.80} is not a registry; pass ToolRegistry([...])")
    if config.parts:
        registry = registry.copy()
        for tool in _tools_of_parts(config):
            registry.register(tool)
    return registry


def keep_registry(config: AgentConfig[Any], registry: ToolRegistry) -> None:
    """Let all runs of *config* copy *registry*, until its tools or those of its parts are others."""
    vars(config)["_concertino_registry"] = (config.tools, [part.tools for part in config.parts], registry)


def _tools_of_parts(config: AgentConfig[Any]) -> Iterator[Tool]:
    for part in config.parts:
        if isinstance(part.tools, Tool) or not isinstance(part.tools, Iterable):
            raise ConfigurationError(
                f"part {part.name or type(part).__name__!r}: invalid tools {part.tools!r:.80}: use a tuple of tools"
            )
        yield from part.tools


def check_observers(observers: object) -> None:
    """Raise `ConfigurationError` unless *observers* is a sequence of functions."""
    if not isinstance(observers, Sequence) or not all(map(callable, observers)):
        raise ConfigurationError(f"invalid observers {observers!r:.80}: use a list of functions that take an event")


def check_chat(chat: object, resources: object, *, resume: bool = False, run_id: str | None = None) -> None:
    """Raise `ConfigurationError`, naming the field, if *chat*, *resources* or the arguments of the run are invalid.

    A resumed run needs no message: the journal has it.
    """
    if not isinstance(chat, Chat):
        raise ConfigurationError(f"{chat!r:.80} is not a Chat; pass Chat(message, model=...)")
    if not isinstance(resources, Resources):
        raise ConfigurationError(f"{resources!r:.80} are not Resources; pass Resources(store=...)")
    if not resources.is_valid():
        _check_fields(resources, _RESOURCES, {})
        resources.mark_valid()
    valid = _DEFAULTS
    known: Sequence[Message] = ()
    if chat.context is not None and (kept := resources.kept(chat.context)) is not None:
        valid, known = {**_DEFAULTS, "context": chat.context}, kept.checked.messages
    _check_fields(chat, _CHAT, valid)
    if chat.media or not isinstance(chat.message, str) or not (resume or chat.message.strip()):
        _check_message(chat, resume=resume)
    if run_id is not None and (not isinstance(run_id, str) or not run_id or ":" in run_id):
        raise ConfigurationError(f"invalid run_id {run_id!r:.80}: use text without ':'")
    if resources.store is None and (resume or chat.budget is not None):
        need = "resume=True needs the store that has the run" if resume else "Chat(budget=...) needs a store"
        raise ConfigurationError(f"{need}: pass Resources(store=...)")
    if resources.fallback:
        _check_fallback(chat, resources)
    history = chat.history if chat.turn is None else ()  # what the store returns was checked before it was written
    _check_contents("history", history, known)
    for examples in chat.few_shot.values():
        _check_contents("few_shot", examples)


def _check_message(chat: Chat, *, resume: bool) -> None:
    if not isinstance(chat.message, str) or not (resume or chat.media or chat.message.strip()):
        raise ConfigurationError(f"Chat(message={chat.message!r:.80}): the message must be text and not empty")
    media = tuple(chat.media)
    if media and (problem := media_problem(media) or content_problem(media)):
        raise ConfigurationError(f"Chat(media=...): {problem}")


_CHAT_VALUES, _RESOURCES_VALUES = attrgetter(*_CHAT), attrgetter(*_RESOURCES)
_DEFAULTS: dict[str, object] = {f.name: f.default for f in dataclasses.fields(Chat)}


def _check_fields(
    owner: Chat | Resources, fields: Mapping[str, tuple[Check, str]], valid: Mapping[str, object]
) -> None:
    """Check all *fields* of *owner* whose value is not the one in *valid*."""
    values = _CHAT_VALUES(owner) if isinstance(owner, Chat) else _RESOURCES_VALUES(owner)
    changed = map(is_not, values, map(valid.get, fields, repeat(_UNKNOWN)))
    for value, (field, (check, remedy)) in compress(zip(values, fields.items(), strict=True), changed):
        if not check(value):
            raise ConfigurationError(f"{type(owner).__name__}({field}={value!r:.80}): {remedy}")


def _check_fallback(chat: Chat, resources: Resources) -> None:
    own = [model_id(each) for each in (chat.model, resources.model) if each is not None and not isinstance(each, str)]
    for wanted in resources.fallback:
        provider, _, name = wanted.partition(":")
        if not provider or not name:
            raise ConfigurationError(f"invalid fallback {wanted!r:.80}: use the id of a model, 'provider:name'")
        if resources.models is None and wanted not in own:
            raise ConfigurationError(
                f"fallback {wanted!r:.80} cannot be opened: pass Resources(models=concertino.wiring.Models())"
            )


def _check_contents(field: str, messages: Sequence[Message], known: Sequence[Message] = ()) -> None:
    """Check *messages*, but not again those of *known* that they begin with."""
    fresh = unvalidated(messages[len(known) :] if known and begins_with(messages, known) else messages)
    for message in fresh:
        if problem := _problem(message):
            index = next(i for i, item in enumerate(messages) if item is message)
            raise ConfigurationError(f"Chat({field}=...): invalid message at index {index}, {message!r:.80}: {problem}")
    mark_valid(fresh)


def _problem(message: Message) -> str:
    """Return the remedy for *message*; empty if it is valid."""
    if isinstance(message, AssistantMessage):
        valid = isinstance(message.parts, tuple) and all(map(_is_part, message.parts))
        return "" if valid else "use a tuple of Text, Reasoning, ToolCall, MediaPart and Opaque as parts"
    if isinstance(message, ToolMessage):
        valid = isinstance(message.call_id, str) and isinstance(message.name, str) and isinstance(message.content, str)
        return media_problem(message.media) if valid else "use text as call_id, name and content"
    if not isinstance(message, UserMessage | SystemMessage):
        return _USE_MESSAGES
    if not isinstance(message.text, str):
        return "use text as its text"
    return media_problem(message.media) if isinstance(message, UserMessage) else ""


def added_problem(run: RunContext[Any], messages: Sequence[Message]) -> str:
    """Return what is wrong with *messages* that a hook or a tool adds, or "".

    Their media are checked like those of a tool's result, except in messages that the conversation has already.
    """
    for message in messages:
        problem = _problem(message)
        media = () if problem or isinstance(message, SystemMessage) else message.media
        if media and not any(message is known for known in run.messages):
            problem = media_problem(media, run.limits.media_bytes) or content_problem(media)
        if problem:
            return f"{message!r:.80}: {problem}"
    return ""


def _is_part(value: object) -> bool:
    if isinstance(value, ToolCall):
        return isinstance(value.id, str) and isinstance(value.name, str) and isinstance(value.arguments, str)
    if isinstance(value, Text | Reasoning):
        return isinstance(value.text, str)
    if isinstance(value, MediaPart):
        return not media_problem((value.media,))
    return isinstance(value, Opaque) and isinstance(value.raw, str)


def media_problem(media: object, most: int | None = None) -> str:
    """Return what is wrong with *media*, or "".

    It must be a tuple of media with a type and one content each: base64 text, a URL or a provider's file id. With
    *most*, their contents must not exceed that many bytes together.
    """
    if not isinstance(media, tuple):
        return "use a tuple of Media"
    for item in media:
        if not isinstance(item, Media) or not isinstance(item.media_type, str) or "/" not in item.media_type:
            return f"{item!r:.80}: use Media with a type such as 'image/png'"
        given = [value for value in (item.data, item.url, item.file_id) if value]
        if len(given) != 1 or not isinstance(given[0], str):
            return f"{item!r:.80}: give it one of data (base64 text), url and file_id"
    if most is not None and (size := _size(media)) > most:
        return f"{size:,} bytes of media exceed Limits(media_bytes={most:,}): send less, or raise the limit"
    return ""


def content_problem(media: Sequence[Media]) -> str:
    """Return the medium of new *media* whose data is not base64, or ""."""
    for item in media:
        if problem := item.data_problem:
            return f"{item!r:.80}: {problem}"
    return ""


def _size(media: Sequence[Media]) -> int:
    return sum(len(item.data) * 3 // 4 for item in media if item.data)
