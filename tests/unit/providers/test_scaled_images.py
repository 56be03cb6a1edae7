"""Images for Claude: sent with the pixels that the model uses, and stored as they are."""

from __future__ import annotations

import sys
from base64 import b64decode, b64encode
from io import BytesIO
from typing import Any

import pytest

from concertino.messages import Media, UserMessage
from concertino.providers.anthropic.request import request_body
from concertino.providers.base import ModelRequest
from concertino.providers.http.image_scaling import scaled

Image = pytest.importorskip("PIL.Image")


def picture(width: int, height: int, kind: str = "PNG", mode: str = "RGB", **settings: Any) -> Media:
    content = BytesIO()
    Image.radial_gradient("L").resize((width, height)).convert(mode).save(content, kind, **settings)
    return Media(f"image/{kind.lower()}", data=b64encode(content.getvalue()).decode(), name="ponds")


def opened(media: Media) -> Any:
    return Image.open(BytesIO(b64decode(media.data or "")))


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "WEBP"])
@pytest.mark.parametrize(("size", "sent"), [((400, 200), (100, 50)), ((200, 400), (50, 100)), ((100, 100), (100, 100))])
def test_a_large_image_keeps_its_shape_and_type(kind: str, size: tuple[int, int], sent: tuple[int, int]) -> None:
    media = picture(*size, kind)
    made = scaled(media, 100)
    assert (opened(made).size, opened(made).format) == (sent, kind)
    assert (made.media_type, made.name) == (media.media_type, media.name)
    assert scaled(media, 100) == made, "the same bytes each time"
    assert (made is media) == (size == sent)


@pytest.mark.parametrize("mode", ["P", "1", "RGBA", "LA"])
def test_an_image_of_any_mode_is_scaled(mode: str) -> None:
    assert opened(scaled(picture(300, 10, mode=mode), 100)).size == (100, 3)


def test_a_photograph_stays_upright() -> None:
    turned = Image.Exif()
    turned[0x0112] = 6  # a quarter turn
    assert opened(scaled(picture(400, 200, "JPEG", exif=turned), 100)).size == (50, 100)


def test_what_cannot_be_scaled_stays_as_it_is() -> None:
    frames = [Image.new("L", (300, 10), shade) for shade in (0, 255)]
    content = BytesIO()
    frames[0].save(content, "WEBP", save_all=True, append_images=frames[1:])
    animated = Media("image/webp", data=b64encode(content.getvalue()).decode())
    cut = picture(400, 200)
    damaged = Media("image/png", data=(cut.data or "")[:200])
    for media in (animated, damaged, Media("image/png", data="aGk="), Media("image/png", data="?")):
        assert scaled(media, 100) is media


def test_without_the_extra_images_stay_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "PIL.Image", None)
    media = picture(400, 200)
    assert scaled(media, 100) is media


def test_claude_gets_the_scaled_image_and_the_message_keeps_the_whole() -> None:
    message = UserMessage("look", (picture(3_000, 30),))
    request = ModelRequest(model="claude-opus-4-7", system="", messages=(message,))
    sent = request_body(request, 4_096, lambda _: []).data.decode()  # type: ignore[arg-type, return-value]
    assert str(message.media[0].data) not in sent
    assert str(scaled(message.media[0], 2_576).data) in sent
    assert opened(message.media[0]).size == (3_000, 30)
