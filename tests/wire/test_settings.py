"""Settings: each reaches the request, or is refused before anything is sent."""

from __future__ import annotations

from typing import Any

import pytest

from concertino.errors import BadRequestError, UnsupportedError
from concertino.providers import Logprob
from concertino.providers.openai import OpenAICompatibleModel

from .wire_kit import MODELS, events_of, model_of, reply_of, request, serving, sse

REFUSED: list[tuple[str, dict[str, Any], str]] = [
    ("chat", {"n": 2}, "one answer"),
    ("google", {"generationConfig": {"candidateCount": 2}}, "one answer"),
    ("google", {"generation_config": {"candidate_count": 2}}, "one answer"),
    ("responses", {"background": True}, "not polled"),
    *((kind, {"stream": False}, "streams=") for kind in MODELS),
    *((kind, {"extra_headers": {"x": "y"}}, "headers=") for kind in MODELS),
    *((kind, {"headers": {"x": "y"}}, "headers=") for kind in MODELS),
    *((kind, {"timeout": 3}, "timeout=") for kind in MODELS),
    ("anthropic", {"betas": ["a"]}, "anthropic-beta"),
]


@pytest.mark.parametrize(("kind", "extra", "remedy"), REFUSED)
async def test_what_no_adapter_can_honor_is_refused_before_sending(
    kind: str, extra: dict[str, Any], remedy: str
) -> None:
    async with serving() as server, model_of(kind, server) as model:
        with pytest.raises(UnsupportedError, match=remedy) as caught:
            await events_of(model, request(extra=extra))
        assert server.asked == []
    assert caught.value.sent is False


LACKING = [
    *(("anthropic", setting) for setting in ({"seed": 1}, {"frequency_penalty": 0.5}, {"logprobs": 1})),
    *(("responses", setting) for setting in ({"seed": 1}, {"presence_penalty": 0.5}, {"stop": ("x",)})),
]


@pytest.mark.parametrize(("kind", "setting"), LACKING)
async def test_a_setting_that_a_format_lacks_is_refused(kind: str, setting: dict[str, Any]) -> None:
    async with serving() as server, model_of(kind, server) as model:
        with pytest.raises(UnsupportedError) as caught:
            await events_of(model, request(**setting))
        assert server.asked == []
    assert caught.value.part == next(iter(setting))


async def test_a_vendor_has_its_own_names_and_gaps() -> None:
    async with serving() as server:
        mistral = OpenAICompatibleModel("m", f"{server.url}/v1", vendor="mistral", api_key="k")
        server.play(sse({"choices": [{"index": 0, "delta": {"content": "a"}, "finish_reason": "stop"}]}))
        await events_of(mistral, request(seed=7, top_p=0.5))
        with pytest.raises(UnsupportedError, match="service_tier"):
            await events_of(mistral, request(service_tier="flex"))
        await mistral.close()
    (asked,) = server.asked
    assert (asked.body["random_seed"], asked.body["top_p"], "seed" in asked.body) == (7, 0.5, False)


@pytest.mark.parametrize("kind", list(MODELS))
async def test_headers_of_a_request_are_sent_as_headers(kind: str) -> None:
    async with serving() as server, model_of(kind, server) as model:
        server.play("{}", status=400)
        with pytest.raises(BadRequestError):
            await events_of(model, request(headers={"x-trace": "t-1"}))
    (asked,) = server.asked
    assert asked.headers["x-trace"] == "t-1"
    assert "x-trace" not in str(asked.body)


LIKELY = {
    "token": "ok",
    "logprob": -0.1,
    "top_logprobs": [{"token": "ok", "logprob": -0.1}, {"token": "no", "logprob": -2}],
}
EXPECTED = (Logprob("ok", -0.1, (("ok", -0.1), ("no", -2))),)
TEXT = {"type": "output_text", "text": "ok", "annotations": [], "logprobs": [LIKELY]}
CHOSEN = {
    "chosenCandidates": [{"token": "ok", "logProbability": -0.1}],
    "topCandidates": [{"candidates": [{"token": "ok", "logProbability": -0.1}, {"token": "no", "logProbability": -2}]}],
}
ANSWERS: dict[str, dict[str, Any]] = {
    "chat": {
        "choices": [
            {"index": 0, "delta": {"content": "ok"}, "logprobs": {"content": [LIKELY]}, "finish_reason": "stop"}
        ]
    },
    "responses": {
        "type": "response.completed",
        "response": {"id": "r", "status": "completed", "output": [{"type": "message", "content": [TEXT]}]},
    },
    "google": {
        "candidates": [{"content": {"parts": [{"text": "ok"}]}, "logprobsResult": CHOSEN, "finishReason": "STOP"}]
    },
}


@pytest.mark.parametrize("kind", list(ANSWERS))
async def test_probabilities_are_returned(kind: str) -> None:
    async with serving() as server, model_of(kind, server) as model:
        server.play(sse(ANSWERS[kind]))
        assert reply_of(await events_of(model, request(model="gpt-4.1", logprobs=2))).logprobs == EXPECTED
