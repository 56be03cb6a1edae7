"""Requests of a login to addresses that a server has named."""

from __future__ import annotations

from collections.abc import Sequence

import httpx2
import pytest

from concertino.tools.mcp import LoginError
from concertino.tools.mcp.oauth.guarded_client import GuardedClient


@pytest.mark.parametrize("address", ["127.0.0.1", "10.0.0.1", "169.254.169.254", "::1", "fd00::1"])
async def test_a_name_that_leads_into_the_own_network_is_refused(address: str) -> None:
    async def resolver(host: str, port: int) -> Sequence[str]:
        return [address]

    client = GuardedClient(local=False, allow_private=False, resolver=resolver)
    with pytest.raises(LoginError, match="not public"):
        await client.send(httpx2.Request("GET", "https://login.example/"))


@pytest.mark.parametrize(
    "url", ["http://login.example/", "http://127.0.0.1/", "file:///etc/passwd", "javascript:alert(1)", "https://a:b@c/"]
)
def test_only_https_is_used(url: str) -> None:
    with pytest.raises(LoginError, match="only https"):
        GuardedClient(local=False, allow_private=True).checked(url)
