"""SIGKILL in the middle of each operation of a conversation."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from .conftest import shards

SHARDS = 40


def test_no_accepted_message_is_lost_and_none_is_answered_twice(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.crash.talker", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    lives = [json.loads(line) for line in done.stdout.splitlines()]
    assert [life["killed"] for life in lives] == [True] * (len(lives) - 1) + [False]
    assert {"queue_turn:after", "append:started:after", "append:ended:before"} <= {life.get("point") for life in lives}
    for life in lives:
        where = life.get("point", "the end")
        assert set(life["accepted"]) <= set(life["left"]), f"an accepted message was lost at {where}"
        assert life["turns"] == [["two", "one two", "completed"], ["one", "one", "completed"]], where
        assert life["all"] == 2, where


@pytest.mark.parametrize("shard", shards(SHARDS))
def test_every_operation_can_be_repeated_after_a_kill(tmp_path: Path, shard: int) -> None:
    """No accepted message is lost, no key has two turns, and the logs of all turns are complete."""
    command = [sys.executable, "-m", "tests.crash.conversation_program", str(tmp_path), str(shard + 1), str(SHARDS)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    lives = [json.loads(line) for line in done.stdout.splitlines()]
    assert [life["killed"] for life in lives] == [True] * (len(lives) - 1) + [False]
    assert len(lives) > 4, "the points are spread over the program"
    for life in lives:
        where = life.get("point", "the end")
        assert life.get("recovered"), f"recovery failed after a kill at {where}"
        before, after = dict(life["before"]), dict(life["after"])
        assert {*before.values()} - {before.get("other")} <= {*life["left"]}, f"an accepted message was lost at {where}"
        assert {**after, **before, "other": after["other"]} == after, f"a key has two turns after a kill at {where}"
        assert [message for message, _ in life["turns"]] == ["last", "never", "now", "one", "one", "slow", "uno"], where
        assert {state for message, state in life["turns"] if message != "slow"} == {"completed"}, where
        assert life["title"] == "Numbers", where
        assert life["logs"] == [[True, True]] * 7, where
        assert "undeleted" not in life, where
