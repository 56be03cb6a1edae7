"""The docstrings of the running Python's standard library, as a collection of documents.

Run as a program, this file imports every module of the library and prints the docstrings as JSON.
`StandardLibrary` runs it in another process, since a product should not import modules that it does not use.
"""

from __future__ import annotations

import contextlib
import importlib
import inspect
import io
import json
import pkgutil
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..tools.documents.markdown import ReadDocument

_LEFT_OUT = {"test", "tests", "idlelib", "turtledemo", "lib2to3", "ensurepip", "distutils", "pydoc_data",
             "this", "site", "antigravity", "tkinter", "turtle", "posix", "nt", "posixpath", "ntpath",
             "genericpath"}  # fmt: skip
_HEADING = re.compile(r"^(\S.*)\n([*=\-~^])\2{2,}$", re.MULTILINE)
_ROLE = re.compile(r"(?::[\w+:-]{1,40}:)?(`{1,2})[~!]?([^`\n]+?)(?:\s*<[^<>`\n]*>)?\1_{0,2}")


class StandardLibrary:
    """Modules, classes, functions, and the topics of `help()`, which describe the language."""

    name = "Python standard library"
    key = f"python-{'.'.join(map(str, sys.version_info[:3]))}"

    def scan(self, known: Mapping[str, str]) -> Mapping[str, str]:
        """Return the stamps *known* to the index; if it is empty, read all docstrings. Raises `OSError`."""
        if known:
            return known
        command = [sys.executable, "-I", "-W", "ignore", __file__]
        done = subprocess.run(command, capture_output=True, timeout=300, check=False, stdin=subprocess.DEVNULL)
        if done.returncode:
            raise OSError(f"{sys.executable} cannot list its docstrings: {done.stderr.decode(errors='replace')[-300:]}")
        self._documents: dict[str, tuple[str, str]] = json.loads(done.stdout)
        return dict.fromkeys(self._documents, "installed")

    def read(self, location: str) -> ReadDocument:
        """Return a document of the last scan. It is read in this process: it belongs to the installed Python."""
        from ..tools.documents.markdown import Document, ReadDocument, chunks  # noqa: PLC0415 - this file also runs alone

        title, text = self._documents[location]
        found: list[str] = []
        for part in re.split(r"\n(?:[ \t]*\n)+", _HEADING.sub(r"## \1", text)):
            indent = len(part) - len(part.lstrip(" "))
            announced = indent and found and found[-1].endswith((":", "\n```"))
            is_code = part.lstrip().startswith(">>>") or announced
            found.append(
                f"```\n{inspect.cleandoc(part)}\n```" if is_code else inspect.cleandoc(part) if indent < 8 else part
            )
        document = Document(_ROLE.sub(r"`\2`", "\n\n".join(found)), title)
        return ReadDocument(title, list(chunks(document, location)))

    def remarks(self) -> Sequence[str]:
        """Return nothing: no docstring is left out."""
        return ()


def _modules() -> Iterator[tuple[str, Any]]:
    names = sorted(sys.stdlib_module_names)
    for name in names:
        last = name.rpartition(".")[2]
        with contextlib.suppress(BaseException):  # also the `SystemExit` of modules that are programs
            if not last.startswith("_") and last not in _LEFT_OUT:
                yield name, (module := importlib.import_module(name))
                names += [f"{name}.{found.name}" for found in pkgutil.iter_modules(getattr(module, "__path__", ()))]
    yield "os.path", sys.modules["os.path"]


def _members(name: str, module: Any) -> Iterator[tuple[str, Any]]:
    """Yield the public classes and functions of a module; those of a package also if they come from its modules."""
    listed = getattr(module, "__all__", ())
    for member in sorted({*listed, *(() if listed and not hasattr(module, "__path__") else vars(module))}):
        value = getattr(module, member, None)
        own = (getattr(value, "__module__", None) or name).lstrip("_").partition(".")[0] == name.partition(".")[0]
        if callable(value) and not member.startswith("_") and (own or member in listed):
            yield f"{name}.{member}", value


def _described(value: Any, name: str) -> str:
    """Return signature and docstring; empty without a docstring of its own."""
    text = inspect.getdoc(value) or ""
    if text in (object.__doc__, object.__init__.__doc__) or (
        not inspect.isclass(value) and text == type(value).__doc__
    ):
        return ""
    with contextlib.suppress(Exception):  # not every built-in function has a signature
        kind = "class " if inspect.isclass(value) else "async " if inspect.iscoroutinefunction(value) else ""
        text = f"```python\n{kind}{name}{str(inspect.signature(value))[:400]}\n```\n\n{text}" if text else ""
    return text


def _with_methods(value: Any, name: str) -> str:
    found, short = [_described(value, name)], name.rpartition(".")[2]
    for member in vars(value) if inspect.isclass(value) else ():
        if not member.startswith("_") or member == "__init__":
            with contextlib.suppress(Exception):  # reading an attribute may run code that fails
                method = getattr(value, member)
                alias = getattr(method, "__name__", member) != member and method.__name__ in vars(value)
                text = "" if alias else _described(method, f"{short}.{member}")
                found.append(f"### {short}.{member}\n\n{text}" if text else "")
    return "\n\n".join(filter(None, found))


def _print_documents() -> None:
    """Print a JSON object: title and text of each document by its location."""
    names: dict[int, tuple[str, Any]] = {}
    found: dict[str, tuple[str, str]] = {}
    for module_name, module in _modules():
        found[module_name] = (f"{module_name} (module)", inspect.getdoc(module) or "")
        for name, value in _members(module_name, module):
            known = names.get(id(value), (name,))[0]  # the shortest of its names is the best known
            names[id(value)] = (min(known, name, key=lambda one: (one.count("."), len(one))), value)
    for name, value in names.values():
        short, kind = name.removeprefix("builtins."), "class" if inspect.isclass(value) else "function"
        found[name] = (f"{short} ({kind})", _with_methods(value, short))
    for topic, text in importlib.import_module("pydoc_data.topics").topics.items():
        found[f"help:{topic}"] = (f"{text.strip().partition(chr(10))[0].strip('*= ')} (language reference)", text)
    print(json.dumps({location: document for location, document in found.items() if document[1]}), file=sys.__stdout__)


if __name__ == "__main__":
    with contextlib.redirect_stdout(io.StringIO()):  # some modules print when they are imported
        _print_documents()
