"""Each SDK's exceptions are all in its adapter's table."""

from __future__ import annotations

import importlib
import inspect
import re
from pathlib import Path
from types import ModuleType

import anthropic
import google.genai
import httpx2
import openai
import pytest
from google.genai import errors as google_errors

from concertino.errors import (
    AuthenticationError,
    BadRequestError,
    ContextTooLongError,
    PermissionDeniedError,
    ProviderConnectionError,
    ProviderError,
    ProviderTimeoutError,
    RateLimitError,
)
from concertino.providers import errors as failures
from concertino.providers import errors as kinds
from concertino.providers.anthropic import errors as of_anthropic
from concertino.providers.google import errors as of_google
from concertino.providers.openai import errors as of_openai


@pytest.mark.parametrize(
    ("sdk", "table"),
    [(anthropic, of_anthropic.TABLE), (openai, of_openai.TABLE), (google_errors, of_google.TABLE)],
)
def test_every_exported_exception_is_in_the_table(
    sdk: ModuleType, table: dict[type[Exception], type[ProviderError]]
) -> None:
    exported = {
        value
        for name, value in inspect.getmembers(sdk, inspect.isclass)
        if issubclass(value, Exception) and not issubclass(value, Warning) and not name.startswith("_")
    }
    assert exported - table.keys() == set()
    assert table.keys() - exported == set()


OUTSIDE = {
    "anthropic": {
        "_response.MissingStreamClassError": "of a door that we do not use",
        "lib.tools.": "of the SDK's own tools, which we do not run",
        "lib.credentials._secrets._NonObjectPayloadError": "caught in the SDK",
    },
    "openai": {
        "InvalidWebhookSignatureError": "of webhooks",
        "_legacy_response.MissingStreamClassError": "of a door that we do not use",
        "_response.MissingStreamClassError": "of a door that we do not use",
        "auth._x509._TransientTokenExchangeError": "caught in the SDK",
        "lib.browser.": "of the SDK's own tools, which we do not run",
        "lib.computer.": "of the SDK's own tools, which we do not run",
        "lib.decisions_tool_runner.": "of the SDK's own loop, which we do not run",
        "lib.responses_tool_runner.": "of the SDK's own loop, which we do not run",
        "lib.responses_websocket.": "of another transport",
    },
    "google.genai": {
        "_api_client.EphemeralTokenAPIKeyError": "raised where a client is made, before any request",
        "_common.ExperimentalWarning": "a warning",
        "_gaos.": "of the Interactions API",
        "_interactions.": "of the Interactions API",
    },
}
"""What an SDK defines and no request of ours can raise, by the beginning of its name, and why."""


@pytest.mark.parametrize(("sdk", "errors"), [(anthropic, of_anthropic), (openai, of_openai), (google.genai, of_google)])
def test_every_exception_that_an_sdk_defines_anywhere_is_translated_or_cannot_arise(
    sdk: ModuleType, errors: ModuleType
) -> None:
    reasons = OUTSIDE[sdk.__name__]
    defined = exceptions_in(sdk)
    assert len(defined) > 20
    for kind in defined:
        name = f"{kind.__module__}.{kind.__name__}".removeprefix(f"{sdk.__name__}.")
        prefix = next((prefix for prefix in reasons if name.startswith(prefix)), None)
        if prefix is not None:
            continue
        assert issubclass(kind, errors.FAILURES), (
            f"{name} would get past us: name it in the table, or here with a reason"
        )


def exceptions_in(sdk: ModuleType) -> set[type[BaseException]]:
    """All exception classes of a package, found in its source and imported."""
    found: set[type[BaseException]] = set()
    for path in (place for root in sdk.__path__ for place in Path(root).rglob("*.py")):
        parts = path.relative_to(sdk.__path__[0]).with_suffix("").parts
        if {"types", "tests", "resources", "cli"} & set(parts) or not re.search(
            r"class \w+.*(Error|Exception|Warning)\b", path.read_text()
        ):
            continue
        try:
            module = importlib.import_module(".".join((sdk.__name__, *parts)).removesuffix(".__init__"))
        except Exception:  # noqa: BLE001 - an extra of the SDK that is not installed
            continue
        members = inspect.getmembers(module, inspect.isclass)
        found |= {v for _, v in members if issubclass(v, BaseException) and v.__module__.startswith(sdk.__name__)}
    return found


def test_failures_of_signing_are_translated() -> None:
    import google.auth.exceptions as of_auth

    names = [
        name for name, kind in vars(of_auth).items() if inspect.isclass(kind) and kind.__module__ == of_auth.__name__
    ]
    assert len(names) > 5
    for name in names:
        error = getattr(of_auth, name)("no")
        assert isinstance(error, kinds.signing_failures())
        expected = ProviderConnectionError if name in ("TransportError", "TimeoutError") else AuthenticationError
        assert type(kinds.signing_failure(error, "google")) is expected


@pytest.mark.parametrize("begun", [False, True])
def test_every_failure_of_the_http_library_is_translated(begun: bool) -> None:
    exported = [
        value
        for _, value in inspect.getmembers(httpx2, inspect.isclass)
        if issubclass(value, failures.HTTP_FAILURES) and value is not httpx2.HTTPStatusError
    ]
    assert len(exported) > 10
    for kind in exported:
        error = kind.__new__(kind)
        found = failures.http_failure(error, "here", begun=begun)
        assert found.provider == "here"
        assert isinstance(found, ProviderTimeoutError) is issubclass(kind, httpx2.TimeoutException)


def test_a_client_without_a_free_connection_does_not_blame_the_provider() -> None:
    found = of_google.translate(httpx2.PoolTimeout(""), begun=False)
    assert isinstance(found, ProviderTimeoutError)
    assert (found.limit, "silent" in str(found)) == ("connect", False)
    assert "all connections of this client are in use" in str(found)


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({}, None),
        ({"retry-after": "12"}, 12.0),
        ({"retry-after": "-1"}, 0.0),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT"}, 0.0),
        ({"retry-after-ms": "250", "retry-after": "9"}, 0.25),
        ({"retry-after-ms": "x", "retry-after": "9"}, 9.0),
        ({"retry-after-ms": "-500"}, 0.0),
        ({"retry-after-ms": "nan", "retry-after": "9"}, 9.0),
        ({"retry-after-ms": "nan"}, None),
        ({"retry-after": "inf"}, None),
        ({"retry-after": "-inf"}, None),
        ({"retry-after": ""}, None),
    ],
)
def test_retry_after(headers: dict[str, str], expected: float | None) -> None:
    assert failures.retry_after(headers) == expected


TOO_LONG = [
    "prompt is too long: 213462 tokens > 200000 maximum",
    "This model's maximum context length is 128000 tokens.",
    "the request exceeds the available context size, try increasing it",
    "You passed 9000 input tokens and requested 100 output tokens. However, the model's context length is only 8192",
    "The decoder prompt (length 5000) is longer than the maximum model length of 4096.",
    "The input (9000 tokens) is longer than the model's context length (8192 tokens).",
    "This model's maximum prompt length is 131072 but the request contains 537812 tokens.",
    "Input is too long for requested model.",
    "the input token count is 2157013 but model only supports up to 1048576",
    "Invalid request: Your request exceeded model token limit: 262144",
    "`inputs` tokens + `max_new_tokens` must be <= 8193. Given: 9000 `inputs` tokens and 100 `max_new_tokens`",
    "inputs tokens + max_new_tokens must be <= 8193",
    "The number of tokens to keep from the initial prompt is greater than the context length.",
    "Prompt contains 65673 tokens and 0 draft tokens, too large for model with 32768 maximum context length",
    "too many tokens: total number of tokens in the prompt cannot exceed 4081",
]
NOT_TOO_LONG = [
    "Request too large for gpt-4o on tokens per min (TPM): Limit 30000, Requested 90000.",
    "Too many tokens, please wait before trying again.",
    "Too many tokens per minute",
    "Invalid 'messages[0].content': string too long. Expected a string with maximum length 10485760",
    "tools.0.name: String should have at most 64 characters",
    "max_tokens: 90000 > 64000, which is the maximum allowed number of output tokens",
]


def test_a_refusal_of_what_is_too_long_is_known_by_its_words() -> None:
    found = {words: type(kinds.make(BadRequestError, words, provider="x")) for words in (*TOO_LONG, *NOT_TOO_LONG)}
    assert found == dict.fromkeys(TOO_LONG, ContextTooLongError) | dict.fromkeys(NOT_TOO_LONG, BadRequestError)
    for words in TOO_LONG:
        assert type(kinds.make(RateLimitError, words, provider="x")) is RateLimitError


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("Incorrect API key provided: xa***ey. You can obtain an API key from", AuthenticationError),
        ("API key not valid. Please pass a valid API key.", AuthenticationError),
        ("API key expired. Please renew the API key.", AuthenticationError),
        ("Your credit balance is too low to access the Anthropic API.", PermissionDeniedError),
    ],
)
def test_a_key_or_a_bill_that_comes_with_the_status_of_a_bad_request(words: str, expected: type[ProviderError]) -> None:
    assert type(kinds.make(BadRequestError, words, provider="x", status=400)) is expected
