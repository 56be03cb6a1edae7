"""Authenticated encryption: AES-GCM with random nonces."""

from __future__ import annotations

from hmac import digest
from os import urandom

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from ...errors import ConfigurationError, DamagedDataError

KEY_BYTES = 32
_NONCE_BYTES = 12


class Cipher:
    """Encrypts with one key of 32 bytes. Raises `ConfigurationError` for a key of another length."""

    def __init__(self, key: bytes) -> None:
        if len(key) != KEY_BYTES:
            raise ConfigurationError(f"a key has {KEY_BYTES} bytes, this one {len(key)}: use secrets.token_bytes(32)")
        self._key, self._cipher = key, AESGCM(key)

    def encrypt(self, data: bytes) -> bytes:
        """Return *data* encrypted, after its nonce."""
        nonce = urandom(_NONCE_BYTES)
        return nonce + self._cipher.encrypt(nonce, data, None)

    def tag(self, data: bytes) -> bytes:
        """Return a keyed hash of *data*."""
        return digest(self._key, b"tag" + data, "sha256")

    def decrypt(self, data: bytes) -> bytes:
        """Return what `encrypt` was given. Raises `DamagedDataError` for another key, or if *data* was changed."""
        try:
            return self._cipher.decrypt(data[:_NONCE_BYTES], data[_NONCE_BYTES:], None)
        except (InvalidTag, ValueError) as error:
            raise DamagedDataError("encrypted content was changed, or encrypted with another key") from error
