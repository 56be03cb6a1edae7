"""The scope of stored data: the tenant and the user that it belongs to."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)  # each write hashes the scope, and a generated hash is the fastest
class Scope:
    """A tenant and a user, as the product's own session states them. A model or a request body never does."""

    tenant: str = ""
    """The tenant's id; empty for a product with a single tenant."""
    user: str = ""
    """The user's id; empty for work that belongs to no user."""

    @property
    def key(self) -> str:
        """A string that no other scope has: the tenant's length in front keeps the two ids apart."""
        return f"{len(self.tenant)}:{self.tenant}{self.user}"
