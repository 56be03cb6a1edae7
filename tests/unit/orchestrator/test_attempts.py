"""The model and the wait before the next attempt."""

from __future__ import annotations

import pytest

from concertino import Retry
from concertino.errors import OverloadedError, ProviderError, ProviderTimeoutError, RateLimitError
from concertino.orchestrator.model_call.retry import Attempts


@pytest.mark.parametrize("kind", [RateLimitError, OverloadedError, ProviderTimeoutError])
def test_a_provider_says_how_long_to_wait(kind: type[ProviderError]) -> None:
    attempts = Attempts(Retry(longest=30.0), ["x:other"])
    assert attempts.after(kind("slow", retry_after=7.0), "x:m", seen=False) == ("x:m", 7.0)
    assert attempts.after(kind("slow", retry_after=70.0), "x:m", seen=False) == ("x:other", 0.0)
    assert attempts.after(ProviderTimeoutError("silent"), "x:other", seen=True) is None
