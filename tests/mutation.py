"""Change single lines of the package at random, and print the changes that the related tests do not notice.

python -m tests.mutation --number 20 --seed 7
"""

from __future__ import annotations

import argparse
import ast
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = Path("src/concertino")
RELATED = {
    "agents": ("agents", "engine"),
    "cli": ("cli",),
    "orchestrator": ("engine", "runtime", "unit/orchestrator", "policy", "crash"),
    "providers": ("unit/providers", "wire"),
    "runtime": ("runtime", "crash"),
    "storage": ("conformance", "unit/storage", "runtime", "crash"),
    "testing": ("testing", "unit/testing"),
    "token_engine": ("token_engine", "unit/token_engine", "engine", "runtime"),
    "tools": ("unit/tools", "engine"),
}
HANGS = 900
"""Seconds after which a change counts as noticed: it has made a loop endless."""
OTHERS = ("unit", "engine", "runtime")
OPERATORS = {
    ast.Eq: ("==", "!="),
    ast.NotEq: ("!=", "=="),
    ast.Lt: ("<", "<="),
    ast.LtE: ("<=", "<"),
    ast.Gt: (">", ">="),
    ast.GtE: (">=", ">"),
    ast.Is: ("is", "is not"),
    ast.IsNot: ("is not", "is"),
    ast.In: ("in", "not in"),
    ast.NotIn: ("not in", "in"),
    ast.And: ("and", "or"),
    ast.Or: ("or", "and"),
    ast.Add: ("+", "-"),
    ast.Sub: ("-", "+"),
}


@dataclass(frozen=True)
class Mutation:
    """A change of one line."""

    path: Path
    line: int
    start: int
    end: int
    text: str

    def apply(self, root: Path) -> tuple[str, str]:
        """Change the file below *root*; return the line before and after."""
        lines = (ROOT / self.path).read_text().splitlines(keepends=True)
        before = lines[self.line - 1]
        encoded = before.encode()
        after = (encoded[: self.start] + self.text.encode() + encoded[self.end :]).decode()
        lines[self.line - 1] = after
        (root / self.path).write_text("".join(lines))
        return before.strip(), after.strip()


def mutations(path: Path) -> Iterator[Mutation]:
    """Yield all changes of a file."""
    source = (ROOT / path).read_text()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.expr | ast.stmt) and node.lineno == node.end_lineno and node.end_col_offset is not None:
            for start, end, text in _changes(node, source.splitlines()[node.lineno - 1].encode()):
                yield Mutation(path, node.lineno, start, end, text)


def _changes(node: ast.expr | ast.stmt, line: bytes) -> Iterator[tuple[int, int, str]]:
    start, end = node.col_offset, node.end_col_offset or 0
    match node:
        case ast.Constant(value=bool(value)):
            yield start, end, str(not value)
        case ast.Constant(value=int(value)):
            yield start, end, str(value + 1)
        case ast.UnaryOp(op=ast.Not()):
            yield start, start + len("not "), ""
        case ast.Compare(left=left, ops=[operator], comparators=[right]):
            yield from _swap(left, operator, right, line)
        case ast.BoolOp(op=operator, values=[left, right]):
            yield from _swap(left, operator, right, line)
        case ast.BinOp(left=left, op=operator, right=right):
            yield from _swap(left, operator, right, line)
        case ast.Expr(value=ast.Call() | ast.Await()) if not line.strip().startswith((b"log.", b"super()")):
            yield start, end, "pass"


def _swap(left: ast.expr, operator: ast.AST, right: ast.expr, line: bytes) -> Iterator[tuple[int, int, str]]:
    if type(operator) not in OPERATORS:
        return
    old, new = OPERATORS[type(operator)]
    begin = left.end_col_offset or 0
    if found := re.search(rb"(?<![\w=<>!])" + re.escape(old.encode()) + rb"(?![\w=])", line[begin : right.col_offset]):
        yield begin + found.start(), begin + found.end(), new


def survives(mutation: Mutation, root: Path) -> bool:
    """Return whether the related tests pass with a change that was applied below *root*."""
    folders = RELATED.get(mutation.path.relative_to(PACKAGE).parts[0], OTHERS)
    tests = [f"tests/{folder}" for folder in folders if (ROOT / "tests" / folder).is_dir()]
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-n", "auto", "--dist", "loadfile", "-p", "no:cacheprovider"]
    environment = os.environ | {"PYTHONPATH": str(root / "src")}
    try:
        subprocess.run([*command, *tests], cwd=ROOT, env=environment, capture_output=True, check=True, timeout=HANGS)
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired):
        return False
    return True


def main() -> None:
    """Try a random sample."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--number", type=int, default=20)
    parser.add_argument("--seed", type=int, default=random.randrange(10_000))
    parser.add_argument("--under", default="", help="a folder or file below src/concertino")
    chosen = parser.parse_args()
    under = PACKAGE / chosen.under
    files = [under] if under.suffix else sorted(path.relative_to(ROOT) for path in (ROOT / under).rglob("*.py"))
    found = [mutation for path in files for mutation in mutations(path)]
    sample = random.Random(chosen.seed).sample(found, min(chosen.number, len(found)))
    print(f"seed {chosen.seed}: {len(sample)} of {len(found)} changes")
    survivors = 0
    for mutation in sample:
        with tempfile.TemporaryDirectory() as folder:
            shutil.copytree(ROOT / "src", Path(folder) / "src")
            before, after = mutation.apply(Path(folder))
            alive = survives(mutation, Path(folder))
        survivors += alive
        print(
            f"{'SURVIVED' if alive else 'killed':8} {mutation.path}:{mutation.line}\n  - {before}\n  + {after}",
            flush=True,
        )
    print(f"{len(sample) - survivors} killed, {survivors} survived")


if __name__ == "__main__":
    main()
