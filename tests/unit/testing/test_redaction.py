"""Redaction removes secrets from recordings, and a secret that it missed prevents the recording."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from concertino.errors import BadRequestError
from concertino.messages import UserMessage
from concertino.testing import CassetteError, recording, replaying
from concertino.testing.case import Headers, as_json, read_case
from concertino.testing.redaction import LEFT_OUT, Redaction

from ...testing.kit import ANSWER, names_in, play, post, written
from ...wire.wire_kit import MODELS, events_of, request, serving, sse

SECRET = "sesame-4711-open"
LONG = "a1B2c3D4e5" * 4
BEGIN = "-----BEGIN RSA PRIVATE KEY-----"


def body_of(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("authorization", f"Bearer {SECRET}"),
        ("authorization", "Basic " + base64.b64encode(f"ann:{SECRET}".encode()).decode()),
        ("x-api-key", SECRET),
        ("api-key", SECRET),
        ("x-goog-api-key", SECRET),
        ("x-amz-security-token", SECRET),
        ("authorization", f"AWS4-HMAC-SHA256 Credential={SECRET}/20261101/eu/bedrock/aws4_request, Signature=01234567"),
        ("authorization", f"AWS4-HMAC-SHA256 Credential=ABC/20261101/eu, SignedHeaders=host, Signature={SECRET}"),
        ("cookie", f"a=b; session={SECRET}"),
        ("set-cookie", f"session={SECRET}; Path=/; HttpOnly"),
        ("openai-organization", SECRET),
        ("openai-project", SECRET),
        ("anthropic-organization-id", SECRET),
    ],
)  # fmt: skip
def test_values_of_removed_headers_are_searched_for(name: str, value: str) -> None:
    redaction = Redaction()
    assert redaction.headers([(name, value), ("Content-Type", "a/b")]) == [("content-type", "a/b")]
    redaction.check({"body": "nothing"})
    for found in (
        {"body": f"it is {SECRET}!"},
        {"why": [SECRET]},
        {"body_base64": base64.b64encode(b"\xff" + SECRET.encode()).decode()},
    ):
        with pytest.raises(CassetteError, match=f"the header {name}") as caught:
            redaction.check(found)
        assert SECRET not in str(caught.value)


def test_only_known_headers_are_kept() -> None:
    kept: Headers = [
        ("content-type", "application/json"),
        ("anthropic-version", "2023-06-01"),
        ("x-ratelimit-remaining-tokens", "149999999"),
        ("anthropic-ratelimit-tokens-limit", "80000"),
        ("retry-after", "3"),
        ("request-id", "req_1"),
    ]
    gone: Headers = [("host", "a.example"), ("user-agent", "someone"), ("x-unknown", "1"), ("x-stainless-os", "Linux")]
    redaction = Redaction()
    assert redaction.headers(kept + gone) == kept
    redaction.check({"body": "someone uses Linux at a.example"})


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({"api_key": SECRET}, {"api_key": LEFT_OUT}),
        ({"a": [{"Authorization": f"Bearer {SECRET}"}]}, {"a": [{"Authorization": LEFT_OUT}]}),
        ({"clientSecret": 'with " and \\ in it'}, {"clientSecret": LEFT_OUT}),
        ({"authorization_token": "ü"}, {"authorization_token": LEFT_OUT}),
        ({"aws_secret_access_key": "x", "db-password": ""}, {"aws_secret_access_key": LEFT_OUT, "db-password": ""}),
        ({"args": json.dumps({"password": "p", "b": 1})}, {"args": json.dumps({"password": LEFT_OUT, "b": 1})}),
        ({"text": "your key sk-abc123DEF456 is wrong"}, {"text": f"your key {LEFT_OUT} is wrong"}),
        ({"text": "Incorrect API key: sk-abc*****wxyz."}, {"text": f"Incorrect API key: {LEFT_OUT}."}),
        ({"text": "limit in organization org-Ab12Cd34Ef"}, {"text": f"limit in organization {LEFT_OUT}"}),
        (
            {"text": "your organization (6f1c0d2e-1111-2222-3333-444455556666)"},
            {"text": f"your organization ({LEFT_OUT})"},
        ),
        ({"m": "projects/mine-1/locations/eu/models/x"}, {"m": f"projects/{LEFT_OUT}/locations/eu/models/x"}),
        ({"m": "arn:aws:bedrock:eu-1:123456789012:x/y"}, {"m": f"arn:aws:bedrock:eu-1:{LEFT_OUT}:x/y"}),
        ({"text": f"say {SECRET} twice, {SECRET}"}, {"text": f"say {LEFT_OUT} twice, {LEFT_OUT}"}),
        ({"openaiApiKey": "x", "dbPassword": "p", "maxIdTokens": "7"},
         {"openaiApiKey": LEFT_OUT, "dbPassword": LEFT_OUT, "maxIdTokens": "7"}),
        ({"text": f"it is\nghp_{LONG} or github_pat_{LONG}_{LONG}"}, {"text": f"it is\n{LEFT_OUT} or {LEFT_OUT}"}),
        ({"a": [f"hf_{LONG}", "xoxb-12345-abcdef", "xoxp-123456-abc", "AKIAIOSFODNN7EXAMPLE"]}, {"a": [LEFT_OUT] * 4}),
        ({"pem": f"My key:\n{BEGIN}\nMIIEvQ+/{LONG}\n{LONG}==\n-----END RSA PRIVATE KEY-----\nKeep it."},
         {"pem": f"My key:\n{LEFT_OUT}\nKeep it."}),
        ({"pem": f"{BEGIN}\nMIIEvQ+/{LONG}\n"}, {"pem": LEFT_OUT}),
        ({"args": json.dumps({"pem": f"{BEGIN}\n{LONG}", "b": 1})}, {"args": json.dumps({"pem": LEFT_OUT, "b": 1})}),
        ({"url": "https://ann:p%40ss@a.example:8/x?a=1&token=t&key=k#top"},
         {"url": f"https://ann:{LEFT_OUT}@a.example:8/x?a=1&token={LEFT_OUT}&key={LEFT_OUT}#top"}),
        ({"text": "psql postgres://ann:p@ss@db/x, then"}, {"text": f"psql postgres://ann:{LEFT_OUT}@db/x, then"}),
        ({"tools": [{"type": "mcp", "headers": {"X-Auth": SECRET[:-1], "X-Trace": "{1}", "X-Session": "s"}}]},
         {"tools": [{"type": "mcp", "headers": {"X-Auth": LEFT_OUT, "X-Trace": "{1}", "X-Session": LEFT_OUT}}]}),
        ({"args": json.dumps({"extra_headers": {"X-Auth": "a"}, "X-Auth": "b"})},
         {"args": json.dumps({"extra_headers": {"X-Auth": LEFT_OUT}, "X-Auth": "b"})}),
    ],
)  # fmt: skip
def test_secrets_in_bodies_are_redacted(before: Any, after: Any) -> None:
    assert json.loads(Redaction([SECRET]).body(body_of(before))) == after


def test_a_parameter_after_an_escaped_ampersand_is_redacted() -> None:
    body = rb'{"url": "https://a.example/x?a=1\u0026sig=abc\u0026b=2"}'
    assert json.loads(Redaction().body(body)) == {"url": f"https://a.example/x?a=1&sig={LEFT_OUT}&b=2"}


def test_a_header_in_a_body_is_searched_for() -> None:
    redaction = Redaction()
    redaction.body(body_of({"headers": {"X-Auth": SECRET}}))
    with pytest.raises(CassetteError, match="a field X-Auth"):
        redaction.check({"why": SECRET})


def test_large_bodies_are_searched_in_linear_time() -> None:
    letters = "aB3_-x" * 300_000
    body = body_of({"data": letters, "text": "://" * 9_000, "more": '"headers": {"a": ' * 9_000, "pem": BEGIN * 9_000})
    assert len(Redaction().body(body)) > len(letters)  # the hang guard ends a quadratic search


@pytest.mark.parametrize(
    "body",
    [
        {"max_tokens": 100, "token": "Hel", "logprobs": [{"token": "lo"}], "keys": ["a"], "key": "value"},
        {"properties": {"password": {"type": "string"}, "api_key": {"type": "string"}}, "required": ["password"]},
        {"text": "bearer certificates, the task-force, a sk-ateboarding org-anization and its projects/plans"},
        {"encrypted": "gAAAAsk-abc123def456ghi789_sk-abc123def456ghi789", "signature": "Eqsk-1234567890abcdef=="},
        {"password": "", "id": "call_12345678", "tool_call_id": "toolu_01A09q90qw90lq917835lq9"},
        {"token_count": 7, "tokens": "7", "maxTokens": "7", "cache_key": "a", "promptCacheKey": "a", "validToken": "a"},
        {"headers": {"type": "object", "description": "The keys and tokens of a table."}, "X-Auth": "a"},
        {"headers": {"content-type": "a/b", "x-ratelimit-remaining-tokens": "149999", "retry-after": "3"}},
        {"text": "http://a.example:80/b?q=c&tokens=d, mail ann@a.example, see a://b and a:b@c. hf_model_of_somebody"},
        {"text": "a PEM file begins with BEGIN PRIVATE KEY, ghp_ and hf_ are prefixes, as is xoxb-"},
    ],
)
def test_ordinary_text_is_kept(body: Any) -> None:
    redaction = Redaction()
    assert redaction.body(body_of(body)) == body_of(body)
    redaction.check({"body": body_of(body).decode()})


@pytest.mark.parametrize(
    ("path", "kept"),
    [
        (f"/v1beta/models/m:go?alt=sse&key={SECRET}", f"/v1beta/models/m:go?alt=sse&key={LEFT_OUT}"),
        (f"/a?X-Amz-Signature={SECRET}&api-version=2", f"/a?X-Amz-Signature={LEFT_OUT}&api-version=2"),
        ("/v1/projects/mine/locations/eu/x", f"/v1/projects/{LEFT_OUT}/locations/eu/x"),
        ("/model/arn%3Aaws%3Abedrock%3Aeu%3A123456789012%3Aprofile%2Fx/invoke",
         f"/model/arn%3Aaws%3Abedrock%3Aeu%3A{LEFT_OUT}%3Aprofile%2Fx/invoke"),
        ("/v1/messages?beta=true", "/v1/messages?beta=true"),
        ("/v1/messages", "/v1/messages"),
    ],
)  # fmt: skip
def test_secrets_in_paths_are_redacted(path: str, kept: str) -> None:
    redaction = Redaction()
    assert redaction.path(path) == kept
    if SECRET in path:
        with pytest.raises(CassetteError, match="the parameter"):
            redaction.check({"body": SECRET})


def test_a_redirect_is_kept_without_its_key() -> None:
    headers: Headers = [("Location", f"https://a.example/b?key={SECRET}&c=1")]
    assert Redaction().headers(headers) == [("location", f"https://a.example/b?key={LEFT_OUT}&c=1")]


def test_customer_names_in_hosts_are_redacted() -> None:
    assert Redaction().host("ours.openai.azure.com") == f"{LEFT_OUT}.openai.azure.com"
    assert Redaction().host("adb-1389.1.azuredatabricks.net") == f"{LEFT_OUT}.azuredatabricks.net"
    assert Redaction().host("api.openai.com") == "api.openai.com"


@given(st.text('abcXYZ"\\\n/+ üß漢😀', min_size=6), st.text("0123 "), st.text("0123 "), st.booleans())
def test_a_named_secret_is_redacted_in_every_form(secret: str, before: str, after: str, ascii_only: bool) -> None:
    redaction = Redaction([secret])
    before, after = f"1{before}2", f"3{after}4"
    for form in (secret, quote(secret, safe=""), base64.b64encode(secret.encode()).decode()):
        kept = redaction.body(json.dumps({"0": before + form + after}, ensure_ascii=ascii_only).encode())
        assert json.loads(kept) == {"0": before + LEFT_OUT + after}


def test_invalid_secrets_raise() -> None:
    with pytest.raises(CassetteError, match="shorter than four"):
        Redaction(["abc"])
    with pytest.raises(CassetteError, match="a list of texts"):
        Redaction("a whole text")


async def test_a_leak_prevents_the_recording(tmp_path: Path) -> None:
    path = tmp_path / "case.json"
    async with serving() as server:
        play(server, ANSWER | {"echo": f"you are {SECRET}"})
        with pytest.raises(CassetteError, match=r"the header authorization .* \$\.interactions\[0\]\.response\.body"):
            async with recording(path):
                await post(server.url, {}, headers={"authorization": f"Bearer {SECRET}"})
    assert names_in(tmp_path) == []


async def test_a_leak_across_the_pieces_of_a_stream_prevents_the_recording(tmp_path: Path) -> None:
    path = tmp_path / "case.json"
    pieces = [{"choices": [{"index": 0, "delta": {"content": letter}}]} for letter in SECRET]
    async with serving() as server:
        for secrets in ([], [SECRET]):
            server.play(sse(*pieces))
            with pytest.raises(CassetteError, match="the recording was not written"):
                async with recording(path, secrets=secrets):
                    await post(server.url, {}, headers={"authorization": f"Bearer {SECRET}"})
    assert not path.exists()


async def test_a_leak_from_another_exchange_prevents_the_recording(tmp_path: Path) -> None:
    async with serving() as server:
        play(server, ANSWER)
        play(server, ANSWER, set_cookie=f"id={SECRET}; Secure")
        with pytest.raises(CassetteError, match=r"set-cookie .* \$\.interactions\[0\]\.request\.body"):
            async with recording(tmp_path / "case.json"):
                await post(server.url, {"text": SECRET})
                await post(server.url, {})


async def test_a_leak_is_chained_to_the_failure_of_the_block(tmp_path: Path) -> None:
    async with serving() as server:
        play(server, ANSWER)
        with pytest.raises(CassetteError, match="was not written") as caught:
            async with recording(tmp_path / "case.json"):
                await post(server.url, {}, headers={"x-api-key": SECRET})
                raise ValueError(f"with {SECRET} in it")
    assert isinstance(caught.value.__cause__, ValueError)
    assert not (tmp_path / "case.json").exists()


@pytest.mark.parametrize("kind", list(MODELS))
async def test_a_redacted_recording_is_replayed(kind: str, tmp_path: Path) -> None:
    """Redacted text matches any text in the replay."""
    path = tmp_path / "case.json"
    async with serving() as server:
        model = MODELS[kind](server.url)
        error = {"error": {"message": f"no, {SECRET}", "type": "invalid_request_error"}}
        server.play(json.dumps(error), status=400, headers={"content-type": "application/json"})
        async with recording(path, secrets=[SECRET]):
            with pytest.raises(BadRequestError, match=SECRET):
                await events_of(model, request(UserMessage(f"I am {SECRET}.")))
        await model.close()
    assert SECRET not in path.read_text()
    assert f"I am {LEFT_OUT}." in written(path)["interactions"][0]["request"]["body"]
    model = MODELS[kind]("https://api.example")
    async with replaying(path):
        with pytest.raises(BadRequestError, match=f"no, {LEFT_OUT}"):
            await events_of(model, request(UserMessage("I am somebody else.")))
    with pytest.raises(CassetteError, match=r"recorded 'I am --left-out--\.', asked 'You are somebody else\.'"):
        async with replaying(path):
            await events_of(model, request(UserMessage("You are somebody else.")))
    await model.close()


async def test_redacted_text_matches_any_text_in_a_replay(tmp_path: Path) -> None:
    def tool(secret: str) -> Any:
        url = f"https://ann:{secret}@tools.example/mcp?token={secret}&v=2"
        return {"tools": [{"type": "mcp", "server_url": url, "headers": {"X-Auth": secret}}], "openaiApiKey": secret}

    path = tmp_path / "case.json"
    async with serving() as server:
        play(server, ANSWER)
        async with recording(path):
            await post(server.url, tool(SECRET))
    assert SECRET not in path.read_text()
    async with replaying(path):
        await post("https://api.example", tool("another one"))
    changed = tool(SECRET)
    changed["tools"][0]["server_url"] += "1"
    with pytest.raises(CassetteError, match="server_url"):
        async with replaying(path):
            await post("https://api.example", changed)


SECRET_ARGUMENTS = {
    "async-stream-yaml-75436c2d.json", "async-yaml-40676c2b.json", "sync-yaml-b851fe45.json",
    "google-gemini-2-5-flash-yaml-07b0a58a.json",
}  # fmt: skip
"""Cases whose tools take a password as an argument."""


def test_recorded_traffic_has_no_false_positives(data: Path) -> None:
    """But ids of projects in paths and errors: these recordings had been cleaned before."""
    count = 0
    for path in sorted((data / "provider-traffic").glob("*/*/*.json")):
        redaction, case = Redaction(), read_case(path)
        for one in case.interactions:
            for part in (one.request, one.response):
                assert part is not None
                part.headers = redaction.headers(part.headers)
                kept = redaction.body(part.body or b"").replace(f"projects/{LEFT_OUT}/locations".encode(), b"")
                assert LEFT_OUT.encode() not in kept or path.name in SECRET_ARGUMENTS, path.name
                count += 1
        if path.name not in SECRET_ARGUMENTS:
            redaction.check(as_json(case, path.stem))
    assert count > 3000
