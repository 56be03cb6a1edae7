"""Owners of claims: a process is dead only if that is certain."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from concertino.storage import process
from concertino.storage.process import is_dead, process_owner


def child() -> subprocess.Popen[bytes]:
    """Start a process that ends with its standard input."""
    return subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)


def test_an_owner_is_dead_only_if_certain() -> None:
    mine = process_owner()
    assert process_owner() != mine
    assert not is_dead(mine)
    prefix, host, boot, space, pid, started, nonce = mine.split("/")
    if not started:
        pytest.skip("there is no /proc to tell a process from its successor")
    assert is_dead("/".join((prefix, host, boot, space, pid, str(int(started) + 1), nonce)))
    assert is_dead("/".join((prefix, host, boot, space, str(2**22 + 7), started, nonce)))
    for other in (
        "/".join((prefix, "elsewhere", boot, space, str(2**22 + 7), started, nonce)),
        "/".join((prefix, host, boot, space + "1", str(2**22 + 7), started, nonce)),
        "/".join((prefix, host, "other boot", space, str(2**22 + 7), started, nonce)),
        "worker 7",
        "a/b/c/d/e/f",
        "",
    ):
        assert not is_dead(other)


def test_owners_without_proc(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(process, "_PROC", tmp_path)
    process._machine_of.cache_clear()
    process._this_process.cache_clear()
    try:
        mine = process_owner()
        with child() as started:
            other = mine.split("/")
            other[4] = str(started.pid)
            assert not is_dead("/".join(other))
            started.kill()
            started.wait()
            assert is_dead("/".join(other))
        assert not is_dead(mine)
    finally:
        process._machine_of.cache_clear()
        process._this_process.cache_clear()
