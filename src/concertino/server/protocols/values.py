"""Conversions that all protocols share: media, sources, arguments, usage, and errors as a user may read them."""

from __future__ import annotations

import binascii
import json
from base64 import b64decode
from collections.abc import Iterable, Iterator
from decimal import Decimal
from typing import Any
from urllib.parse import unquote_to_bytes

from pydantic_core import to_jsonable_python

from ...errors import ConfigurationError
from ...events import RunResult
from ...messages import Media
from ...records import record
from ...usage import Tokens, UsageRecord, total

JsonObject = dict[str, Any]


class BadInputError(ConfigurationError):
    """A request of a front end that its protocol does not allow."""


@record
class CitedSource:
    """A source that a tool has reported in its structured result."""

    id: str
    title: str
    location: str

    @property
    def is_url(self) -> bool:
        """Return whether the location is an address of the web."""
        return self.location.startswith(("https://", "http://"))


def sources_of(data: Any) -> list[CitedSource]:
    """Return the sources in a tool's `data`: one, a list, or a mapping from ids, each with `title` and `location`."""
    if not isinstance(data, dict):
        return []
    if isinstance(data.get("location"), str):
        return list(_sources([(str(data.get("id", data["location"])), data)]))
    found = data.get("sources", data)
    pairs = found.items() if isinstance(found, dict) else [(None, each) for each in found] if _is_list(found) else []
    return list(_sources(pairs))


def _is_list(value: Any) -> bool:
    return isinstance(value, list)


def _sources(pairs: Iterable[tuple[Any, Any]]) -> Iterator[CitedSource]:
    for id, source in pairs:
        if isinstance(source, dict) and isinstance(location := source.get("location"), str):
            yield CitedSource(str(id or source.get("id") or location), str(source.get("title") or location), location)


def media_of(url: str, media_type: str = "", name: str = "") -> Media:
    """Return the medium at *url*, a `data:` or an https address. Raises `BadInputError`."""
    if url.startswith("https://"):
        return Media(media_type or "application/octet-stream", url=url, name=name)
    head, comma, content = url.partition(",")
    if not head.startswith("data:") or not comma:
        raise BadInputError("a file must be a data: or an https: address")
    stated, _, encoding = head.removeprefix("data:").rpartition(";")
    if encoding != "base64":
        stated = head.removeprefix("data:")
        content = binascii.b2a_base64(unquote_to_bytes(content), newline=False).decode()
    try:
        b64decode(content, validate=True)
    except ValueError as error:
        raise BadInputError("the content of a file is not base64") from error
    return Media(media_type or stated or "application/octet-stream", data=content, name=name)


def address_of(media: Media) -> str:
    """Return the address of a medium: its own, or one with its content."""
    return media.url or f"data:{media.media_type};base64,{media.data or ''}"


def arguments_of(text: str) -> Any:
    """Return a call's arguments as JSON values; None if they are malformed."""
    try:
        return json.loads(text or "{}")
    except (ValueError, RecursionError):
        return None


def tokens_of(usage: Iterable[UsageRecord]) -> tuple[Tokens, Decimal | None]:
    """Return the tokens and the cost of *usage*; the tokens include the hints of records with unknown usage."""
    totals = total(usage)
    return totals.tokens + totals.unknown_tokens, totals.cost


def output_of(result: RunResult) -> Any:
    """Return the validated answer of a run as JSON values; None without one."""
    return to_jsonable_python(result.output, fallback=str)


def failure_of(result: RunResult) -> str:
    """Return the error of a run for its user. The text of a failure is for developers, who find it by the run's id."""
    if result.status == "limited":
        return result.error or "a limit is reached"
    return f"the run failed: {result.run_id}"
