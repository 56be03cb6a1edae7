"""Functions that worker processes call in tests. `None` does not return a value."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Any
from unittest.mock import patch

from concertino.tools.documents.files import parse


def echo(value: Any) -> Any:
    return value


def spin() -> None:
    while True:
        pass


def sleep() -> None:
    time.sleep(600)


def allocate() -> int:
    return len(bytearray(3_000_000_000))


def fail() -> None:
    raise ValueError("no")


def leave() -> None:
    os._exit(3)


def print_much() -> str:
    print("x" * 100)
    sys.stdout.write("y")
    return "printed"


def environment() -> list[str]:
    return sorted(os.environ)


def write(path: str) -> None:
    Path(path).write_text("x" * 100_000)


def process_id() -> int:
    return os.getpid()


def nest() -> Any:
    value: list[Any] = []
    for _ in range(100_000):
        value = [value]
    return value


def hang_on_page(url: str, data: str, content_type: str) -> None:
    time.sleep(600)


def fail_on_page(url: str, data: str, content_type: str) -> None:
    raise ValueError("no")


def parse_or_harm(suffix: str, text: str, location: str) -> Any:
    """Parse a document, unless its text is the name of a function above."""
    if text in ("allocate", "fail", "leave", "spin"):
        return globals()[text]()
    return {"no": "document"} if text == "lie" else parse(suffix, text, location)


def parse_without_trafilatura(suffix: str, text: str, location: str) -> Any:
    with patch.dict(sys.modules, trafilatura=None):
        return parse(suffix, text, location)
