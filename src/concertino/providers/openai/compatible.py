"""Any model behind a server that implements Chat Completions."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from ...errors import ConfigurationError, MissingKeyError
from ..http.time_limits import DEFAULT_DELTA, Timeouts
from .chat.vendors import Vendor, address_of, vendor_of
from .model import OpenAIModel

if TYPE_CHECKING:
    from openai import AsyncOpenAI


class OpenAICompatibleModel(OpenAIModel):
    """A `Model` of a server that implements OpenAI's Chat Completions, at *base_url*.

    *vendor* is the name of a known vendor or a `Vendor`; the default is the vendor with the URL's host. It is the
    provider's name in records, prices and errors. The key is *api_key*, or the vendor's environment variable. All other
    arguments are those of `OpenAIModel`.

    Raises `ConfigurationError` without a valid URL, `MissingKeyError` without a key that the vendor requires, and
    `MissingExtraError` without the SDK.
    """

    def __init__(
        self,
        name: str,
        base_url: str | None = None,
        *,
        vendor: str | Vendor = "",
        client: AsyncOpenAI | None = None,
        api_key: str | None = None,
        timeout: float | Timeouts = DEFAULT_DELTA,
        streams: bool = True,
    ) -> None:
        given = str(client.base_url) if client is not None else base_url or ""
        found = vendor if isinstance(vendor, Vendor) else vendor_of(vendor, given)
        url = given or address_of(found)
        if not url:
            raise ConfigurationError(f"no address for {found.name}: pass base_url=, such as 'http://host/v1'")
        if not url.startswith(("http://", "https://")):
            raise ConfigurationError(f"invalid address {url!r} of {found.name}: use a URL, such as 'http://host/v1'")
        key = api_key or (os.environ.get(found.key) if found.key else None)
        if not key and found.key and client is None:
            raise MissingKeyError(f"no API key: set {found.key}, or pass api_key=")
        super().__init__(
            name,
            client=client,
            api_key=key or "none",  # the SDK requires one; a local server does not
            base_url=url,
            api="chat",
            provider=found.name,
            timeout=timeout,
            streams=streams,
        )
        self._vendor = found
