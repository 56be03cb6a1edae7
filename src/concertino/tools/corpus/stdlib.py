"""This machine's Python standard library as documents: one for each module, class, function and help topic."""

from __future__ import annotations

import ast
import sys
import sysconfig
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from hashlib import blake2b
from pathlib import Path

from . import compiled, docstrings, plain
from .blocks import Document, first_heading
from .index import code_version
from .origin import Changes
from .rst import clean_inline
from .sources import Place, Sources, compiled_modules, is_public


class StandardLibrary:
    """An `Origin`: docstrings, read from source without importing it.

    Only modules without source are imported. One index serves every program that runs on the same Python.
    """

    name = "Python standard library"
    empty = (
        "corpus: this Python has no source of its standard library; install it (some systems have it in a package "
        "of its own), or name folders of your own"
    )

    def __init__(self) -> None:
        self._root = Path(sysconfig.get_path("stdlib"))
        identity = f"{sys.version} {self._root} {code_version()}"
        version = ".".join(map(str, sys.version_info[:3]))
        self.key = f"python-{version}-{blake2b(identity.encode(), digest_size=6).hexdigest()}"

    def changes(self, known: Mapping[str, str]) -> Changes:
        """All or nothing: the key of the index changes with the interpreter."""
        return Changes() if known else Changes(load=["*"])

    def remarks(self) -> Sequence[str]:
        """Nothing to say."""
        return ()

    def resolve(self, location: str) -> str:
        """Dotted names are what they are."""
        return location.removesuffix("()")

    def load(self, changes: Changes, stopped: Callable[[], bool]) -> Iterator[Document]:
        """Every document of the library, each location once."""
        if not changes:
            return
        seen: set[str] = set()
        for document in self._documents(stopped):
            if document.location not in seen:
                seen.add(document.location)
                yield document

    def _documents(self, stopped: Callable[[], bool]) -> Iterator[Document]:
        sources = Sources(self._root)
        for name in sources.paths:
            if stopped():
                return
            sources.module(name)
        contents: dict[str, list[tuple[str, str]]] = defaultdict(list)
        for place, location in sorted(sources.published().items(), key=lambda item: item[1]):
            if document := _definition(sources, place, location):
                contents[location.rpartition(".")[0]].append((location, _summary(document)))
                yield document
        for name in filter(is_public, sources.paths):
            module = sources.module(name)
            if module and (document := docstrings.module_document(module, sources.docstring(name), contents[name])):
                yield document
        for name in filter(is_public, compiled_modules()):
            if document := docstrings.listed_document(name, compiled.module_blocks(name), contents[name]):
                yield document
        yield from _topics(self._root / "pydoc_data" / "topics.py")


def _definition(sources: Sources, place: Place, location: str) -> Document | None:
    module = sources.module(place[0])
    if module is None:
        return compiled.object_document(*place, location)
    node = module.definitions.get(place[1])
    return docstrings.definition_document(module, node, location) if node else None


def _summary(document: Document) -> str:
    first = next((block.text for block in document.blocks if block.kind == "prose"), "")
    sentence = first.partition("\n")[0].partition(". ")[0]
    return sentence[:200].rstrip(".")


def _topics(path: Path) -> Iterator[Document]:
    """The language reference as `help()` shows it, which is the only prose on the language itself."""
    try:
        tree = ast.parse(path.read_bytes())
    except (OSError, SyntaxError, ValueError):
        return
    for node in tree.body:
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Dict):
            for name, text in ast.literal_eval(node.value).items():
                blocks = plain.parse(text.strip().split("\n"), clean_inline)
                title = first_heading(blocks) or name
                yield Document(location=f"help:{name}", title=f"{title} (language reference)", blocks=blocks)
