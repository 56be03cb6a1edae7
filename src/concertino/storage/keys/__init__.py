"""Keys of encrypted content, in a store of their own: discarding a key erases every copy of what it encrypts."""

from ...extras import extra

with extra("encryption", "encryption of stored content"):
    import cryptography  # noqa: F401

from .cipher import Cipher
from .key_store import KeyStore, SqlKeyStore, StoredKey

__all__ = ["Cipher", "KeyStore", "SqlKeyStore", "StoredKey"]
