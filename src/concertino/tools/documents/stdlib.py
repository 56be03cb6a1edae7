"""The standard library of the running Python, as a collection of documents."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

from ...errors import CorpusError
from .document import Document

_SECONDS = 120
_DOCTEST = re.compile(r"^([ \t]*)>>> .*(?:\n[ \t]*\S.*)*", re.MULTILINE)
_UNDERLINED = re.compile(r"^(\S.*)\n([*=\-~^])\2{2,}$", re.MULTILINE)
_MARKUP = re.compile(r"(?::[\w+:-]{1,40}:)?(`{1,2})[~!]?([^`\n]+?)(?:\s*<[^<>`\n]*>)?\1_{0,2}")


class StandardLibrary:
    """Docstrings of modules, classes and functions, and the topics of `help()`, which describe the language.

    They are read once for each Python, by a process that imports the modules in isolation.
    """

    name = "Python standard library"

    def __init__(self) -> None:
        self.key = f"python-{'.'.join(map(str, sys.version_info[:3]))}-{sys.implementation.name}"
        self._documents: dict[str, Document] = {}

    def scan(self, known: Mapping[str, str]) -> Mapping[str, str]:
        """Return the stamps of the index; without one, read all docstrings.

        Raises `CorpusError` if they cannot be read.
        """
        if not known and not self._documents:
            self._documents = {document.location: document for document in _read()}
        return dict.fromkeys(self._documents, sys.version) if not known else known

    def read(self, location: str) -> Document:
        """Return a document of the last scan."""
        return self._documents[location]

    def remarks(self) -> Iterable[str]:
        """Return nothing: modules without docstrings are of no interest."""
        return ()

    def resolve(self, location: str) -> str:
        """Return a dotted name without a call's parentheses."""
        return location.removesuffix("()")


def _read() -> Iterable[Document]:
    command = [sys.executable, "-I", "-W", "ignore", str(Path(__file__).with_name("docstrings.py"))]
    try:
        done = subprocess.run(command, capture_output=True, timeout=_SECONDS, check=True, stdin=subprocess.DEVNULL)
    except (OSError, subprocess.SubprocessError) as error:
        raise CorpusError(
            f"cannot read the docstrings of {sys.executable} ({error}); name folders of documents instead"
        ) from error
    for line in done.stdout.decode().splitlines():
        if line.startswith('{"location"'):
            row = json.loads(line)
            yield Document(row["title"], _to_markdown(row["text"]), location=row["location"])


def _to_markdown(text: str) -> str:
    """Return a docstring as Markdown: headings, doctests, and the roles of reStructuredText as code."""
    text = _UNDERLINED.sub(r"## \1", text)
    text = _DOCTEST.sub(lambda match: f"{match[1]}```pycon\n{match[0]}\n{match[1]}```", text)
    return _MARKUP.sub(r"`\2`", text)
