"""Sphinx's settings for the documentation site: `make site` builds it from the pages in this folder."""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, TypeGuard

ROOT = Path(__file__).resolve().parents[1]
REPOSITORY = "https://github.com/concertino/concertino/blob/main/"
sys.path.insert(0, str(ROOT / "src"))

import concertino  # noqa: E402

project = "concertino"
author = project_copyright = "concertino contributors"
release = version = concertino.__version__
extensions = ["myst_parser", "sphinx.ext.autodoc"]
highlight_language = "text"
default_role = "code"

html_theme = "furo"
html_title = f"concertino {version}"
html_copy_source = False

myst_heading_anchors = 4  # the anchors that GitHub gives to headings

autodoc_member_order = "bysource"
autodoc_preserve_defaults = True  # defaults as in the code, without addresses of objects
autodoc_default_options = {"members": True, "undoc-members": True}


def link_repository(_app: Any, _page: str, source: list[str]) -> None:
    """Let links to files outside this folder lead to the repository."""
    source[0] = source[0].replace("](../", f"]({REPOSITORY}")


def describe_names(_app: Any, page: str, source: list[str]) -> None:
    """Add the public names of a package to its page. A name of `concertino` is described there only."""
    if not page.startswith("api/") or page == "api/index":
        return
    module = import_module(source[0].split()[1])  # the heading is `# concertino.tools`
    names = public_names(module)
    if module is not concertino:
        names = [name for name in names if name not in concertino.__all__]
    body = "\n".join(line for name in names for line in description(module, name))
    source[0] += f"\n```{{eval-rst}}\n.. automodule:: {module.__name__}\n   :no-members:\n\n{body}\n```\n"


def public_names(module: Any) -> list[str]:
    """Return the names that a module exports."""
    own = [name for name, value in vars(module).items() if getattr(value, "__module__", "") == module.__name__]
    return [name for name in getattr(module, "__all__", own) if not name.startswith("_")]


def description(module: Any, name: str) -> Iterator[str]:
    """Yield the directive for one name."""
    value = getattr(module, name)
    if inspect.isclass(value):
        yield f".. autoclass:: {module.__name__}.{name}"
        bases = {base.__name__: base for base in value.__mro__[1:]}
        hidden = {base for base in bases if is_hidden(module, bases[base])}
        if hidden:  # their members are described here only
            yield f"   :inherited-members: {', '.join(sorted(bases.keys() - hidden))}"
    elif inspect.isroutine(value):
        yield f".. autofunction:: {module.__name__}.{name}"
    else:
        yield from (f".. py:data:: {name}", "")
        yield from (f"   {line}" for line in definition(module, name).splitlines())
    yield ""


def is_hidden(module: Any, base: type) -> bool:
    """Return whether a base class of a public class is described nowhere."""
    exported = {*concertino.__all__, *public_names(module)}
    return base.__module__.startswith("concertino.") and base.__name__ not in exported


def definition(module: Any, name: str) -> str:
    """Return a constant's or an alias's value and the text after it; autodoc does not find those of imported names."""
    for path in sorted(Path(module.__file__ or "").parent.rglob("*.py")):
        body = ast.parse(path.read_text()).body
        for statement, following in zip(body, [*body[1:], ast.Pass()], strict=True):
            match statement:
                case ast.Assign(targets=[ast.Name(id=found)], value=value) if found == name:
                    text = following.value.value if is_text(following) else ""
                    return f"{inspect.cleandoc(text)}\n\n``{' '.join(ast.unparse(value).split()):.300}``"
    return ""


def is_text(statement: ast.stmt) -> TypeGuard[Any]:
    """Return whether a statement is a string, which documents the statement before it."""
    return isinstance(statement, ast.Expr) and isinstance(getattr(statement.value, "value", None), str)


def mark_code(*event: Any) -> None:
    """Make literal blocks of the indented examples in docstrings."""
    lines = event[-1]
    for number in range(len(lines) - 1, 1, -1):
        if lines[number].startswith("    ") and not lines[number - 1] and not lines[number - 2].startswith(" "):
            lines[number:number] = ["::", ""]


def setup(app: Any) -> None:
    """Register the functions above."""
    app.connect("source-read", link_repository)
    app.connect("source-read", describe_names)
    app.connect("autodoc-process-docstring", mark_code)
