"""The body of a request that must be JSON."""

from __future__ import annotations

from starlette.exceptions import HTTPException
from starlette.requests import Request

JSON = "application/json"


async def json_body(request: Request) -> bytes:
    """Return the body. Raises `HTTPException` with status 415 if it is not stated to be JSON.

    A page of another site can send any other type without the browser's asking first.
    """
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != JSON:
        raise HTTPException(415, f"send the body as {JSON}")
    return await request.body()
