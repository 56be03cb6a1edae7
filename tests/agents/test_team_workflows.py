"""The example's workflows, end to end on real files: a review, an investigation and a release, without a key."""

from __future__ import annotations

import asyncio
import subprocess
from pathlib import Path

import pytest
from examples.team_workflows import make_team
from examples.team_workflows.tools import git

from concertino import Chat, RunResult, Runtime, Scope, SqliteStore

ANN = Scope("acme", "ann")


async def commit(folder: Path, subject: str, **files: str) -> None:
    for name, text in files.items():
        write(folder / f"{name}.py", text)
    await git(folder, "add", "--all")
    await git(folder, "-c", "user.name=a", "-c", "user.email=a@b.example", "commit", "--quiet", "-m", subject)


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "work").mkdir()
    return tmp_path / "work"


async def play(folder: Path, name: str, goal: str, *, approve: bool = True) -> RunResult:
    """Run a workflow, and approve what waits."""
    async with await SqliteStore.open(folder.parent / "runs.db") as store:
        runtime: Runtime = make_team(store, folder, facts=folder.parent / "facts")
        async with runtime:
            result = await (await runtime.start(Chat(goal, scope=ANN), name)).result()
            for wait in result.waiting:
                await (runtime.approve(ANN, wait.key) if approve else runtime.deny(ANN, wait.key, "not yet"))
            if result.waiting:
                result = await (await runtime.resume(ANN, result.run_id)).result()
    return result


async def test_a_change_is_reviewed_and_a_second_review_reads_only_what_has_changed(folder: Path) -> None:
    await git(folder, "init", "--quiet")
    await commit(folder, "Begin", base="x = 1\n")
    await commit(folder, "Add a", a="def f():\n    pass  # TODO finish\n", b="y = 2\n", c="z = 3\n")
    await commit(folder, "Add d", d='password = "hunter22"\n')
    first = await play(folder, "review-change", "HEAD~2..HEAD")
    assert first.status == "completed", first.error
    assert first.text.startswith("Risk: high.")
    assert "a.py:2: an open point" in first.text
    assert "d.py:1: a possible secret" in first.text
    second = await play(folder, "review-change", "HEAD~2..HEAD")
    assert second.text == first.text
    assert sum(second.tool_calls.values()) <= sum(first.tool_calls.values()) / 2
    await commit(folder, "Change b", b="y = 2  # FIXME\n")
    third = await play(folder, "review-change", "HEAD~3..HEAD")
    assert "b.py:1: an open point" in third.text
    assert sum(third.tool_calls.values()) == sum(second.tool_calls.values()) + 1


async def test_a_range_is_never_an_option_of_git(folder: Path) -> None:
    await git(folder, "init", "--quiet")
    result = await play(folder, "review-change", "--output=x")
    assert (result.status, result.error) == (
        *("failed", "step 'list': '--output=x' names no commits: use a range such as HEAD~20..HEAD"),
    )


async def test_an_incident_is_investigated_from_its_logs(folder: Path) -> None:
    write(folder / "logs" / "app.log", "2026-01-02T10:00:05 ERROR timeout\n2026-01-02T10:00:07 INFO ok\n")
    write(folder / "logs" / "db.log", "2026-01-02T10:00:01 ERROR disk full\n2026-01-02T10:00:02 ERROR disk full\n")
    write(folder / "logs" / "web.log", "2026-01-02T09:00:00 INFO started\n")
    result = await play(folder, "investigate-incident", "logs")
    assert result.text == (
        "It began with: 2026-01-02T10:00:01 ERROR disk full\n\n3 errors in 3 logs. The first of all, by its time: "
        "2026-01-02T10:00:01 ERROR disk full"
    )


async def test_a_release_is_prepared_after_a_person_has_approved_it(folder: Path) -> None:
    await git(folder, "init", "--quiet")
    await commit(folder, "Begin", base="x = 1\n")
    await git(folder, "tag", "1.0")
    await commit(folder, "Fix the count", base="x = 2\n")
    await commit(folder, "Add a name", base="x = 3\n")
    denied = await play(folder, "prepare-release", "1.1", approve=False)
    assert (denied.status, "not yet" in str(denied.error)) == ("failed", True)
    result = await play(folder, "prepare-release", "1.1")
    assert result.text == "RELEASE-1.1.md is written."
    notes = await asyncio.to_thread((folder / "RELEASE-1.1.md").read_text)
    assert "## Fixes\n- Fix the count\n## Changes\n- Add a name" in notes
    assert "Begin" not in notes


async def test_the_notes_of_a_folder_without_tags_name_the_newest_commits(folder: Path) -> None:
    """A long history must fit into the answer of a model."""
    await git(folder, "init", "--quiet")
    subjects = [f"Change {number} of the shelves, their labels and all that is on them" for number in range(102)]
    person = "A <a@example.org> 1700000000 +0000"
    commits = [f"commit refs/heads/main\ncommitter {person}\ndata {len(each)}\n{each}\n" for each in subjects]
    command = ["git", "-C", str(folder), "fast-import", "--quiet"]
    await asyncio.to_thread(subprocess.run, command, input="".join(commits).encode(), check=True)
    await git(folder, "symbolic-ref", "HEAD", "refs/heads/main")
    await play(folder, "prepare-release", "1.1")
    notes = await asyncio.to_thread((folder / "RELEASE-1.1.md").read_text)
    assert subjects[-1] in notes
    assert subjects[1] not in notes
    assert "2 older commits, not listed" in notes


async def test_an_unknown_folder_of_logs_fails_at_once(folder: Path) -> None:
    result = await play(folder, "investigate-incident", "nowhere")
    assert result.status == "failed"
    assert "there is no folder 'nowhere'" in str(result.error)
