"""Prints the docstrings of the running Python's standard library as JSON lines.

`stdlib.py` runs this file in a process of its own, since it imports every module of the library. It imports nothing of
this package.
"""

import contextlib
import importlib
import inspect
import io
import json
import pkgutil
import sys
import warnings
from collections.abc import Iterator
from types import ModuleType
from typing import Any

_LEFT_OUT = {
    "test", "idlelib", "turtledemo", "lib2to3", "ensurepip", "distutils", "pydoc_data", "this", "antigravity",
    "tkinter", "turtle", "posix", "nt", "posixpath", "ntpath", "genericpath", "site", "sitecustomize", "sre_compile",
    "sre_parse", "sre_constants",
}  # fmt: skip
_INHERITED = {object.__init__.__doc__, object.__doc__}


def modules() -> Iterator[tuple[str, ModuleType]]:
    """Import the public modules. Modules that fail to import are left out."""
    names = [name for name in sorted(sys.stdlib_module_names) if not name.startswith("_") and name not in _LEFT_OUT]
    while names:
        name = names.pop(0)
        try:
            module = importlib.import_module(name)
        except BaseException:  # noqa: BLE001, S112 - also SystemExit of modules that are programs
            continue
        yield name, module
        for found in pkgutil.iter_modules(getattr(module, "__path__", ())):
            if not found.name.startswith("_") and found.name not in {"tests", "test"}:
                names.append(f"{name}.{found.name}")
    yield "os.path", sys.modules["os.path"]


def members(name: str, module: ModuleType) -> Iterator[tuple[str, Any]]:
    """Yield the public classes and functions of a module."""
    listed = getattr(module, "__all__", None)
    for member in sorted({*(listed or ()), *(() if listed and not hasattr(module, "__path__") else vars(module))}):
        value = getattr(module, member, None)
        own = (getattr(value, "__module__", None) or name).lstrip("_").partition(".")[0]
        if member.startswith("_") or inspect.ismodule(value) or not callable(value):
            continue
        if member in (listed or ()) or own == name.partition(".")[0]:
            yield member, value


def described(value: Any, name: str) -> str:
    """Return the signature and docstring of *value* as Markdown; empty if it has no docstring of its own."""
    text = inspect.getdoc(value) or ""
    if text in _INHERITED or (not inspect.isclass(value) and text == inspect.getdoc(type(value))):
        return ""
    try:
        signature = str(inspect.signature(value))
    except (ValueError, TypeError):
        signature = ""
    kind = "class " if inspect.isclass(value) else "async " if inspect.iscoroutinefunction(value) else ""
    head = f"```python\n{kind}{name}{signature[:400]}\n```\n\n" if signature else ""
    return head + text if text else ""


def methods(cls: type, name: str) -> Iterator[str]:
    """Yield a section for each documented method and property."""
    for member, value in vars(cls).items():
        if (not member.startswith("_") or member == "__init__") and (callable(value) or inspect.isdatadescriptor(value)):
            with contextlib.suppress(Exception):
                if text := described(getattr(cls, member, value), f"{name}.{member}"):
                    yield f"### {name}.{member}\n\n{text}"


def main() -> None:
    """Print one object a line: `location`, `title` and `text`."""
    named: dict[int, tuple[tuple[int, int], str, Any]] = {}
    contents: dict[str, str] = {}
    for name, module in modules():
        contents[name] = inspect.getdoc(module) or ""
        for member, value in members(name, module):
            shown = f"{name}.{member}"
            rank = (shown.count("."), len(shown))  # the shortest of its public names is the best known
            if id(value) not in named or rank < named[id(value)][0]:
                named[id(value)] = (rank, shown, value)
    for _, shown, value in named.values():
        short = shown.removeprefix("builtins.")
        own = methods(value, short.rpartition(".")[2]) if inspect.isclass(value) else ()
        text = "\n\n".join(filter(None, (described(value, short), *own)))
        if text:
            kind = "class" if inspect.isclass(value) else "function"
            print(json.dumps({"location": shown, "title": f"{short} ({kind})", "text": text}))
    for name, text in contents.items():
        if text:
            print(json.dumps({"location": name, "title": f"{name} (module)", "text": text}))
    topics = importlib.import_module("pydoc_data.topics").topics
    for topic, text in topics.items():
        heading = text.strip().partition("\n")[0].strip("*= ")
        print(json.dumps({"location": f"help:{topic}", "title": f"{heading} (language reference)", "text": text}))


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    printed, sys.stdout = sys.stdout, io.StringIO()  # modules may print when they are imported
    with contextlib.redirect_stdout(io.StringIO()):
        pass
    sys.stdout = printed
    main()
