"""Identities: what names a run, a child run and a usage record."""

from __future__ import annotations

import os
import time
from hashlib import blake2b


def new_run_id() -> str:
    """A fresh run id: 48 bits of milliseconds and 80 random bits, so that ids sort by the time of their making."""
    return f"run_{time.time_ns() // 1_000_000:012x}{os.urandom(10).hex()}"


def child_run_id(parent: str, call_id: str, ordinal: int = 1) -> str:
    """The id of the *ordinal*-th run that a tool call starts.

    It follows from its parent's id and the call's alone, so that a resumed parent finds its child again.
    """
    return "run_" + blake2b(f"{parent}\n{call_id}\n{ordinal}".encode(), digest_size=16).hexdigest()


def usage_id(run_id: str, step: int, attempt: str) -> str:
    """The id of a usage record; the same attempt of the same step always has the same one."""
    return f"{run_id}:{step}:{attempt}"
