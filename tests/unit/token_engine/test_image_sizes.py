"""The tokens of an image, from the size that its header names."""

from __future__ import annotations

import base64
from collections.abc import Callable

import pytest

from concertino.messages import Media
from concertino.token_engine.counting.sizes import media_size


def png(width: int, height: int) -> bytes:
    size = width.to_bytes(4, "big") + height.to_bytes(4, "big")
    return b"\x89PNG\r\n\x1a\n" + b"\x00\x00\x00\rIHDR" + size + b"\x08\x06" + b"\x00" * 40


def gif(width: int, height: int) -> bytes:
    return b"GIF89a" + width.to_bytes(2, "little") + height.to_bytes(2, "little") + b"\x00" * 40


def jpeg(width: int, height: int) -> bytes:
    other = b"\xff\xe0" + (20_002).to_bytes(2, "big") + b"x" * 20_000
    size = height.to_bytes(2, "big") + width.to_bytes(2, "big")
    return b"\xff\xd8" + other + b"\xff\xc0\x00\x11\x08" + size + b"\x00" * 40


@pytest.mark.parametrize("made", [png, gif, jpeg])
@pytest.mark.parametrize(("width", "height", "tokens"), [(1_000, 750, 1_000), (16, 16, 260), (8_000, 6_000, 1_600)])
def test_an_image_counts_by_its_pixels(made: Callable[[int, int], bytes], width: int, height: int, tokens: int) -> None:
    data = base64.b64encode(made(width, height)).decode()
    assert media_size(Media("image/png", data=data)) == tokens


@pytest.mark.parametrize("data", ["aGk=", "?", "", base64.b64encode(b"\xff\xd8\xff\xe0\x00\x00" * 9).decode(), None])
def test_an_image_of_unknown_size_counts_as_a_large_one(data: str | None) -> None:
    media = Media("image/png", url="https://example.org/a.png") if data is None else Media("image/png", data=data)
    assert media_size(media) == 2_000
