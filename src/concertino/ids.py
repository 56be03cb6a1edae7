"""Identities: what names a run, a child run and a usage record."""

from __future__ import annotations

import os
import re
import time
from functools import lru_cache

SINCE_GPT_5_6 = r"gpt-(5\.[6-9]|[6-9]|\d\d)"
"""The family of OpenAI's models with explicit cache breakpoints, as a pattern for `in_family`."""


def new_run_id() -> str:
    """A fresh run id: 48 bits of milliseconds and 80 random bits, so that ids sort by the time of their making."""
    return f"run_{time.time_ns() // 1_000_000:012x}{os.urandom(10).hex()}"


def child_run_id(call_key: str, ordinal: int = 1) -> str:
    """The id of the *ordinal*-th run that a tool call starts.

    It follows from the call's key alone, so that a resumed parent finds its child again.
    """
    return "run_" + digest(f"{call_key}\n{ordinal}")


def usage_id(run_id: str, step: int, attempt: str) -> str:
    """The id of a usage record; the same attempt of the same step always has the same one."""
    return f"{run_id}:{step}:{attempt}"


def token() -> str:
    """A fresh random name."""
    return os.urandom(12).hex()


def call_key(run_id: str, step: int, place: int) -> str:
    """The engine's id of a tool call: the *place*-th of a step's, the same in every life of the run."""
    return f"{run_id}:{step}.{place}"


def new_call_id() -> str:
    """What a model's call is known by where its provider gave it no id, or one that another call has."""
    return f"call_{token()}"


def run_of(key: str) -> str:
    """The run that a call's key belongs to."""
    return key.partition(":")[0]


def text_id(owner: str, body: str) -> str:
    """The id of a text that *owner*'s runs share: the same text has the same id."""
    return digest(f"{len(owner)}:{owner}{body}")


def digest(text: str) -> str:
    """32 hexadecimal digits that stand for *text*."""
    from hashlib import blake2b  # noqa: PLC0415 - it takes as long to import as a tenth of all else

    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


@lru_cache(maxsize=1_024)  # looked up for every request
def in_family(family: str, model: str) -> bool:
    """Return whether *model*, after an optional vendor prefix, begins with the pattern *family*."""
    return re.search(rf"(^|[/.:])({family})", model) is not None
