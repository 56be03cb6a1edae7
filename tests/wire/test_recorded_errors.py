"""Every sampled and recorded refusal, sent through the SDKs, is an error of the tree."""

from __future__ import annotations

from collections import Counter

import pytest

from concertino.errors import (
    AuthenticationError,
    BadRequestError,
    ContentFilteredError,
    ModelNotFoundError,
    OverloadedError,
    PermissionDeniedError,
    ProviderError,
    RateLimitError,
)

from .conftest import Source
from .exchanges import exchanges
from .wire_kit import MODELS, events_of, model_of, request, serving

EXPECTED: dict[int, tuple[type[ProviderError], ...]] = {
    400: (BadRequestError, ModelNotFoundError, ContentFilteredError, AuthenticationError),
    401: (AuthenticationError,),
    403: (PermissionDeniedError,),
    404: (ModelNotFoundError,),
    429: (RateLimitError, AuthenticationError),
    503: (OverloadedError,),
}


@pytest.mark.parametrize("kind", list(MODELS))
async def test_refusals_are_typed(kind: str, source: Source) -> None:
    found: Counter[str] = Counter()
    async with serving() as server, model_of(kind, server) as model:
        for exchange in exchanges(kind, source.root):
            if exchange.status < 400:
                continue
            headers = {
                name: value for name, value in exchange.headers.items() if name in ("content-type", "retry-after")
            }
            server.play(exchange.body, status=exchange.status, headers=headers)
            with pytest.raises(ProviderError) as caught:
                await events_of(model, request())
            error = caught.value
            assert isinstance(error, EXPECTED[exchange.status]), f"{exchange.name}: {error!r}"
            assert error.status == exchange.status
            assert error.partial is None
            assert len(str(error)) > 10
            found[type(error).__name__] += 1
            if isinstance(error, BadRequestError) and error.part:
                found["part"] += 1
    assert found.total() >= 5
