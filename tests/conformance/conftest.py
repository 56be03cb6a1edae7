"""Each test of a store runs with every adapter."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from .kit import ADAPTERS, Factory


@pytest.fixture(params=ADAPTERS)
def factory(request: pytest.FixtureRequest) -> Factory:
    return ADAPTERS[request.param]


@pytest.fixture
async def store(factory: Factory, tmp_path: Path) -> Any:
    made = await factory(tmp_path)
    yield made
    await made.close()
