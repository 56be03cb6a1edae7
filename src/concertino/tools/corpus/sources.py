"""The modules of the standard library by their source, and the public names of what they define."""

from __future__ import annotations

import ast
import importlib.machinery
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

_LEFT_OUT = {
    "test", "idlelib", "turtledemo", "lib2to3", "ensurepip", "distutils", "pydoc_data", "this", "antigravity",
    "__phello__", "__hello__", "site-packages", "__pycache__", "tests", "__main__", "encodings",
}  # fmt: skip
_NEVER_NAMED = {"posix", "nt", "posixpath", "ntpath", "genericpath"}
"""Modules whose contents are known as parts of `os` and `os.path`."""

Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
Place = tuple[str, str]
"""The module in which something is defined, and its name there."""


@dataclass(slots=True)
class Module:
    """A module, read but not imported."""

    name: str
    is_package: bool
    lines: list[str]
    docstring: str | None
    listed: set[str]
    """The names in `__all__`, as far as they are written out."""
    definitions: dict[str, Definition] = field(default_factory=dict)
    imported: dict[str, Place] = field(default_factory=dict)
    starred: list[str] = field(default_factory=list)
    """The modules from which it imports everything."""


def is_public(name: str) -> bool:
    """Whether a dotted name is meant for everyone."""
    return not any(part.startswith("_") for part in name.split(".")) and name not in _NEVER_NAMED


def _paths(root: Path) -> Iterator[tuple[str, Path]]:
    for top in sorted(sys.stdlib_module_names - _LEFT_OUT):
        if (file := root / f"{top}.py").is_file():
            yield top, file
        package = root / top
        for path in sorted(package.rglob("*.py")) if (package / "__init__.py").is_file() else ():
            parts = path.relative_to(root).with_suffix("").parts
            if not _LEFT_OUT.intersection(parts):
                yield ".".join(parts[:-1] if parts[-1] == "__init__" else parts), path


def statements(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements of a body, those inside `if` and `try` included."""
    for node in body:
        yield node
        if isinstance(node, ast.If):
            yield from statements([*node.body, *node.orelse])
        elif isinstance(node, ast.Try):
            handlers = [inner for handler in node.handlers for inner in handler.body]
            yield from statements([*node.body, *node.orelse, *handlers, *node.finalbody])


class Sources:
    """All modules with source, parsed when they are asked for."""

    def __init__(self, root: Path) -> None:
        self.paths = dict(_paths(root))
        self._modules: dict[str, Module | None] = {}
        self._exports: dict[str, dict[str, Place]] = {}

    def module(self, name: str) -> Module | None:
        """The module of this name; None where it has no source, or none that can be parsed."""
        if name not in self._modules:
            self._modules[name] = self._parse(name)
        return self._modules[name]

    def _parse(self, name: str) -> Module | None:
        path = self.paths.get(name)
        try:
            source = path.read_bytes() if path else b""
            tree = ast.parse(source)
        except (OSError, SyntaxError, ValueError):
            return None
        if path is None:
            return None
        lines = source.decode("utf-8", "replace").splitlines()
        docstring = ast.get_docstring(tree, clean=False) or _assigned_docstring(tree)
        module = Module(name, path.stem == "__init__", lines, docstring, _listed(tree))
        for node in statements(tree.body):
            self._bind(module, node)
        return module

    def _bind(self, module: Module, node: ast.stmt) -> None:
        if isinstance(node, Definition):
            _prune(node)
            # The first one is the one written in Python; a later one may stand in an `except ImportError`.
            module.definitions.setdefault(node.name, node)
        elif isinstance(node, ast.ImportFrom):
            origin = _origin(module, node)
            for alias in node.names:
                if alias.name == "*":
                    module.starred.append(origin)
                else:
                    module.imported.setdefault(alias.asname or alias.name, (origin, alias.name))

    def exports(self, name: str) -> dict[str, Place]:
        """What a module offers: each public name with the place where it is defined."""
        if name not in self._exports:
            self._exports[name] = {}  # modules may import each other
            self._exports[name] = self._found(name)
        return self._exports[name]

    def _found(self, name: str) -> dict[str, Place]:
        module = self.module(name)
        if module is None:
            return {member: (name, member) for member in compiled_members(name)}
        found: dict[str, Place] = {}
        for starred in module.starred:
            found.update(self.exports(starred))
        listed = module.listed
        for imported, (origin, original) in module.imported.items():
            inside = module.is_package and origin.startswith(f"{name}.")
            # What a private module holds is known by the names under which public ones offer it.
            wrapped = origin.startswith("_") and imported == original
            if (imported in listed or inside or wrapped) and not imported.startswith("_"):
                found[imported] = self.exports(origin).get(original, (origin, original))
        own = (defined for defined in module.definitions if defined in listed or not defined.startswith("_"))
        found.update({defined: (name, defined) for defined in own if not listed or defined in listed})
        if module.is_package:
            found |= self._lazy(name, listed - found.keys())
        return found

    def _lazy(self, package: str, names: set[str]) -> dict[str, Place]:
        """What a package lists and imports only on demand: looked for in its modules."""
        inside = [name for name in self.paths if name.startswith(f"{package}.")] if names else []
        found: dict[str, Place] = {}
        for name in inside:
            module = self.module(name)
            found.update({member: (name, member) for member in names if module and member in module.definitions})
        return found

    def docstring(self, name: str) -> str | None:
        """A module's docstring, or that of the private module which it wraps."""
        module = self.module(name)
        if module is None or module.docstring:
            return module.docstring if module else None
        wrapped = [self.module(starred) for starred in module.starred if starred.startswith("_")]
        return max((inner.docstring or "" for inner in wrapped if inner), key=len, default="") or None

    def published(self) -> dict[Place, str]:
        """The best public dotted name of everything that a public module offers: the shortest."""
        names: dict[Place, str] = {}
        ranks: dict[Place, tuple[bool, int, int]] = {}
        public = [name for name in [*self.paths, *compiled_modules()] if is_public(name)]
        for module, shown in [*((name, name) for name in public), (_os_path(), "os.path")]:
            source = self.module(module)
            for member, place in self.exports(module).items():
                name = f"{shown}.{member}"
                # A name in `__all__` is meant; others may be there by the way.
                rank = (bool(source and source.listed and member not in source.listed), name.count("."), len(name))
                if not member.startswith("_") and (place not in ranks or rank < ranks[place]):
                    names[place], ranks[place] = name, rank
        return names


def _os_path() -> str:
    return "ntpath" if "nt" in sys.builtin_module_names else "posixpath"


def _assigned_docstring(tree: ast.Module) -> str | None:
    """What a module such as `hashlib` assigns to `__doc__` below a comment."""
    for node in tree.body:
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant):
            names = [target.id for target in node.targets if isinstance(target, ast.Name)]
            if "__doc__" in names and isinstance(node.value.value, str):
                return node.value.value
    return None


def _origin(module: Module, node: ast.ImportFrom) -> str:
    if not node.level:
        return node.module or ""
    parts = module.name.split(".")
    kept = parts[: len(parts) - node.level + module.is_package]
    return ".".join([*kept, *([node.module] if node.module else [])])


def _prune(node: Definition) -> None:
    """Forget the bodies of functions: the whole library in memory would take hundreds of megabytes."""
    if isinstance(node, ast.ClassDef):
        for inner in node.body:
            if isinstance(inner, Definition):
                _prune(inner)
    else:
        node.body = [*node.body[:1]]


def _listed(tree: ast.Module) -> set[str]:
    names: set[str] = set()
    for node in statements(tree.body):
        value = _list_value(node)
        for part in ast.walk(value) if value else ():
            if isinstance(part, ast.Constant) and isinstance(part.value, str):
                names.add(part.value)
    return names


def _list_value(node: ast.stmt) -> ast.expr | None:
    """What a statement puts into `__all__`, if it does."""
    match node:
        case ast.Assign(targets=[ast.Name(id="__all__")], value=value):
            return value
        case ast.AugAssign(target=ast.Name(id="__all__"), value=value):
            return value
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name(id="__all__"))) as call):
            return call
        case _:
            return None


@cache
def compiled_modules() -> list[str]:
    """Modules without source: built into the interpreter, or extension files of the standard library."""
    skipped = ("_test", "xx", "_xx", "_ctypes_test", "__")
    deprecated = {"nis", "ossaudiodev", "spwd", "msilib", "audioop"}
    # Importing readline writes to some terminals.
    names = (sys.stdlib_module_names & _extensions()) - deprecated - {"readline", "_tkinter"}
    return sorted(name for name in names if not name.startswith(skipped))


def _extensions() -> set[str]:
    found = set(sys.builtin_module_names)
    suffixes = tuple(importlib.machinery.EXTENSION_SUFFIXES)
    for folder in map(Path, sys.path):
        if folder.name in ("lib-dynload", "DLLs") and folder.is_dir():
            found |= {file.name.partition(".")[0] for file in folder.iterdir() if file.name.endswith(suffixes)}
    return found


def compiled(name: str) -> object | None:
    """A module without source, imported; None where that fails."""
    if name not in compiled_modules():
        return None
    try:
        return importlib.import_module(name)
    except Exception:  # noqa: BLE001  a broken extension of someone's build is no reason to do without the others
        return None


def compiled_members(name: str) -> list[str]:
    """The public names of a module without source."""
    module = compiled(name)
    return [member for member in vars(module) if not member.startswith("_")] if module else []
