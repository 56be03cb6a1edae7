"""A fork server: each connection brings one line of JSON, the orders, and gets a process of its own, which writes lines
back: its pid, what it stops at, and how it ended. A connection that ends without a last line was killed."""

from __future__ import annotations

import json
import os
import signal
import socket
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

Run = Callable[[dict[str, Any], socket.socket], dict[str, Any]]


def say(talk: socket.socket, record: dict[str, Any]) -> None:
    """Tell the test."""
    talk.sendall(json.dumps(record).encode() + b"\n")


def child_process(talk: socket.socket, run: Run) -> None:
    """Be the forked process; never return."""
    try:
        lines = talk.makefile("r")
        orders = json.loads(lines.readline())
        say(talk, {"pid": os.getpid()})
        if orders.get("waits_to_go"):
            lines.readline()
        say(talk, {"done": run(orders, talk)})
    except BaseException as error:  # noqa: BLE001 - it is told to the test
        say(talk, {"done": None, "error": f"{error!r}", "trace": traceback.format_exc()})
    finally:
        os._exit(0)


def serve(path: str, run: Run) -> None:
    """Fork for each connection, until killed."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # no zombies
    server = socket.socket(socket.AF_UNIX)
    server.bind(path + ".new")
    server.listen(64)
    Path(path + ".new").rename(path)
    while True:
        talk, _ = server.accept()
        if os.fork() == 0:
            server.close()
            child_process(talk, run)
        talk.close()
