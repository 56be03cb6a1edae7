"""Streams of the protocols when the process drains, and under the limits of a scope."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import openai
import pytest

from concertino import AgentConfig, Resources, Runtime, Scope, SqliteStore
from concertino.errors import StorageError
from concertino.server import ServerLimits, create_app
from concertino.server.protocols import ag_ui, ai_sdk
from concertino.server.protocols import openai as openai_routes
from concertino.testing import Answer, ScriptedModel

from .kit import User, authenticate
from .test_serving import Pause, served

ANN = Scope("acme", "ann")
Json = dict[str, Any]
BROKEN_OFF = "the answer goes on elsewhere: connect again"
MESSAGE = {"id": "m", "role": "user", "content": "Hi", "parts": [{"type": "text", "text": "Hi"}]}
ASKED: dict[str, tuple[str, Json]] = {
    "ai_sdk": ("/api/chat", {"id": "c", "messages": [MESSAGE]}),
    "ag_ui": ("/agui", {"threadId": "c", "runId": "r", "messages": [MESSAGE]}),
    "chat": ("/v1/chat/completions", {"model": "desk", "messages": [MESSAGE], "stream": True}),
    "responses": ("/v1/responses", {"model": "desk", "input": "Hi", "stream": True}),
}
WHOLE = [(path, {name: each for name, each in body.items() if name != "stream"}) for path, body in ASKED.values()][2:]
BROKEN: dict[str, Json] = {
    "ai_sdk": {"type": "error", "errorText": BROKEN_OFF},
    "ag_ui": {"type": "RUN_ERROR", "message": BROKEN_OFF, "code": "broken_off"},
    "chat": {"error": {"message": BROKEN_OFF, "type": "server_error", "param": None, "code": "broken_off"}},
    "responses": {"type": "error", "code": "server_error", "message": BROKEN_OFF, "param": None},
}


class Desk(AgentConfig[None]):
    name = "desk"


class Lead(AgentConfig[None]):
    name = "lead"


class Failing(SqliteStore):
    """A store whose logs cannot be read once `fails` is set."""

    fails = False

    async def events(self, *arguments: Any, **options: Any) -> Any:
        if self.fails:
            raise StorageError("the disk is gone: /srv/secret")
        return await super().events(*arguments, **options)


@asynccontextmanager
async def protocols(store: SqliteStore, *script: Any, **options: Any) -> AsyncIterator[Any]:
    """Yield an application with all protocols."""
    resources = Resources(model=ScriptedModel(*script), store=store)
    async with Runtime([Desk(), Lead()], resources, sweep=0.02) as runtime:
        routes = {
            "/api/chat": ai_sdk.routes(runtime),
            "/agui": ag_ui.routes(runtime),
            "/v1": openai_routes.routes(runtime),
        }
        yield create_app(runtime, authenticate, routes=routes, **options)


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Failing]:
    async with await Failing.open(tmp_path / "a.db") as opened:
        yield opened  # type: ignore[misc]


def frames(text: str) -> list[Any]:
    """Return what the frames of a stream contain."""
    found = [each.split("data: ", 1)[1] for each in text.split("\n\n") if "data: " in each]
    return [each if each == "[DONE]" else json.loads(each) for each in found]


@pytest.mark.skipif(sys.platform == "win32", reason="needs POSIX signals")
@pytest.mark.parametrize("protocol", ASKED)
async def test_a_stream_that_a_drain_breaks_off_says_so_and_goes_on_elsewhere(
    protocol: str, store: Failing, tmp_path: Path
) -> None:
    pause = Pause()
    path, body = ASKED[protocol]
    key = {"idempotency-key": "k"}
    async with protocols(store, Answer(text="One two.", midway=pause)) as app, served(app) as (client, task):
        async with client.stream("POST", path, json=body, headers=key) as answer:
            assert answer.status_code == 200
            await pause.begun.wait()
            signal.raise_signal(signal.SIGTERM)
            text = "".join([piece async for piece in answer.aiter_text()])
        await task
    got = frames(text)
    assert (got[-1] == "[DONE]") is (protocol in ("ai_sdk", "chat"))
    (last,) = [each for each in got[-2:] if each != "[DONE]"][-1:]
    assert {name: last[name] for name in BROKEN[protocol]} == BROKEN[protocol]

    async with protocols(store, "One two.") as other:
        ann = User(other)
        if protocol == "ai_sdk":
            again = await ann("GET", "/api/chat/c/stream")
        else:
            again = await ann("POST", path, json=body, headers=key)
        assert "One two." in text_of(frames(again.text))
        assert len(await store.runs(ANN, roots=True)) == 1, "it is the same run"


def text_of(got: list[Any]) -> str:
    """Return the text of an answer in any protocol; what came before a void mark counts, too."""
    texts = []
    for each in got:
        if isinstance(each, dict):
            choices = each.get("choices") or [{}]
            texts.append(each.get("delta") or choices[0].get("delta", {}).get("content", ""))
    return "".join(text for text in texts if isinstance(text, str))


@pytest.mark.skipif(sys.platform == "win32", reason="needs POSIX signals")
@pytest.mark.parametrize(("path", "body"), WHOLE)
async def test_an_answer_without_a_stream_may_be_asked_for_again(path: str, body: Json, store: Failing) -> None:
    for headers, retry in (({}, "false"), ({"idempotency-key": "k"}, "true")):
        pause = Pause()
        async with protocols(store, Answer(text="One two.", midway=pause)) as app, served(app) as (client, task):
            asked = asyncio.create_task(client.post(path, json=body, headers=headers))
            await pause.begun.wait()
            signal.raise_signal(signal.SIGTERM)
            answer = await asked
            await task
        assert (answer.status_code, answer.headers["retry-after"]) == (503, "5")
        assert answer.headers["x-should-retry"] == retry
        assert answer.json() == BROKEN["chat"]


@pytest.mark.parametrize("protocol", ASKED)
async def test_a_stream_that_a_failing_store_breaks_off_says_so(protocol: str, store: Failing) -> None:
    async def fails() -> None:
        store.fails = True

    path, body = ASKED[protocol]
    async with protocols(store, Answer(text="One two.", before=fails)) as app:
        app.state.server.runtime._log._writers = Nothing()
        text = (await User(app)("POST", path, json=body)).text
    (last,) = [each for each in frames(text) if each != "[DONE]"][-1:]
    assert {name: last[name] for name in BROKEN[protocol]} == BROKEN[protocol]
    assert "secret" not in text


class Nothing(dict[str, Any]):
    """Writers that no reader finds, so that all events come from the store."""

    def get(self, key: str, default: Any = None) -> Any:
        return None


@pytest.mark.parametrize(
    "protocol", ["responses", *(pytest.param(each, marks=pytest.mark.slow) for each in [*ASKED][:3])]
)
async def test_the_streams_of_a_scope_are_limited_in_all_protocols(protocol: str, store: Failing) -> None:
    pause = Pause()
    limits = ServerLimits(streams=1)
    first = Answer(text="One two.", midway=pause)
    async with protocols(store, first, "Two.", "Three.", limits=limits) as app, served(app) as (client, task):
        async with client.stream("POST", "/agui", json=ASKED["ag_ui"][1] | {"threadId": "t"}) as answer:
            await pause.begun.wait()
            runs = await store.runs(ANN)
            path, body = ASKED[protocol]
            for sent in (body, {name: each for name, each in body.items() if name != "stream"}):
                refused = await client.post(path, json=sent)
                assert (refused.status_code, refused.headers["retry-after"]) == (429, "1")
            assert await store.runs(ANN) == runs, "nothing was started"
            assert (await client.post(path, json=body, headers={"x-session": "acme/bob"})).status_code == 200
            pause.free.set()
            assert "RUN_FINISHED" in "".join([piece async for piece in answer.aiter_text()])
        assert (await client.post(path, json=body)).status_code == 200
        signal.raise_signal(signal.SIGTERM)
        await task


async def test_the_clients_of_openai_raise_for_a_broken_stream(store: Failing) -> None:
    pause = Pause()
    async with protocols(store, Answer(text="One two.", midway=pause)) as app, served(app) as (client, task):
        async with openai.AsyncOpenAI(
            base_url=f"{client.base_url}/v1", api_key="x", default_headers={"x-session": "acme/ann"}, max_retries=0
        ) as sdk:
            chat = await sdk.chat.completions.create(
                model="desk", messages=[{"role": "user", "content": "Hi"}], stream=True
            )
            await pause.begun.wait()
            signal.raise_signal(signal.SIGTERM)
            with pytest.raises(openai.APIError, match="goes on elsewhere"):
                async for _ in chat:
                    pass
        await task


async def test_the_protocols_have_the_agents_of_the_application(store: Failing) -> None:
    async with protocols(store, "Hi.", "Ho.", agents=["lead"]) as app:
        ann = User(app)
        assert [each["id"] for each in (await ann("GET", "/v1/models"))["data"]] == ["lead", "tasks"]
        path, body = ASKED["chat"]
        assert (await ann("POST", path, 404, json=body))["error"]["code"] == "model_not_found"
        for agent, status in (("desk", 404), ("other", 404), ("lead", 200)):
            await ann("POST", f"/agui/{agent}", status, json=ASKED["ag_ui"][1])
        await ann("POST", "/api/chat", json=ASKED["ai_sdk"][1] | {"id": "d"})
        assert {each.agent for each in await app.state.server.runtime.conversations(ANN)} == {"lead"}
    async with protocols(store, agents=[]) as app:
        for path, body in ASKED.values():
            await User(app)("POST", path, 404, json=body)


async def test_bodies_that_are_not_stated_to_be_json_are_refused(store: Failing) -> None:
    async with protocols(store) as app:
        for path, body in ASKED.values():
            sent = {"content": json.dumps(body), "headers": {"content-type": "text/plain"}}
            await User(app)("POST", path, 415, **sent)
