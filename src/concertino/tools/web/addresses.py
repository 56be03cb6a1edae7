"""Protection against server-side request forgery: pages are fetched from public internet addresses only.

A URL comes from a model or from a page, so it may point at a service inside the product's own network, such as a
database or a cloud's metadata service. Every host is resolved here, and rejected if any of its addresses is not public.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable, Iterable, Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from urllib.parse import urlsplit

from ...errors import LibraryError

Address = IPv4Address | IPv6Address
Resolver = Callable[[str, int], Awaitable[Sequence[str]]]
"""Resolve a host and a port to IP addresses."""

ALLOW_VARIABLE = "CONCERTINO_ALLOW_PRIVATE_ADDRESSES"
# The registries of IANA as of November 2026. The lists of `ipaddress` differ between patches of Python.
# https://www.iana.org/assignments/iana-ipv4-special-registry, .../iana-ipv6-special-registry,
# .../ipv6-unicast-address-assignments
_PUBLIC = (
    IPv4Network("0.0.0.0/1"), IPv4Network("128.0.0.0/2"), IPv4Network("192.0.0.0/3"),  # all unicast addresses
    IPv6Network("2000::/3"),  # global unicast
)  # fmt: skip
_SPECIAL = (
    IPv4Network("0.0.0.0/8"),  # this network
    IPv4Network("10.0.0.0/8"),  # private use
    IPv4Network("100.64.0.0/10"),  # carrier-grade NAT (RFC 6598); also a cloud's metadata service
    IPv4Network("127.0.0.0/8"),  # loopback
    IPv4Network("168.63.129.16/32"),  # the host of a virtual machine (Azure), in a public block
    IPv4Network("169.254.0.0/16"),  # link local, with most clouds' metadata services
    IPv4Network("172.16.0.0/12"),  # private use
    IPv4Network("192.0.0.0/24"),  # IETF protocol assignments
    IPv4Network("192.0.2.0/24"),  # documentation
    IPv4Network("192.31.196.0/24"),  # AS112-v4
    IPv4Network("192.52.193.0/24"),  # AMT
    IPv4Network("192.88.99.0/24"),  # 6to4 relays (RFC 7526, deprecated)
    IPv4Network("192.168.0.0/16"),  # private use
    IPv4Network("192.175.48.0/24"),  # AS112 by direct delegation
    IPv4Network("198.18.0.0/15"),  # benchmarks
    IPv4Network("198.51.100.0/24"),  # documentation
    IPv4Network("203.0.113.0/24"),  # documentation
    IPv6Network("2001::/23"),  # IETF protocol assignments, such as Teredo, ORCHID and AMT
    IPv6Network("2001:db8::/32"),  # documentation
    IPv6Network("2620:4f:8000::/48"),  # AS112 by direct delegation
    IPv6Network("3fff::/20"),  # documentation
)
_EMBEDDING = (
    # Networks whose addresses contain the IPv4 address that receives the packets, and how far from the right.
    (IPv6Network("::ffff:0:0/96"), 0),  # IPv4-mapped
    (IPv6Network("64:ff9b::/96"), 0),  # NAT64
    (IPv6Network("2002::/16"), 80),  # 6to4
)


def is_public(address: Address) -> bool:
    """Return whether *address*, or the IPv4 address that it embeds, belongs to the public internet."""
    if isinstance(address, IPv6Address):
        number = int(address)
        if address.scope_id or (number >> 32) & 0xFDFFFFFF == 0x5EFE:  # ISATAP tunnels to an IPv4 host
            return False
        for network, shift in _EMBEDDING:
            if address in network:
                return is_public(IPv4Address((number >> shift) & 0xFFFFFFFF))
    return _is_in(address, _PUBLIC) and not _is_in(address, _SPECIAL)


def is_local(url: str) -> bool:
    """Return whether *url* names this machine."""
    host = urlsplit(url).hostname or ""
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def _is_in(address: Address, networks: Iterable[IPv4Network | IPv6Network]) -> bool:
    return any(address in network for network in networks)


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
