"""The tools of the workflows: git, logs and files of one folder."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from pathlib import Path

from concertino import Tool, ToolContext, ToolError, ToolResult, tool

FINDINGS: dict[str, Callable[[str], bool]] = {
    "an open point": lambda line: bool(re.search(r"\b(TODO|FIXME|XXX)\b", line)),
    "a debugging aid": lambda line: bool(re.match(r"\s*(breakpoint\(\)|import pdb|console\.log\()", line)),
    "a swallowed exception": lambda line: bool(re.match(r"\s*except( Exception)?:\s*(pass)?$", line)),
    "a possible secret": lambda line: bool(re.search(r"(password|secret|api_key)\s*=\s*['\"]\w{6,}", line, re.I)),
    "a merge conflict": lambda line: line.startswith(("<<<<<<< ", ">>>>>>> ")),
}
_SUBJECTS = 100
"""Commits whose subjects are listed: notes must fit into an answer of a model."""
_ERROR = re.compile(r"\b(ERROR|CRITICAL|FATAL)\b")
_REF = re.compile(r"[\w./~^@-]+(\.\.[\w./~^@-]+)?")


async def git(folder: Path, *arguments: str) -> str:
    process = await asyncio.create_subprocess_exec(
        "git", *arguments, cwd=folder, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    output, error = await process.communicate()
    if process.returncode:
        raise ToolError(error.decode(errors="replace").strip() or "git has failed")
    return output.decode(errors="replace")


def commits(value: str) -> str:
    """Return *value* if it names commits; it must never be read as an option of git."""
    if value.startswith("-") or not _REF.fullmatch(value):
        raise ToolError(f"{value!r:.80} names no commits: use a range such as HEAD~20..HEAD")
    return value


def below(folder: Path, path: str) -> Path:
    found = (folder / path).resolve()
    if not found.is_relative_to(folder.resolve()):
        raise ToolError(f"{path!r:.80} is outside the folder")
    return found


@tool(effect="read")
async def changed_files(range: str, context: ToolContext) -> list[str]:
    """List the files that a range of commits adds or changes."""
    names = (await git(context.deps, "diff", "--name-only", "--diff-filter=AM", commits(range))).splitlines()
    return [name for name in names if name.endswith((".py", ".md", ".js", ".toml", ".yaml"))]


@tool(effect="read")
async def read_change(range: str, file: str, context: ToolContext) -> ToolResult:
    """Find points in the lines that a range adds to a file."""
    diff = await git(context.deps, "diff", "--unified=0", commits(range), "--", file)
    found, number, added = [], 0, 0
    for line in diff.splitlines():
        if hunk := re.match(r"@@ -\S+ \+(\d+)", line):
            number = int(hunk[1]) - 1
        elif line.startswith("+") and not line.startswith("+++"):
            number, added = number + 1, added + 1
            found += [f"{file}:{number}: {name}" for name, matches in FINDINGS.items() if matches(line[1:])]
    text = "; ".join(found) or "no finding"
    return ToolResult(
        f"{added} lines added. {text}", data={"facts": [{"source": file, "text": text}], "findings": found}
    )


@tool(effect="read")
async def log_files(folder: str, context: ToolContext) -> list[str]:
    """List the log files of a folder."""
    base = context.deps
    if not below(base, folder).is_dir():
        raise ToolError(f"there is no folder {folder!r}: name one below {base}")
    return sorted(str(path.relative_to(base.resolve())) for path in below(base, folder).glob("**/*.log"))


@tool(effect="read")
async def errors_of(file: str, context: ToolContext) -> ToolResult:
    """Find the errors in a log; each line begins with its time."""
    lines = below(context.deps, file).read_text("utf-8", "replace").splitlines()
    found = [f"{line[:200]}" for line in lines if _ERROR.search(line)]
    text = "\n".join(found[:20]) or "no errors"
    facts = [{"source": file, "text": f"{len(found)} errors; the first: {found[0] if found else 'none'}"}]
    return ToolResult(f"{len(found)} errors\n{text}", data={"facts": facts})


@tool(effect="read")
async def commits_since_tag(context: ToolContext) -> list[str]:
    """List the subjects of the commits since the last tag, or of all commits without one; the newest 100 of them."""
    try:
        tag = (await git(context.deps, "describe", "--tags", "--abbrev=0")).strip()
    except ToolError:
        tag = ""
    subjects = (
        await git(context.deps, "log", "--no-merges", "--format=%s", *([f"{tag}..HEAD"] if tag else []))
    ).splitlines()
    older = len(subjects) - _SUBJECTS
    return [*subjects[:_SUBJECTS], *([f"{older} older commits, not listed"] if older > 0 else [])]


@tool(effect="idempotent")
async def write_notes(version: str, notes: str, context: ToolContext) -> str:
    """Write the release notes."""
    path = below(context.deps, f"RELEASE-{version}.md")
    path.write_text(f"# {version}\n\n{notes}\n", "utf-8")
    return path.name


TOOLS: tuple[Tool, ...] = (
    *(changed_files, read_change, log_files, errors_of),
    *(commits_since_tag, write_notes),
)
