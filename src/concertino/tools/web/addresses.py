"""Which addresses a page may be fetched from: those of the public internet, and no others.

A page's address comes from a model or from a page, so it may point at a service of the network that this program
runs in (a database, the metadata service of a cloud). Every host is resolved here, and a host of which any address
is not public is refused.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable, Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address

from ...errors import LibraryError

Address = IPv4Address | IPv6Address
Resolver = Callable[[str, int], Awaitable[Sequence[str]]]
"""From a host and a port to addresses in text."""

ALLOW_VARIABLE = "CONCERTINO_ALLOW_PRIVATE_ADDRESSES"
_SHARED = IPv4Network("100.64.0.0/10")  # carriers' networks: not private by name, not public either
_RELAYS = IPv4Network("192.88.99.0/24")
_NAT64 = IPv6Network("64:ff9b::/96")
_COMPATIBLE = IPv6Network("::/96")
_LOCAL = (
    IPv6Network("64:ff9b:1::/48"),  # NAT64 of a network of one's own
    IPv6Network("fec0::/10"),  # the site's own, by an older name
    IPv6Network("2001::/32"),  # Teredo: ends at a host behind someone's router
)


def _carried(address: IPv6Address) -> IPv4Address | None:
    """The IPv4 address that packets to this IPv6 address end up at."""
    if any(address in network for network in (_NAT64, _COMPATIBLE)):
        return IPv4Address(int(address) & 0xFFFFFFFF)
    return address.ipv4_mapped or address.sixtofour


def _tunnels_inside(address: IPv6Address) -> bool:
    """Whether an address names an IPv4 host behind a tunnel (ISATAP), which may be a private one."""
    return (int(address) >> 32) & 0xFDFFFFFF == 0x5EFE


def is_public(address: Address) -> bool:
    """Whether an address is one of the public internet, whatever it is wrapped in."""
    if isinstance(address, IPv6Address):
        if address.scope_id or _tunnels_inside(address) or any(address in network for network in _LOCAL):
            return False
        carried = _carried(address)
        if carried:
            return is_public(carried)
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
    """The addresses of a host, as this system knows them. Raises OSError."""
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


async def checked_addresses(host: str, port: int, *, allow_private: bool, resolver: Resolver) -> list[Address]:
    """The addresses of *host*, in the system's order, once all are known to be allowed.

    Raises `LibraryError`, naming the host, where it does not resolve or is not public.
    """
    try:
        # The system understands more ways to write an address than any parser here (octal, hexadecimal, one
        # number); only what it makes of them is checked, and only that is connected to.
        addresses = [ip_address(text) for text in await resolver(host.strip("[]"), port)]
    except (OSError, ValueError) as error:
        raise LibraryError(f"web: the host {host!r} cannot be found ({error}); check the address") from error
    if not addresses:
        raise LibraryError(f"web: the host {host!r} has no address; check the name")
    refused = next((address for address in addresses if not is_public(address)), None)
    if refused is not None and not allow_private:
        raise LibraryError(
            f"web: {host!r} is at {refused}, which is not on the public internet, so it is not fetched"
            f" (to allow addresses of your own network, set {ALLOW_VARIABLE}=1)"
        )
    return addresses
