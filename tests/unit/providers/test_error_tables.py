"""Every exception of an SDK and of the HTTP library is translated."""

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
from concertino.providers import errors
from concertino.providers.anthropic import errors as anthropic_errors
from concertino.providers.google import errors as gemini_errors
from concertino.providers.openai import errors as openai_errors


@pytest.mark.parametrize(
    ("sdk", "table"),
    [
        (anthropic, anthropic_errors.KINDS_BY_CLASS),
        (openai, openai_errors.KINDS_BY_CLASS),
        (google_errors, gemini_errors.KINDS_BY_CLASS),
    ],
)
def test_every_exported_exception_is_in_the_table(sdk: ModuleType, table: dict[str, type[ProviderError]]) -> None:
    exported = {
        value.__name__
        for name, value in inspect.getmembers(sdk, inspect.isclass)
        if issubclass(value, Exception) and not issubclass(value, Warning) and not name.startswith("_")
    }
    assert exported - table.keys() == set()
    assert table.keys() - exported == set()


OUTSIDE = {
    "anthropic": {
        "_response.MissingStreamClassError": "of a method that the adapter does not call",
        "lib.tools.": "of the SDK's own tools, which the adapter does not run",
        "lib.credentials._secrets._NonObjectPayloadError": "caught in the SDK",
    },
    "openai": {
        "InvalidWebhookSignatureError": "of webhooks",
        "_legacy_response.MissingStreamClassError": "of a method that the adapter does not call",
        "_response.MissingStreamClassError": "of a method that the adapter does not call",
        "auth._x509._TransientTokenExchangeError": "caught in the SDK",
        "lib.browser.": "of the SDK's own tools, which the adapter does not run",
        "lib.computer.": "of the SDK's own tools, which the adapter does not run",
        "lib.decisions_tool_runner.": "of the SDK's own loop, which the adapter does not run",
        "lib.responses_tool_runner.": "of the SDK's own loop, which the adapter does not run",
        "lib.responses_websocket.": "of another transport",
    },
    "google.genai": {
        "_api_client.EphemeralTokenAPIKeyError": "raised where a client is made, before any request",
        "_common.ExperimentalWarning": "a warning",
        "_gaos.": "of the Interactions API",
        "_interactions.": "of the Interactions API",
    },
}
"""Exceptions that no request of an adapter can raise, by prefix of their names, with the reason."""


@pytest.mark.parametrize(
    ("sdk", "adapter"),
    [(anthropic, anthropic_errors), (openai, openai_errors), (google.genai, gemini_errors)],
)
def test_every_exception_that_an_sdk_defines_is_translated_or_cannot_arise(
    sdk: ModuleType, adapter: ModuleType
) -> None:
    reasons = OUTSIDE[sdk.__name__]
    defined = exceptions_in(sdk)
    assert len(defined) > 20
    for kind in defined:
        name = f"{kind.__module__}.{kind.__name__}".removeprefix(f"{sdk.__name__}.")
        prefix = next((prefix for prefix in reasons if name.startswith(prefix)), None)
        if prefix is not None:
            continue
        assert issubclass(kind, adapter.sdk_errors()), f"{name} is not translated: add it to a table, or here"


def exceptions_in(sdk: ModuleType) -> set[type[BaseException]]:
    """Return all exception classes of a package, found in its source and imported."""
    found: set[type[BaseException]] = set()
    for path in (position for root in sdk.__path__ for position in Path(root).rglob("*.py")):
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


def test_signing_errors_are_translated_and_mark_the_request_as_not_sent() -> None:
    import google.auth.exceptions as of_auth

    names = [
        name for name, kind in vars(of_auth).items() if inspect.isclass(kind) and kind.__module__ == of_auth.__name__
    ]
    assert len(names) > 5
    for name in names:
        error = getattr(of_auth, name)("no")
        assert isinstance(error, errors.signing_errors())
        expected = ProviderConnectionError if name in ("TransportError", "TimeoutError") else AuthenticationError
        found = errors.signing_error(error, "google")
        assert (type(found), found.sent) == (expected, False)


@pytest.mark.parametrize("begun", [False, True])
def test_every_error_of_the_http_library_is_translated(begun: bool) -> None:
    exported = [
        value
        for _, value in inspect.getmembers(httpx2, inspect.isclass)
        if issubclass(value, errors.http_errors()) and value is not httpx2.HTTPStatusError
    ]
    assert len(exported) > 10
    for kind in exported:
        error = kind.__new__(kind)
        found = errors.connection_error(error, "here", begun=begun)
        assert found.provider == "here"
        assert isinstance(found, ProviderTimeoutError) is issubclass(kind, httpx2.TimeoutException)


def test_an_exhausted_connection_pool_does_not_blame_the_provider() -> None:
    found = gemini_errors.translate(httpx2.PoolTimeout(""), begun=False)
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
    assert errors.retry_after(headers) == expected


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


def test_a_context_length_refusal_is_recognised_by_its_message() -> None:
    for message in TOO_LONG:
        assert type(errors.provider_error(BadRequestError, message, provider="x")) is ContextTooLongError
        assert type(errors.provider_error(RateLimitError, message, provider="x")) is RateLimitError
    for message in NOT_TOO_LONG:
        assert type(errors.provider_error(BadRequestError, message, provider="x")) is BadRequestError


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("Incorrect API key provided: xa***ey. You can obtain an API key from", AuthenticationError),
        ("API key not valid. Please pass a valid API key.", AuthenticationError),
        ("API key expired. Please renew the API key.", AuthenticationError),
        ("Your credit balance is too low to access the Anthropic API.", PermissionDeniedError),
    ],
)
def test_a_key_or_billing_problem_with_status_400_is_recognised(message: str, expected: type[ProviderError]) -> None:
    assert type(errors.provider_error(BadRequestError, message, provider="x", status=400)) is expected
