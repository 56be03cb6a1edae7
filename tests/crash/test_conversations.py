"""SIGKILL at every write of a conversation of two messages, the second of which is queued."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path


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
