"""Media in both directions: what each format takes, refuses before sending, and produces."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from concertino import OPERATOR, AgentConfig, Chat, Resources, SqliteStore, ToolOrchestrator
from concertino.errors import UnsupportedError
from concertino.messages import AssistantMessage, Media, MediaPart, Text, ToolCall, ToolMessage, UserMessage
from concertino.providers import Dropped
from concertino.providers.openai import OpenAICompatibleModel

from .test_typed_requests import sent, written
from .wire_kit import MODELS, events_of, model_of, played, reply_of, request, serving, sse

PNG, JPG = Media("image/png", "aWc="), Media("image/jpg", "aWc=")
PDF = Media("application/pdf", "JVBERg==")
WAV, MP4 = Media("audio/wav", "UklGRg=="), Media("video/mp4", "AAAA")
DOCX = Media("application/vnd.openxmlformats-officedocument.wordprocessingml.document", "UEs=")
ZIP, TIFF = Media("application/zip", "UEs="), Media("image/tiff", "SUk=")
GIF, HEIC = Media("image/gif", "R0lG"), Media("image/heic", "AAAAaGVpYw==")
JSON = Media("application/json", "eyJhIjoxfQ==", name="a.json")

TAKEN: dict[str, tuple[Media, ...]] = {
    "anthropic": (PNG, JPG, GIF, PDF, JSON),
    "responses": (PNG, JPG, GIF, PDF, DOCX, JSON),
    "chat": (PNG, JPG, GIF, PDF, WAV, JSON),
    "google": (PNG, JPG, HEIC, PDF, WAV, MP4, JSON),
}
ALL = (PNG, JPG, GIF, HEIC, PDF, WAV, MP4, DOCX, ZIP, TIFF, JSON)


def in_message(media: Media) -> tuple[UserMessage | AssistantMessage | ToolMessage, ...]:
    return (UserMessage("Look", (media,)),)


def in_result(media: Media) -> tuple[UserMessage | AssistantMessage | ToolMessage, ...]:
    call = ToolCall("a", "look", "{}")
    return (UserMessage("Q"), AssistantMessage((call,)), ToolMessage("a", "look", "Here", media=(media,)))


@pytest.mark.parametrize("kind", list(MODELS))
@pytest.mark.parametrize("media", ALL, ids=lambda media: media.media_type)
@pytest.mark.parametrize("place", [in_message, in_result])
def test_media_are_sent_or_refused_never_dropped(kind: str, media: Media, place: Any) -> None:
    if media in TAKEN[kind]:
        body = written(kind, *place(media))
        text = body.data.decode()
        content = r"{\"a\":1}" if media is JSON and kind in ("anthropic", "chat") else media.data
        assert content is not None
        assert content in text
        assert "cannot be shown" not in text
        assert body.dropped == ()
    else:
        with pytest.raises(UnsupportedError, match=media.media_type):
            written(kind, *place(media))


def test_a_file_without_a_name_has_the_ending_of_its_type() -> None:
    (part, _) = sent("responses", UserMessage("Read", (DOCX,)))["input"][0]["content"]
    assert part["filename"] == "document.docx"


def test_an_unregistered_name_of_a_type_is_corrected() -> None:
    block = sent("anthropic", UserMessage("Look", (JPG,)))["messages"][0]["content"][0]
    assert block["source"]["media_type"] == "image/jpeg"


GEMINI = {"text": "See: "}, {"inlineData": {"mimeType": "image/png", "data": "aWc="}, "thoughtSignature": "c2ln"}
IMAGE = {
    "type": "image_generation_call",
    "id": "ig_1",
    "status": "completed",
    "output_format": "webp",
    "result": "aWc=",
}
ROUTED = {"type": "image_url", "image_url": {"url": "data:image/png;base64,aWc="}}
PRODUCED: dict[str, tuple[dict[str, Any], Media]] = {
    "google": ({"candidates": [{"content": {"parts": list(GEMINI)}, "finishReason": "STOP"}]}, PNG),
    "responses": (
        {"type": "response.completed", "response": {"id": "r", "status": "completed", "output": [IMAGE]}},
        Media("image/webp", "aWc="),
    ),
    "chat": (
        {"choices": [{"index": 0, "delta": {"content": "See", "images": [ROUTED]}, "finish_reason": "stop"}]},
        PNG,
    ),
}


SPOKEN = (
    {"choices": [{"index": 0, "delta": {"role": "assistant", "audio": {"id": "audio_1", "transcript": "Hel"}}}]},
    {"choices": [{"index": 0, "delta": {"audio": {"data": "AAE=", "transcript": "lo"}}}]},
    {"choices": [{"index": 0, "delta": {"audio": {"data": "AgM="}}}]},
    {"choices": [{"index": 0, "delta": {"audio": {"expires_at": 1}}, "finish_reason": "stop"}]},
)


async def test_a_spoken_answer_is_its_transcript_and_a_recording() -> None:
    streamed = reply_of(await played("chat", sse(*SPOKEN))).message
    assert (streamed.text, streamed.media) == ("Hello", (Media("audio/pcm", "AAECAw=="),))
    audio = {"id": "audio_1", "data": "UklGRgAA", "transcript": "Hello", "expires_at": 1}
    choice = {"index": 0, "message": {"role": "assistant", "content": None, "audio": audio}, "finish_reason": "stop"}
    whole = reply_of(await played("chat", json.dumps({"choices": [choice]}))).message
    assert (whole.text, whole.media) == ("Hello", (Media("audio/wav", "UklGRgAA"),))
    body = written("chat", UserMessage("Say hello"), streamed, UserMessage("Again"))
    assert json.loads(body.data)["messages"][1] == {"role": "assistant", "content": "Hello"}
    assert body.dropped == ("audio of an answer",)


@pytest.mark.parametrize("kind", list(PRODUCED))
async def test_images_that_a_model_produces_are_media_of_its_message(kind: str) -> None:
    event, media = PRODUCED[kind]
    message = reply_of(await played(kind, sse(event))).message
    assert message.media == (media,)
    assert all(media.data not in (part.raw or "") for part in message.parts if part.kind == "media" and media.data)


async def test_an_image_goes_back_to_its_provider_with_its_signature() -> None:
    event, _ = PRODUCED["google"]
    async with serving() as server, model_of("google", server) as model:
        server.play(sse(event))
        answer = reply_of(await events_of(model)).message
        server.play(sse(event))
        await events_of(model, request(UserMessage("Draw"), answer, UserMessage("Now red")))
    assert server.asked[1].body["contents"][1]["parts"] == list(GEMINI)


async def test_a_generated_image_goes_back_to_openai_as_its_item() -> None:
    event, _ = PRODUCED["responses"]
    async with serving() as server, model_of("responses", server) as model:
        server.play(sse(event))
        answer = reply_of(await events_of(model)).message
        server.play(sse(event))
        await events_of(model, request(UserMessage("Draw"), answer, UserMessage("Now red")))
    assert server.asked[1].body["input"][1] == IMAGE


@pytest.mark.parametrize("kind", list(MODELS))
async def test_an_image_of_another_provider_is_reported_as_left_out(kind: str) -> None:
    answer = AssistantMessage((Text("See"), MediaPart(PNG, provider="elsewhere")))
    body = written(kind, UserMessage("Draw"), answer, UserMessage("Now red"))
    assert len(body.dropped) == 1
    assert body.dropped[0].startswith("image of ")
    assert "aWc=" not in body.data.decode()


async def test_a_video_reaches_a_vendor_that_takes_it() -> None:
    async with serving() as server:
        for vendor, takes in (("openrouter", True), ("groq", False)):
            model = OpenAICompatibleModel("m", f"{server.url}/v1", vendor=vendor, api_key="k")
            server.play(sse({"choices": [{"index": 0, "delta": {"content": "a"}, "finish_reason": "stop"}]}))
            asked = request(UserMessage("Look", (MP4,)))
            if takes:
                assert not [event for event in await events_of(model, asked) if isinstance(event, Dropped)]
            else:
                with pytest.raises(UnsupportedError, match="video/mp4"):
                    await events_of(model, asked)
            await model.close()
    assert server.asked[0].body["messages"][0]["content"][0]["type"] == "video_url"


async def test_a_stored_conversation_keeps_produced_images(tmp_path: Any) -> None:
    event, media = PRODUCED["google"]
    async with serving() as server, model_of("google", server) as model:
        server.play(sse(event))
        async with await SqliteStore.open(tmp_path / "runs.db") as store:
            result = await ToolOrchestrator(
                Chat("Draw", model=model), AgentConfig(), resources=Resources(store=store)
            ).run()
        async with await SqliteStore.open(tmp_path / "runs.db") as store:
            stored = [each.message for each in await store.messages(OPERATOR, result.run_id)]
    answer = stored[-1]
    assert isinstance(answer, AssistantMessage)
    assert answer.media == (media,)
    assert json.loads(next(part for part in answer.parts if part.kind == "media").raw or "") == {
        "thoughtSignature": "c2ln"
    }


YAML = Media("application/yaml", "YTogMQ==", name="a.yaml")
FILES = {
    "a text with a charset": Media("text/plain; charset=utf-8", "aGk="),
    "an image in capitals": Media("IMAGE/PNG", "aWc="),
    "a PDF at an address": Media("application/pdf", url="https://example.org/a"),
}


@pytest.mark.parametrize("kind", ["anthropic", "responses", "google"])
@pytest.mark.parametrize("media", FILES.values(), ids=FILES)
def test_parameters_and_capitals_of_a_type_do_not_matter(kind: str, media: Media) -> None:
    body = written(kind, UserMessage("Look", (media,)))
    assert "charset" not in body.data.decode()
    assert "image/png" in body.data.decode() or "IMAGE" not in media.media_type


@pytest.mark.parametrize(
    "media",
    [
        Media("text/plain", url="https://example.org/a.txt"),
        Media(DOCX.media_type, url="https://example.org/a.docx"),
        Media("application/zip", file_id="file_1"),
    ],
    ids=lambda media: media.media_type,
)
def test_anthropic_gets_no_document_that_it_does_not_read(media: Media) -> None:
    with pytest.raises(UnsupportedError, match=media.media_type):
        written("anthropic", UserMessage("Look", (media,)))


@pytest.mark.parametrize("kind", list(MODELS))
def test_every_format_takes_every_text_file(kind: str) -> None:
    text = written(kind, UserMessage("Look", (YAML,))).data.decode()
    assert "a: 1" in text or "YTogMQ==" in text


@pytest.mark.parametrize("charset", ["utf-8", "utf-8-sig", "utf-16", "cp1252"])
@pytest.mark.parametrize("kind", ["anthropic", "chat"])
def test_a_text_file_is_read_in_its_charset(kind: str, charset: str) -> None:
    file = Media("text/csv", base64.b64encode("Grüße, 3 €".encode(charset)).decode())
    assert "Grüße, 3 €" in json.dumps(sent(kind, UserMessage("Look", (file,))), ensure_ascii=False)


def test_gemini_gets_in_a_result_what_a_result_may_contain() -> None:
    call = ToolCall("a", "look", "{}")
    result = ToolMessage("a", "look", "Here", media=(PNG, WAV, DOCX))
    asked = UserMessage("Q"), AssistantMessage((call,)), result, AssistantMessage((Text("A"),)), UserMessage("Q")
    (response, *after) = sent("google", *asked)["contents"][2]["parts"]
    assert response["functionResponse"]["parts"] == [{"inlineData": {"mimeType": "image/png", "data": "aWc="}}]
    assert after == [
        {"inlineData": {"mimeType": "audio/wav", "data": "UklGRg=="}},
        {"text": "(a document that cannot be shown here)"},
    ]
