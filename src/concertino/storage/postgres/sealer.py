"""Sealing of texts: each is encrypted with the key of what it is erased with."""

from __future__ import annotations

import re
from base64 import b64decode, b64encode
from collections.abc import Iterable, Sequence
from hashlib import blake2b
from threading import Lock
from typing import Any

from ...errors import DamagedDataError
from ..keys import Cipher, KeyStore
from .texts import SEALED

Name = tuple[str, object]
"""A kind of key, and what it is named by (`storage/sql/sealing.py`)."""

_CACHED = 20_000
"""Most keys in memory, about 10 MB."""
_ID = 32
"""Characters of a key's id."""
_NAMED = re.compile(r'"(?:data_)?digest":"[0-9a-f]{64}"')
"""A reference to a file. It stays readable, since the database counts the references."""


class Sealer:
    """Seals texts with the keys of a key store, and opens them.

    A sealed text is the mark `SEALED`, the id of its key, the encrypted text, and its references to files.
    """

    def __init__(self, keys: KeyStore, database: str) -> None:
        """Name the *database*, so that another one in the same key store has other keys."""
        self._keys, self._database = keys, database
        self._current: dict[Name, str] = {}
        self._ciphers: dict[str, Cipher] = {}
        self._lock = Lock()

    def prepare(self, names: Sequence[Name]) -> None:
        """Get the keys of *names*, each a kind and a name, at once, and those of users anew.

        A user's content may be erased by another process while this one goes on to write.
        """
        wanted = [name for name in names if name[0] == "user" or name not in self._current]
        if wanted:
            for name, key in zip(wanted, self._keys.current([self._hash(name) for name in wanted]), strict=True):
                with self._lock:
                    _limit(self._current)
                    self._current[name] = key.id
                    _limit(self._ciphers)
                    self._ciphers[key.id] = Cipher(key.key)

    def seal(self, text: str, kind: str, name: object) -> str:
        """Return *text* sealed with the key of *name*, which is of this *kind*; an empty text stays as it is."""
        if not text:
            return text
        key, cipher = self._key((kind, name))
        body = b64encode(cipher.encrypt(text.encode("utf-8", "surrogatepass"))).decode("ascii")
        named = "".join(_NAMED.findall(text)) if "digest" in text else ""
        return f"{SEALED}{key}{body}{named}"

    def open(self, text: str) -> str:
        """Return the text that was sealed as *text*, or *text* if it is not sealed; "" if its key was discarded.

        Raises `DamagedDataError`.
        """
        if text[:1] != SEALED:
            return text
        key = text[1 : 1 + _ID]
        cipher = self._ciphers.get(key) or self._found((key,)).get(key)
        if cipher is None:
            return ""
        body = text[1 + _ID :].partition('"')[0]
        try:
            return cipher.decrypt(b64decode(body)).decode("utf-8", "surrogatepass")
        except ValueError as error:
            raise DamagedDataError(f"corrupt stored value: {error}") from error

    def fetch_for(self, texts: Iterable[str]) -> None:
        """Get the keys of sealed *texts* at once."""
        ids = dict.fromkeys(text[1 : 1 + _ID] for text in texts if text[:1] == SEALED)
        self._found([each for each in ids if each not in self._ciphers])

    def tag(self, text: str, kind: str, name: object) -> str:
        """Return a keyed hash of *text*: equal texts have the same, and without the key it cannot be guessed."""
        _, cipher = self._key((kind, name))
        return cipher.tag(text.encode()).hex()[:32]

    def retire(self, names: Iterable[Name]) -> Sequence[str]:
        """Make the keys of *names* old. Return their ids, to be discarded."""
        found = list(names)
        for name in found:
            self._current.pop(name, None)
        return self._keys.retire([self._hash(name) for name in found])

    def discard(self, ids: Sequence[str]) -> None:
        """Erase the keys with these *ids*."""
        self._keys.discard(ids)
        for each in ids:
            self._ciphers.pop(each, None)

    def close(self) -> None:
        """Close the key store."""
        self._keys.close()

    def _key(self, name: Name) -> tuple[str, Cipher]:
        while True:  # another thread may empty the cache, or retire the key
            key = self._current.get(name)
            cipher = None if key is None else self._ciphers.get(key)
            if key is not None and cipher is not None:
                return key, cipher
            self._current.pop(name, None)
            self.prepare((name,))

    def _found(self, ids: Sequence[str]) -> dict[str, Cipher]:
        found = {each: Cipher(key) for each, key in self._keys.find(ids).items()} if ids else {}
        with self._lock:
            _limit(self._ciphers, len(found))
            self._ciphers.update(found)
        return found

    def _hash(self, name: Name) -> str:
        kind, of = name
        return blake2b(f"{self._database}\n{kind}\n{of}".encode(), digest_size=16).hexdigest()


def _limit(cache: dict[Any, Any], more: int = 1) -> None:
    if len(cache) + more > _CACHED:
        cache.clear()
