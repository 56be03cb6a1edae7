"""Each SDK's exceptions are all in its adapter's table."""

from __future__ import annotations

import inspect
from types import ModuleType

import anthropic
import httpx2
import openai
import pytest
from google.genai import errors as google_errors

from concertino.errors import ProviderError, ProviderTimeoutError
from concertino.providers import failures
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
    ],
)
def test_retry_after(headers: dict[str, str], expected: float | None) -> None:
    assert failures.retry_after(headers) == expected
