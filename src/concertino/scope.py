"""Scopes: the tenant and the user that stored data belongs to, and the three kinds of readers."""

from __future__ import annotations

from dataclasses import field

from .errors import ConfigurationError
from .records import record


def _check(scope: object, *ids: str) -> None:
    """Raise `ConfigurationError` unless all *ids* are text that can be stored, which a lone surrogate is not."""
    for id in ids:
        if not isinstance(id, str) or not (id.isascii() or _is_unicode(id)):
            raise ConfigurationError(f"{scope!r:.120}: use text in valid Unicode for ids and names")


def _is_unicode(text: str) -> bool:
    return text.encode(errors="replace").decode() == text


@record
class Scope:
    """A tenant and a user: the owner of a run, and of everything stored for it.

    Build it from the product's own session, never from a request's body or a model's output. As a reader, it reaches
    exactly what belongs to it: a scope without a user reaches what belongs to no user of the tenant. Raises
    `ConfigurationError` if an id is not text.
    """

    tenant: str = ""
    """The tenant's id; empty for a product with a single tenant."""
    user: str = ""
    """The user's id; empty for work that belongs to no user."""
    key: str = field(init=False, repr=False, compare=False)
    """A string that no other scope has, and that never begins another's: each id follows its own length."""

    def __post_init__(self) -> None:
        tenant, user = self.tenant, self.user
        _check(self, tenant, user)
        # Computed once, because every read and write looks it up.
        object.__setattr__(self, "key", f"{len(tenant)}:{tenant}{len(user)}:{user}")

    @property
    def by(self) -> str:
        """The person who acts, as answers and commands record it: the user."""
        return self.user

    def reaches(self, owner: Scope) -> bool:
        """Return whether this reader may see and change what belongs to *owner*."""
        return self == owner


@record
class TenantScope:
    """A reader that reaches what belongs to any user of one tenant, for the tenant's own administrators."""

    tenant: str
    by: str = ""
    """The person who acts, as answers and commands record it."""

    def __post_init__(self) -> None:
        _check(self, self.tenant, self.by)

    def reaches(self, owner: Scope) -> bool:
        """Return whether *owner* belongs to the tenant."""
        return self.tenant == owner.tenant


@record
class Operator:
    """A reader that reaches everything: for the command line, billing jobs and the watchdog, not for users."""

    by: str = ""
    """The person who acts, as answers and commands record it."""

    def __post_init__(self) -> None:
        _check(self, self.by)

    def reaches(self, owner: Scope) -> bool:
        """Return True."""
        return True


OPERATOR = Operator()
"""The operator without a name."""
AnyScope = Scope | TenantScope | Operator
"""A reader. Anything out of its reach is "not found", like an unknown id."""
