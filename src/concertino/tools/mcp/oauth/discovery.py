"""Discovery of the authorization server of an MCP server, and the registration of this product as its client."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

import httpx2
from mcp.client.auth import OAuthFlowError
from mcp.client.auth.oauth2 import check_registration_usable
from mcp.client.auth.utils import (
    build_oauth_authorization_server_metadata_discovery_urls,
    build_protected_resource_metadata_discovery_urls,
    create_client_registration_request,
    create_oauth_metadata_request,
    handle_auth_metadata_response,
    handle_protected_resource_response,
    handle_registration_response,
    issuers_match,
    union_scopes,
)
from mcp.shared.auth import OAuthClientInformationFull, OAuthClientMetadata, OAuthMetadata, ProtectedResourceMetadata
from mcp.shared.auth_utils import check_resource_allowed, resource_url_from_server_url

from .guarded_client import GuardedClient
from .login_values import Challenge, LoginError


class Discovered:
    """The metadata of an MCP server and of its authorization server."""

    def __init__(self, metadata: OAuthMetadata, resource: ProtectedResourceMetadata | None, server_url: str) -> None:
        self.metadata = metadata
        self.resource_metadata = resource
        self.resource = resource_url_from_server_url(server_url) if resource is None else str(resource.resource)

    @property
    def issuer(self) -> str:
        """The authorization server."""
        return str(self.metadata.issuer)


async def discover(client: GuardedClient, server_url: str, challenge: Challenge) -> Discovered:
    """Return the metadata of a server (RFC 9728) and of its authorization server (RFC 8414).

    Raises `LoginError` if they are missing, name another server, or do not support PKCE with S256.
    """
    resource = await _resource_metadata(client, server_url, challenge)
    if resource is None:  # the protocol of 2025-03-26: the server is its own authorization server
        parts = urlsplit(server_url)
        issuer, advertised = f"{parts.scheme}://{parts.netloc}", None
    else:
        issuer = advertised = str(resource.authorization_servers[0])
    for url in build_oauth_authorization_server_metadata_discovery_urls(advertised, server_url):
        response = await client.send(create_oauth_metadata_request(url))
        _, metadata = await handle_auth_metadata_response(response)
        if metadata is not None:
            _check(client, metadata, issuer)
            return Discovered(metadata, resource, server_url)
    raise LoginError(f"the authorization server {issuer} publishes no metadata")


async def _resource_metadata(
    client: GuardedClient, server_url: str, challenge: Challenge
) -> ProtectedResourceMetadata | None:
    for url in build_protected_resource_metadata_discovery_urls(challenge.metadata_url or None, server_url):
        response = await client.send(create_oauth_metadata_request(url))
        found = await handle_protected_resource_response(response)
        if found is not None:
            own = resource_url_from_server_url(server_url)
            if not check_resource_allowed(requested_resource=own, configured_resource=str(found.resource)):
                raise LoginError(f"the metadata of {own} are those of another server")
            return found
        if response.status_code >= 500:
            raise LoginError(f"the metadata of {server_url} cannot be read: status {response.status_code}")
    return None


def _check(client: GuardedClient, metadata: OAuthMetadata, issuer: str) -> None:
    if not issuers_match(str(metadata.issuer), issuer):
        raise LoginError(f"the metadata of the authorization server {issuer} name another issuer")
    if "S256" not in (metadata.code_challenge_methods_supported or ()):
        raise LoginError(f"the authorization server {issuer} does not support PKCE with S256")
    for endpoint in ("authorization", "token", "registration", "revocation"):
        if (url := getattr(metadata, f"{endpoint}_endpoint")) is not None:
            client.checked(str(url))


def _client_authentication(metadata: OAuthMetadata) -> str:
    supported = metadata.token_endpoint_auth_methods_supported or ["none"]
    return next((each for each in ("none", "client_secret_post", "client_secret_basic") if each in supported), "none")


async def register(
    client: GuardedClient, found: Discovered, redirect_uri: str, name: str, scopes: str
) -> dict[str, Any]:
    """Register this product as a client (RFC 7591), and return the registration. Raises `LoginError`."""
    if found.metadata.registration_endpoint is None:
        raise LoginError(
            f"the authorization server {found.issuer} registers no clients itself: register one there, and give it to "
            "McpOAuth(clients=...)"
        )
    wanted = OAuthClientMetadata.model_validate(
        {
            "redirect_uris": [redirect_uri],
            "client_name": name,
            "scope": union_scopes(" ".join(found.metadata.scopes_supported or ()), scopes) or None,
            "token_endpoint_auth_method": _client_authentication(found.metadata),
            "application_type": "web" if redirect_uri.startswith("https://") else "native",
        }
    )
    request = create_client_registration_request(found.metadata, wanted, found.issuer)
    response = await client.send(httpx2.Request("POST", request.url, headers=request.headers, content=request.content))
    try:
        made: OAuthClientInformationFull = await handle_registration_response(response)
        check_registration_usable(made)
    except OAuthFlowError:
        raise LoginError(
            f"the authorization server {found.issuer} refuses to register a client: status {response.status_code}"
        ) from None
    kept = {"client_id", "client_secret", "client_secret_expires_at", "token_endpoint_auth_method"}
    return made.model_dump(mode="json", include=kept, exclude_none=True)
