"""Imports of optional dependencies."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from .errors import MissingExtraError


@contextmanager
def extra(name: str, feature: str) -> Iterator[None]:
    """Raise `MissingExtraError` if an import in the block fails: *feature* needs the extra *name*.

    The message reports the import that failed, which may be one of a dependency's own. A broken import within
    concertino is raised unchanged.
    """
    try:
        yield
    except ImportError as error:
        if (error.name or "").partition(".")[0] == "concertino":
            raise
        cause = str(error).partition("\n")[0]
        remedy = f"pip install 'concertino[{name}]'"
        raise MissingExtraError(f"{feature} needs the extra {name!r} ({cause}): {remedy}") from error
