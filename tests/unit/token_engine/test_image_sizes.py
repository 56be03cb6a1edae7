"""The tokens of an image, from the size that its header names."""

from __future__ import annotations

import base64
from collections.abc import Callable

import pytest

from concertino.messages import Media, UserMessage
from concertino.providers.openai import TiktokenCounter
from concertino.token_engine import TokenEngine
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


def webp(kind: bytes, body: bytes) -> bytes:
    return b"RIFF" + b"\0" * 4 + b"WEBP" + kind + b"\0" * 4 + body + b"\0" * 20


def extended(width: int, height: int) -> bytes:
    size = (width - 1).to_bytes(3, "little") + (height - 1).to_bytes(3, "little")
    return webp(b"VP8X", b"\0" * 4 + size)


def lossless(width: int, height: int) -> bytes:
    return webp(b"VP8L", b"\x2f" + ((width - 1) | (height - 1) << 14).to_bytes(4, "little"))


def lossy(width: int, height: int) -> bytes:
    size = width.to_bytes(2, "little") + height.to_bytes(2, "little")
    return webp(b"VP8 ", b"\0" * 3 + b"\x9d\x01\x2a" + size)


@pytest.mark.parametrize("made", [png, gif, jpeg, extended, lossless, lossy])
@pytest.mark.parametrize(
    ("model", "width", "height", "tokens"),
    [
        ("anthropic:claude-sonnet-4-5", 1_000, 1_000, 1_296),  # 36 patches of 28 pixels a side
        ("anthropic:claude-sonnet-4-5", 8_000, 6_000, 1_600),
        ("anthropic:claude-opus-4-7", 8_000, 6_000, 4_784),
        ("anthropic:claude-opus-4-7", 16, 16, 2),
        ("openai:gpt-4o", 1_024, 1_024, 764),  # 765 in OpenAI's guide; sizes are even
        ("openai:gpt-4o", 2_048, 4_096, 1_104),  # 1,105 there
        ("openai:gpt-4.1-mini", 1_024, 1_024, 1_658),  # 1,024 patches x 1.62
        ("openai:gpt-4.1-mini", 4_096, 4_096, 6_636),  # 64 x 64 patches after scaling to 2,048 pixels
        ("openai:o4-mini", 1_024, 1_024, 1_762),
        ("openai:o4-mini", 1_800, 2_400, 2_498),  # 1,452 patches in OpenAI's guide, x 1.72
        ("openai:gpt-5", 1_024, 1_024, 630),  # 70 + 4 tiles x 140
        ("openai:o3", 1_024, 1_024, 674),  # 75 + 4 x 150
        ("openai:gpt-5-mini", 1_800, 2_400, 1_742),
        ("openai:gpt-5.1-codex-mini", 1_800, 2_400, 1_742),
        ("openai:gpt-5-nano", 1_800, 2_400, 2_178),
        ("openai:gpt-5.1", 1_024, 1_024, 630),
        ("openai:gpt-5.2", 4_000, 4_000, 4_916),
        ("openai:gpt-5.4", 1_024, 1_024, 1_228),  # 1,229 in OpenAI's guide
        ("openai:gpt-5.4", 2_048, 2_048, 3_000),
        ("openai:gpt-5.4-mini", 4_000, 1_000, 1_228),  # 64 x 16 patches
        ("openai:gpt-5.5", 4_000, 3_000, 11_868),  # 125 x 94 patches exceed 10,000, so 115 x 86
        ("openai:gpt-6-astra", 4_000, 3_000, 14_100),
        ("anthropic:claude-sonnet-5-5", 2_000, 1_500, 3_888),  # 2.5 times that of Sonnet 4.6
        ("google:gemini-2.5-pro", 300, 300, 258),
        ("google:gemini-2.5-pro", 960, 540, 1_548),  # six tiles, the example of Google's guide
        ("google:gemini-3-pro", 300, 300, 1_120),
        ("other:model", 8_000, 6_000, 4_784),
    ],
)
def test_an_image_counts_as_its_provider_publishes(
    made: Callable[[int, int], bytes], model: str, width: int, height: int, tokens: int
) -> None:
    media = Media("image/png", data=base64.b64encode(made(width, height)).decode())
    assert media_size(media, model) == tokens
    assert media_size(media, None) >= tokens


def test_the_images_of_a_run_count_as_its_model_bills_them() -> None:
    picture = Media("image/png", data=base64.b64encode(png(1_024, 1_024)).decode())
    message = UserMessage("look", (picture,))
    sizes = []
    for model in ("openai:gpt-4o", "google:gemini-3-pro", "openai:gpt-4o"):
        engine = TokenEngine(TiktokenCounter(), 100_000, model=model)
        sizes.append(engine.tokens_of(message))
    assert sizes[0] == sizes[2] < sizes[1]


@pytest.mark.parametrize("data", ["aGk=", "?", "", base64.b64encode(b"\xff\xd8\xff\xe0\x00\x00" * 9).decode(), None])
def test_an_image_of_unknown_size_counts_as_a_large_one(data: str | None) -> None:
    media = Media("image/png", url="https://example.org/a.png") if data is None else Media("image/png", data=data)
    assert media_size(media) == 2_000


@pytest.mark.parametrize("model", [None, "google:gemini-2.5-pro", "openai:gpt-5.6", "openai:gpt-4o", "a:b"])
@pytest.mark.parametrize(("width", "height"), [(2**32 - 1, 2**32 - 1), (2**32 - 1, 1), (1, 2**32 - 1)])
def test_a_header_that_names_a_huge_image_costs_little_memory(model: str | None, width: int, height: int) -> None:
    data = base64.b64encode(png(width, height)).decode()
    assert media_size(Media("image/png", data=data), model) <= 130_000
