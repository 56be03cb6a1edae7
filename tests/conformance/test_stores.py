"""The suite that the package ships for stores, with the package's own stores on one machine."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

from concertino import OPERATOR
from concertino.errors import RunClaimedError
from concertino.storage import process_owner
from concertino.testing.store_suite import *

CHILD = "from concertino.storage import process_owner; print(process_owner(), flush=True); input()"


async def test_the_claim_of_a_killed_process_can_be_taken_at_once(store: FullStore) -> None:
    with child() as process:
        assert process.stdout is not None
        owner = process.stdout.readline().strip()
        for run_id in ("r1", "r2"):
            await start_tree(store, run_id, owner=owner, seconds=3600.0)
            with pytest.raises(RunClaimedError):
                await store.claim(OPERATOR, run_id, process_owner(), 9.0)
        assert list((await store.due(OPERATOR)).orphaned) == []
        process.send_signal(signal.SIGKILL)
        process.wait()
    direct = await store.claim(OPERATOR, "r2", process_owner(), 9.0)
    assert (direct.tries, direct.sure) == (1, True)
    assert list((await store.due(OPERATOR)).orphaned) == ["r1"]
    assert (await store.claim(OPERATOR, "r1", process_owner(), 9.0)).tries == 1


def child() -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, "-c", CHILD], stdin=-1, stdout=-1, text=True)
