"""The conformance suite of stores: pytest collects it from a test module of your own.

    # test_my_store.py
    import pytest
    from concertino.testing.store_suite import *


    @pytest.fixture
    def factory():
        return open_my_store  # an async function from a folder to a new, empty store

Needs the extra `testing`. Each test runs with the plugin of anyio (`anyio_mode = "auto"`).
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

from ...extras import extra

with extra("testing", "the conformance suite of stores"):
    import hypothesis  # noqa: F401 - two tests need it
    import pytest

from .kit import *
from .store_approvals import *
from .store_budgets import *
from .store_calls import *
from .store_claims import *
from .store_conversations import *
from .store_erasure import *
from .store_events import *
from .store_journals import *
from .store_memories import *
from .store_operations import *
from .store_queues import *
from .store_quotas import *
from .store_schedule import *
from .store_schedules import *
from .store_scopes import *
from .store_secrets import *
from .store_usage import *
from .store_waits import *


@pytest.fixture
async def store(factory: Factory, tmp_path: Path) -> AsyncIterator[FullStore]:
    """A new store."""
    made = await factory(tmp_path)
    yield made
    await made.close()
