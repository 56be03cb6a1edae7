"""`--app MODULE:NAME`: each wrong value is refused in one line that names the part that is wrong."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.cli.conftest import Cli, Shop

MODULE = """
import json as other
from concertino.runtime import Runtime
import_of = 3
def make_runtime(store, agents): ...
def make_nothing(store): ...
def make_trouble(store):
    raise RuntimeError("no \\nkey")
def leave(store):
    raise SystemExit("no key")
"""


@pytest.mark.parametrize(
    ("app", "says"),
    [
        ("product", "invalid --app 'product': use MODULE:NAME"),
        (":x", "use MODULE:NAME"),
        ("product:", "use MODULE:NAME"),
        ("./product:make", "use MODULE:NAME"),
        ("product.py:make.it", "use MODULE:NAME"),
        ("nowhere.at_all:make", "there is no module 'nowhere' in "),
        ("product.part:make", "there is no module 'product.part' in "),
        ("needs_nowhere:make", "needs_nowhere cannot be imported: ModuleNotFoundError: No module named 'nowhere'"),
        ("unreadable:make", "unreadable cannot be imported: SyntaxError"),
        ("product:make_runtimes", "has no 'make_runtimes': did you mean 'make_runtime'?"),
        ("product:import_of", "'import_of' is 3: name a function"),
        ("product:other", "'other' is <module 'json'"),
        ("product:Runtime", "'Runtime' is <class"),
        ("product:make_runtime", "'make_runtime' must take one argument, the store: missing a required argument"),
        ("product:make_nothing", "returned None: it must return"),
        ("product:make_trouble", "failed: RuntimeError: no key ("),
        ("product:leave", "failed: SystemExit: no key ("),
    ],
)
def test_an_invalid_app_is_refused_in_one_line(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, app: str, says: str
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    names = ("product", "needs_nowhere", "unreadable")
    for name, text in zip(names, (MODULE, "import nowhere", "def f(:"), strict=True):
        monkeypatch.delitem(sys.modules, name, raising=False)
        (tmp_path / f"{name}.py").write_text(text)
    done = cli("worker", "list", "--app", app, "--db", "runs.db")
    assert (done.returncode, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith(("concertino: --app", "concertino: invalid --app"))
    assert says in line
    if app in ("product:make_trouble", "product:leave"):
        assert "product.py, line " in line


@pytest.mark.parametrize(
    "command",
    [
        "worker run w goal",
        "workflow run w goal",
        "workflow resume RUN",
        "serve",
        pytest.param("mcp serve", marks=pytest.mark.slow),
        "eval clerk",
        "replay RUN",
        "runs resume RUN",
        "runs fork RUN --step 1",
        "runs test RUN",
    ],
)
def test_each_command_refuses_an_invalid_app(shop: Shop, cli: Cli, command: str) -> None:
    given = command.replace("RUN", shop("clerk", "supplier")).split()
    done = cli(*given, "--app", "tests.cli.shop:make_runtimes", "--db", "runs.db")
    assert done.returncode == 2
    assert "did you mean 'make_runtime'?" in done.stderr
