"""`Vault`: secrets of users in a store, encrypted and bound to their scope and name."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from typing import Any

from ..errors import ConfigurationError
from ..extras import extra
from ..scope import Scope
from .user_stores import SecretStore

with extra("encryption", "a vault"):
    from cryptography.fernet import Fernet, InvalidToken, MultiFernet

log = logging.getLogger("concertino")


class Vault:
    """Secrets in *store*, JSON objects, encrypted with the first of *keys* and decrypted with any of them.

    The product makes the keys with `cryptography.fernet.Fernet.generate_key()` and keeps them outside the database. To
    replace a key, put the new one first, and keep the old one until all secrets have been written again.

    Raises `ConfigurationError` if a key is invalid.
    """

    def __init__(self, store: SecretStore, keys: Sequence[str | bytes]) -> None:
        if isinstance(keys, str | bytes) or not keys:
            raise ConfigurationError("Vault(keys=...): use a list of keys from Fernet.generate_key(), the newest first")
        try:
            self._fernet = MultiFernet([Fernet(key) for key in keys])
        except ValueError:
            raise ConfigurationError(
                "Vault(keys=...): a key is invalid: use those of Fernet.generate_key() from the package cryptography"
            ) from None
        self._store = store

    async def get(self, scope: Scope, name: str) -> tuple[dict[str, Any] | None, int | None]:
        """Return a secret and its version; None for both without a secret.

        A secret that no key decrypts, or that was copied from another scope or name, is None, with its version.
        """
        found = await self._store.secret(scope, name)
        if found is None:
            return None, None
        sealed, version = found
        try:
            bound, value = json.loads(self._fernet.decrypt(sealed))
        except InvalidToken:
            bound, value = None, None
        if bound != [scope.key, name]:
            log.warning("the secret %s of a user cannot be decrypted: is a key missing?", name)
            return None, version
        return value, version

    async def put(self, scope: Scope, name: str, value: Mapping[str, Any], *, version: int | None) -> bool:
        """Replace *version* of a secret; with None, add it. Return False if it has another version."""
        sealed = self._fernet.encrypt(json.dumps([[scope.key, name], value]).encode()).decode()
        return await self._store.put_secret(scope, name, sealed, version=version)

    async def claim(self, scope: Scope, name: str, *, version: int, seconds: float) -> bool:
        """Claim *version* of a secret for *seconds*, to replace it. Return False if another process has claimed it."""
        return await self._store.claim_secret(scope, name, version=version, seconds=seconds)

    async def delete(self, scope: Scope, name: str, *, version: int | None = None) -> bool:
        """Erase a secret if it has *version*, or with None in any version. Return whether there was one."""
        return await self._store.delete_secret(scope, name, version=version)
