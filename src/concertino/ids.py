"""Identifiers of runs, tool calls, usage records and shared texts."""

from __future__ import annotations

import os
import re
import time
from functools import lru_cache

SINCE_GPT_5_6 = r"gpt-(5\.[6-9]|[6-9]|\d\d)"
"""The family of OpenAI's models with explicit cache breakpoints, as a pattern for `in_family`."""
_ALPHABET = "abcdefghijkmnpqrstuvwxyz23456789"
"""Letters and digits that are not mistaken for one another."""


def new_run_id() -> str:
    """Return a new run id: 48 bits of milliseconds and 80 random bits, so that ids sort by creation time."""
    return f"run_{time.time_ns() // 1_000_000:012x}{os.urandom(10).hex()}"


def new_conversation_id() -> str:
    """Return a new conversation id, which sorts like a run id."""
    return f"conv{new_run_id()[3:]}"


def child_run_id(call_key: str, ordinal: int = 1) -> str:
    """Return the id of the *ordinal*-th run that a tool call starts.

    The id depends only on the call's key, so that a resumed parent finds its child again.
    """
    return "run_" + digest(f"{call_key}\n{ordinal}")


def named_run_id(scope_key: str, name: str) -> str:
    """Return the id of the run that a scope calls *name*; no other scope has a run of this id."""
    return "run_" + digest(f"name:{scope_key}{name}")


def is_generated(run_id: str) -> bool:
    """Return whether *run_id* has the form of the ids that are made here: a tenant's, a sub-agent's or a title's."""
    return re.fullmatch(r"run_[0-9a-f]{32}", run_id) is not None


def usage_id(run_id: str, step: int, attempt: str) -> str:
    """Return the id of a usage record, the same for every execution of an attempt."""
    return f"{run_id}:{step}:{attempt}"


def token() -> str:
    """Return a new random token."""
    return os.urandom(12).hex()


def call_key(run_id: str, step: int, index: int) -> str:
    """Return the engine's id of the tool call at *index* in a step, the same in every process that executes the run."""
    return f"{run_id}:{step}.{index}"


def is_attempt(usage: str) -> bool:
    """Return whether the usage id *usage* belongs to an attempt at a model, not to usage that a tool has booked."""
    return usage.rpartition(":")[2].isdecimal()


def new_call_id() -> str:
    """Return an id for a model's call without an id, or with an id that an earlier call already has."""
    return f"call_{token()}"


def run_of(key: str) -> str:
    """Return the id of the run that a call's key belongs to."""
    return key.partition(":")[0]


def text_id(owner: str, body: str) -> str:
    """Return the id of a text that is stored once for all runs of *owner*, a scope's key or a secret of one run."""
    return digest(f"{len(owner)}:{owner}{body}")


def digest(text: str) -> str:
    """Return a digest of *text* as 32 hexadecimal digits."""
    from hashlib import blake2b  # noqa: PLC0415 - importing hashlib takes a tenth of the time of `import concertino`

    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def handle_for(key: str) -> str:
    """Return a short name for *key* that is easy to write: 35 bits of its BLAKE2b hash."""
    from hashlib import blake2b  # noqa: PLC0415 - see `digest`

    number = int.from_bytes(blake2b(key.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "big")
    return "".join([_ALPHABET[number >> shift & 31] for shift in range(0, 35, 5)])


@lru_cache(maxsize=1_024)  # looked up for every request
def in_family(family: str, model: str) -> bool:
    """Return whether *model*, after an optional vendor prefix, begins with the pattern *family*."""
    return re.search(rf"(^|[/.:])({family})", model) is not None
