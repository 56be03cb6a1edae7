"""Protection against server-side request forgery: pages are fetched from public internet addresses only.

A URL comes from a model or from a page, so it may point at a service inside the product's own network, such as a
database or a cloud's metadata service. Every host is resolved here, and rejected if any of its addresses is not public.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable, Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address

from ...errors import LibraryError

Address = IPv4Address | IPv6Address
Resolver = Callable[[str, int], Awaitable[Sequence[str]]]
"""Resolve a host and a port to IP addresses."""

ALLOW_VARIABLE = "CONCERTINO_ALLOW_PRIVATE_ADDRESSES"
_SHARED = IPv4Network("100.64.0.0/10")  # carrier-grade NAT (RFC 6598): neither `is_private` nor public
_RELAYS = IPv4Network("192.88.99.0/24")  # 6to4 relays (RFC 7526, deprecated)
_NAT64 = IPv6Network("64:ff9b::/96")
_COMPATIBLE = IPv6Network("::/96")
_LOCAL = (
    IPv6Network("64:ff9b:1::/48"),  # local-use NAT64 (RFC 8215)
    IPv6Network("fec0::/10"),  # site-local addresses (RFC 3879, deprecated)
    IPv6Network("2001::/32"),  # Teredo (RFC 4380) reaches hosts behind a NAT
)


def _embedded(address: IPv6Address) -> IPv4Address | None:
    """Return the IPv4 address that receives the packets for this IPv6 address, if it embeds one."""
    if any(address in network for network in (_NAT64, _COMPATIBLE)):
        return IPv4Address(int(address) & 0xFFFFFFFF)
    return address.ipv4_mapped or address.sixtofour


def _tunnels_inside(address: IPv6Address) -> bool:
    """Return whether *address* is an ISATAP address, which tunnels to an IPv4 host that may be private."""
    return (int(address) >> 32) & 0xFDFFFFFF == 0x5EFE


def is_public(address: Address) -> bool:
    """Return whether *address*, including any IPv4 address it embeds, belongs to the public internet."""
    if isinstance(address, IPv6Address):
        if address.scope_id or _tunnels_inside(address) or any(address in network for network in _LOCAL):
            return False
        embedded = _embedded(address)
        if embedded:
            return is_public(embedded)
    elif address in _SHARED or address in _RELAYS:
        return False
    return address.is_global and not (
        address.is_private
        or address.is_loopback
        or address.is_link_local
        or address.is_multicast
        or address.is_reserved
        or address.is_unspecified
    )


async def resolve(host: str, port: int) -> Sequence[str]:
    """Resolve a host with the system's resolver. Raises `OSError`."""
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


async def checked_addresses(host: str, port: int, *, allow_private: bool, resolver: Resolver) -> list[Address]:
    """Return the addresses of *host* in the resolver's order.

    Raises `LibraryError`, naming the host, if it does not resolve or an address is not public.
    """
    try:
        # The system's resolver accepts more notations than any parser here (octal, hexadecimal, a single number). So
        # check its result, and connect to exactly that.
        addresses = [ip_address(text) for text in await resolver(host.strip("[]"), port)]
    except (OSError, ValueError) as error:
        raise LibraryError(f"web: cannot resolve the host {host!r} ({error}); check the URL") from error
    if not addresses:
        raise LibraryError(f"web: the host {host!r} has no address; check the URL")
    refused = next((address for address in addresses if not is_public(address)), None)
    if refused is not None and not allow_private:
        raise LibraryError(
            f"web: {host!r} resolves to {refused}, which is not a public address, so it is not fetched"
            f" (set {ALLOW_VARIABLE}=1 to allow private addresses)"
        )
    return addresses
