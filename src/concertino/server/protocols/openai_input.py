"""Requests of OpenAI's clients: the messages of Chat Completions, and the input items of Responses."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ...messages import AssistantMessage, Media, Message, Text, UserMessage
from ...orchestrator.chat import Chat
from ...scope import Scope
from .http import objects, text_field
from .values import BadInputError, JsonObject, media_of

_TEXTS = ("text", "input_text", "output_text")


def chat_of(body: JsonObject, scope: Scope) -> Chat:
    """Return the last message as a request, with the messages before it as its history.

    Instructions of the client tell how the user wants to be answered: they never replace the agent's prompt. Tools of
    the client are never called, as a model is free to do unless one is required; calls and results in the history are
    left out. Raises `BadInputError`.
    """
    for name in ("previous_response_id", "conversation"):
        if body.get(name):
            raise BadInputError(f"{name!r} is not supported: the server keeps no conversation for this protocol")
    for name in ("tool_choice", "function_call"):
        if body.get(name) not in (None, "auto", "none"):
            raise BadInputError(
                f"{name!r} requires a call: the server has its own tools, and calls none of the client's"
            )
    instructions = [text_field(body, "instructions")] if body.get("instructions") else []
    history: list[Message] = []
    for role, text, media in _messages(body):
        match role:
            case "system" | "developer":
                instructions.append(text)
            case "user":
                history.append(UserMessage(text, media))
            case "assistant" if text:
                history.append(AssistantMessage((Text(text),)))
            case _:
                pass
    if not history or not isinstance(last := history.pop(), UserMessage):
        raise BadInputError("the last message must be the user's")
    return Chat(last.text, media=last.media, history=history, scope=scope, personalization="\n\n".join(instructions))


def _messages(body: JsonObject) -> Iterator[tuple[str, str, tuple[Media, ...]]]:
    """Yield the role, the text and the media of each message."""
    if isinstance(text := body.get("input"), str):
        yield "user", text, ()
        return
    for message in objects(body, "input" if "input" in body else "messages"):
        if message.get("type", "message") != "message":
            continue
        content = message.get("content")
        if isinstance(content, str) or content is None:
            yield text_field(message, "role"), content or "", ()
            continue
        parts = objects(message, "content")
        texts = [text_field(part, "text") for part in parts if part.get("type") in _TEXTS]
        media = [_medium(part) for part in parts if part.get("type") not in (*_TEXTS, "refusal")]
        yield text_field(message, "role"), "\n\n".join(texts), tuple(media)


def _medium(part: JsonObject) -> Media:
    kind = part.get("type")
    match kind:
        case "image_url" | "input_image":
            image = part.get("image_url")
            url = text_field(image, "url") if isinstance(image, dict) else text_field(part, "image_url")
            return media_of(url, "" if url.startswith("data:") else "image/*")
        case "input_audio":
            audio: Any = part.get("input_audio")
            fields = audio if isinstance(audio, dict) else {}
            form = text_field(fields, "format", "wav")
            return media_of(f"data:audio/{form};base64,{text_field(fields, 'data')}")
        case "file" | "input_file":
            file: Any = part.get("file", part)
            fields = file if isinstance(file, dict) else {}
            url = text_field(fields, "file_data") if "file_data" in fields else text_field(fields, "file_url")
            return media_of(url, name=text_field(fields, "filename", ""))
        case _:
            raise BadInputError(f"content of the type {kind!r} is not supported")
