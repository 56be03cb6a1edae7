"""Replay: answers from a recording, and errors at the first difference."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx2
import pytest

from concertino.errors import BadRequestError
from concertino.testing import CassetteError, replaying

from ..wire.wire_kit import MODELS, events_of
from .kit import ANSWER, post, put, written

URL = "https://api.example/v1/ask?version=2"


def write(file: Path, *bodies: Any, **fields: Any) -> Path:
    """A recording of these requests, answered with their numbers."""
    interactions = [
        {
            "request": {
                "method": "POST", "host": "api.openai.com", "path": "/v1/ask?version=2",
                "body": None if body is None else json.dumps(body),
            } | fields,
            "response": {"status": 200, "headers": {}, "body": str(number)},
        }
        for number, body in enumerate(bodies, 1)
    ]  # fmt: skip
    put(file, {"interactions": interactions})
    return file


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "case.json"


LONG = "the same beginning " * 20


@pytest.mark.parametrize(
    ("recorded", "asked", "shown"),
    [
        ({"a": [1, {"b": "x"}]}, {"a": [1, {"b": "y"}]}, "$.a[1].b: recorded 'x', asked 'y'"),
        ({"a": 1}, {}, "$.a: recorded 1, asked nothing"),
        ({}, {"b": None}, "$.b: recorded nothing, asked null"),
        ({"a": [1]}, {"a": [1, 2]}, "$.a[1]: recorded nothing, asked 2"),
        ({"a": True}, {"a": 1}, "$.a: recorded true, asked 1"),
        ({"a": {"b": 1}}, {"a": "b"}, "$.a: recorded {\"b\": 1}, asked 'b'"),
        ({"a": LONG + "x"}, {"a": LONG + "y"}, "beginning x', asked ...'"),
    ],
)
async def test_the_first_difference_is_shown(recorded: Any, asked: Any, shown: str, path: Path) -> None:
    with pytest.raises(CassetteError) as caught:
        async with replaying(write(path, recorded)):
            assert (await post(URL, asked)).status_code == 400
    assert shown in str(caught.value)
    assert "request 1 (POST /v1/ask) differs from recorded request 1" in str(caught.value)
    assert "CONCERTINO_RECORD_MODE=all" in str(caught.value)


@pytest.mark.parametrize(
    ("method", "url", "shown"),
    [
        ("PUT", URL, "method: recorded 'POST', asked 'PUT'"),
        ("POST", "https://api.example/v1/tell?version=2", "path: recorded '/v1/ask', asked '/v1/tell'"),
        ("POST", "https://api.example/v1/ask?version=3", "query.version: recorded '2', asked '3'"),
    ],
)
async def test_method_and_path_are_compared(method: str, url: str, shown: str, path: Path) -> None:
    with pytest.raises(CassetteError, match=shown.replace("?", "\\?")):
        async with replaying(write(path, {})), httpx2.AsyncClient() as client:
            await client.request(method, url, json={})


async def test_equivalent_requests_match(path: Path) -> None:
    async with replaying(write(path, {"a": 1, "b": "ü"}, None)), httpx2.AsyncClient() as client:
        url = "https://other.example/v1/ask?key=secret&version=2"
        assert (await client.post(url, content='{"b":"\\u00fc", "a":1.0}')).text == "1"
        assert (await client.post(URL, content="anything")).text == "2"


async def test_ignored_json_paths_are_not_compared(path: Path) -> None:
    recorded = {"day": 1, "list": [{"n": 1}, {"n": 2}], "more": {"deep": 1}}
    asked = {"day": 2, "list": [{"n": 3}, {"n": 4}], "more": {"deep": 2}}
    async with replaying(write(path, recorded), ignore=["$.day", "$.list[*].n", "$.more"]):
        assert (await post(URL, asked)).text == "1"
    with pytest.raises(CassetteError, match=r"\$\.list\[1\]\.n: recorded 2, asked 4"):
        async with replaying(path, ignore=["$.day", "$.list[0].n", "$.more"]):
            await post(URL, asked)


async def test_matching_by_content_allows_any_order(path: Path) -> None:
    async with replaying(write(path, "a", "b", "a"), match="content"):
        answers = await asyncio.gather(*(post(URL, one) for one in ("b", "a", "a")))
        assert sorted(answer.text for answer in answers[1:]) == ["1", "3"]
        assert answers[0].text == "2"
    with pytest.raises(CassetteError, match=r"\$: recorded 'a', asked 'c'"):
        async with replaying(path, match="content"):
            await post(URL, "b")
            await post(URL, "c")


async def test_matching_none_compares_nothing(path: Path) -> None:
    async with replaying(write(path, "a", "b"), match="none"):
        assert (await post("https://b.example/", "x")).text == "1"
        assert (await post("https://b.example/", "y")).text == "2"


async def test_missing_and_extra_requests_raise(path: Path) -> None:
    with pytest.raises(CassetteError, match=r"(?s)1 of 2 recorded exchanges were not requested\n  2: POST /v1/ask"):
        async with replaying(write(path, "a", "b")):
            await post(URL, "a")
    with pytest.raises(CassetteError, match=r"request 3 \(POST /v1/ask\) is not in the recording of 2 exchanges"):
        async with replaying(path):
            for body in ("a", "b", "c"):
                await post(URL, body)


async def test_the_exception_of_the_block_is_chained(path: Path) -> None:
    write(path, "a", "b")
    with pytest.raises(ZeroDivisionError):
        async with replaying(path):
            raise ZeroDivisionError
    with pytest.raises(CassetteError) as caught:
        async with replaying(path):
            await post(URL, "x")
            raise ZeroDivisionError
    assert isinstance(caught.value.__cause__, ZeroDivisionError)
    with pytest.raises(asyncio.CancelledError) as cancelled:
        async with replaying(path):
            await post(URL, "x")
            raise asyncio.CancelledError
    assert "differs from recorded request" in cancelled.value.__notes__[0]


@pytest.mark.parametrize("kind", list(MODELS))
async def test_every_adapter_reports_the_mismatch(kind: str, path: Path) -> None:
    """The request is refused, so that nothing is sent twice, with the difference in the provider's error."""
    model = MODELS[kind]("https://api.example")
    with pytest.raises(CassetteError, match="differs from recorded request") as caught:
        async with replaying(write(path, {"a": 1}, path="/elsewhere")):
            await events_of(model)
    await model.close()
    assert isinstance(caught.value.__cause__, BadRequestError)
    assert "path: recorded '/elsewhere'" in str(caught.value.__cause__)


@pytest.mark.parametrize("text", ["", "{}", '{"interactions": 1}', '{"interactions": [{}]}', '{"interactions": ["a"]}'])
async def test_an_invalid_recording_raises(text: str, path: Path) -> None:
    put(path, text)
    with pytest.raises(CassetteError, match=r"is not a recording .* CONCERTINO_RECORD_MODE"):
        async with replaying(path):
            pass


STREAM = 'data: {"a": "ü"}\n\ndata: [DONE]\r\n\r\n: the end\n\n'


@pytest.mark.parametrize(("cuts", "number"), [("events", 3), ("bytes", len(STREAM.encode())), (7, 0)])
async def test_streams_arrive_in_the_chosen_pieces(cuts: Any, number: int, path: Path) -> None:
    response = {"status": 200, "headers": {"content-type": ["text/event-stream"]}, "body": STREAM}
    asked = {"method": "GET", "host": "a.example", "path": "/", "body": None}
    put(path, {"interactions": [{"request": asked, "response": response}]})
    found = []
    for _ in range(2):
        async with (
            replaying(path, cuts=cuts),
            httpx2.AsyncClient() as client,
            client.stream("GET", "https://a.example/") as answer,
        ):
            found.append([piece async for piece in answer.aiter_raw()])
    assert b"".join(found[0]) == STREAM.encode()
    assert found[0] == found[1]
    assert len(found[0]) == number or (number == 0 and len(found[0]) > 2)


async def test_missing_api_keys_get_placeholders(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GROQ_API_KEY", raising=False)
    async with replaying(write(path, {})):
        assert os.environ["OPENAI_API_KEY"] == "replayed"
        assert "GROQ_API_KEY" not in os.environ
        await post(URL, {})
    assert "OPENAI_API_KEY" not in os.environ
    monkeypatch.setenv("OPENAI_API_KEY", "mine")
    async with replaying(path):
        assert os.environ["OPENAI_API_KEY"] == "mine"
        await post(URL, {})
    assert os.environ["OPENAI_API_KEY"] == "mine"


def test_the_test_kit_imports_httpx2_lazily_and_names_the_extra(tmp_path: Path) -> None:
    code = """
import asyncio, sys
import concertino.testing as kit
assert "httpx2" not in sys.modules
class Missing:
    def find_spec(self, name, path=None, target=None):
        if name == "httpx2":
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Missing())
async def main():
    async with kit.replaying("x.json"):
        pass
asyncio.run(main())
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=tmp_path)
    assert "MissingExtraError" in done.stderr
    assert "pip install 'concertino[web]'" in done.stderr


async def test_responses_keep_status_and_headers(path: Path) -> None:
    write(path, {})
    found = written(path)
    found["interactions"][0]["response"] = {
        "status": 429, "headers": {"retry-after": ["7"], "content-length": ["1"]}, "body": json.dumps(ANSWER),
    }  # fmt: skip
    put(path, found)
    async with replaying(path):
        answer = await post(URL, {})
    assert (answer.status_code, answer.headers["retry-after"], answer.json()) == (429, "7", ANSWER)
    assert "content-length" not in answer.headers
    assert answer.headers["content-type"] == "application/json"
