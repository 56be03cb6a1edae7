"""The file format of a recording: HTTP requests and responses in order, in one JSON object."""

from __future__ import annotations

import base64
import json
import os
import tempfile
from dataclasses import field
from pathlib import Path
from typing import Any

from ..records import record

Headers = list[tuple[str, str]]
"""Names and values in order; names may repeat."""

CLOSED, CANCELLED = "closed", "cancelled"
"""Reasons for a cut on the client's side: the reader closed the stream, or its task was cancelled."""


class CassetteError(AssertionError):
    """A recording cannot be written, read or replayed, or does not match; the message names the remedy."""


@record(frozen=False, kw_only=True)
class Request:
    """A recorded request. *path* includes the query; a *body* of None is unknown and matches any body."""

    method: str
    host: str
    path: str
    headers: Headers = field(default_factory=list)
    body: bytes | None = None


@record(frozen=False, kw_only=True)
class Response:
    """A recorded response; *body* is decoded."""

    status: int
    headers: Headers = field(default_factory=list)
    body: bytes = b""


@record
class Cut:
    """The reason for an incomplete response: `closed`, `cancelled`, or an exception of httpx2 with its message."""

    error: str
    message: str = ""


@record(frozen=False, kw_only=True)
class Interaction:
    """A request and its response. Without *response* nothing arrived, and *cut* is the reason."""

    request: Request
    response: Response | None = None
    cut: Cut | None = None


@record(frozen=False, kw_only=True)
class Case:
    """A recording. If it is not *complete*, its block raised *why*."""

    interactions: list[Interaction] = field(default_factory=list)
    complete: bool = True
    why: str = ""


def read_case(path: Path) -> Case:
    """Read the recording at *path*. Raises `CassetteError` if it is missing or cannot be read."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        return Case(
            interactions=[_interaction(one) for one in found["interactions"]],
            complete=found.get("complete", True),
            why=found.get("why", ""),
        )
    except FileNotFoundError:
        raise CassetteError(f"no recording at {path}: {RECORD_AGAIN}") from None
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        raise CassetteError(f"{path} is not a recording ({type(error).__name__}: {error}); {RECORD_AGAIN}") from error


RECORD_AGAIN = "run the test once with CONCERTINO_RECORD_MODE=all, or with `recording(...)`"


def as_json(case: Case, name: str) -> dict[str, Any]:
    """Return the recording *name* in its file format."""
    found: dict[str, Any] = {"case": name, "complete": case.complete}
    if case.why:
        found["why"] = case.why
    return found | {"interactions": [_plain(one) for one in case.interactions]}


def write_json(path: Path, found: dict[str, Any]) -> None:
    """Write *found* to *path* atomically. Raises `CassetteError`."""
    temporary = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(
            "w", encoding="utf-8", dir=path.parent, prefix=f".{path.name}.", delete=False
        ) as file:
            temporary = Path(file.name)
            json.dump(found, file, ensure_ascii=False, indent=1)
            file.write("\n")
            file.flush()
            os.fsync(file.fileno())
        temporary.chmod(0o644)  # temporary files are private, but recordings are committed
        temporary.replace(path)
    except OSError as error:
        if temporary is not None:
            temporary.unlink(missing_ok=True)
        raise CassetteError(f"the recording cannot be written to {path}: {error.strerror}") from error


def _interaction(found: dict[str, Any]) -> Interaction:
    asked, answer, cut = found["request"], found.get("response"), found.get("cut")
    return Interaction(
        request=Request(
            method=asked["method"],
            host=asked.get("host") or "",
            path=asked["path"],
            headers=_headers(asked),
            body=_body(asked),
        ),
        response=answer and Response(status=int(answer["status"]), headers=_headers(answer), body=_body(answer) or b""),
        cut=cut and Cut(cut["error"], cut.get("message", "")),
    )


def _headers(found: dict[str, Any]) -> Headers:
    """Read headers whose values are a string or a list of strings."""
    items = (found.get("headers") or {}).items()
    return [(name, value) for name, values in items for value in ([values] if isinstance(values, str) else values)]


def _body(found: dict[str, Any]) -> bytes | None:
    text, encoded = found.get("body"), found.get("body_base64")
    if text is not None:
        return str(text).encode()
    return None if encoded is None else base64.b64decode(encoded)


def _plain(one: Interaction) -> dict[str, Any]:
    asked, answer = one.request, one.response
    found: dict[str, Any] = {
        "request": {
            "method": asked.method,
            "host": asked.host,
            "path": asked.path,
            "headers": _listed(asked.headers),
            **_written(asked.body),
        },
        "response": answer
        and {
            "status": answer.status,
            "headers": _listed(answer.headers),
            **_written(answer.body),
            "form": "verbatim",
        },
    }
    if one.cut:
        found["cut"] = {"error": one.cut.error, "message": one.cut.message}
    return found


def _listed(headers: Headers) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name, value in headers:
        found.setdefault(name.lower(), []).append(value)
    return found


def _written(body: bytes | None) -> dict[str, str | None]:
    try:
        return {"body": None if body is None else body.decode()}
    except UnicodeDecodeError:
        return {"body": None, "body_base64": base64.b64encode(body or b"").decode()}
