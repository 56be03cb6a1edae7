"""A local server that speaks Chat Completions, for examples that call a model server of the reader."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

ANSWER = "Air scatters blue light more than red light."
HEADERS = {"content-type": "text/event-stream", "connection": "close"}


def _stream() -> Iterator[bytes]:
    """Yield the lines of a streamed answer."""
    chunk: dict[str, Any] = {"id": "1", "model": "qwen3", "object": "chat.completion.chunk", "created": 1}
    deltas = [{"role": "assistant", "content": word} for word in ANSWER.split(" ")]
    for delta in deltas:
        delta["content"] += " " * (delta is not deltas[-1])
    for delta, reason in [*((delta, None) for delta in deltas), ({}, "stop")]:
        choice = {"index": 0, "delta": delta, "finish_reason": reason}
        yield f"data: {json.dumps({**chunk, 'choices': [choice]})}\n\n".encode()
    usage = {"prompt_tokens": 20, "completion_tokens": 9, "total_tokens": 29}
    yield f"data: {json.dumps({**chunk, 'choices': [], 'usage': usage})}\n\n".encode()
    yield b"data: [DONE]\n\n"


class _Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        self.send_response(200)
        for header in HEADERS.items():
            self.send_header(*header)
        self.end_headers()
        self.wfile.writelines(_stream())

    def log_message(self, *_: object) -> None:
        """Write nothing."""


@contextmanager
def ollama(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Serve the models `ollama:...` from this process."""
    with ThreadingHTTPServer(("127.0.0.1", 0), _Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        monkeypatch.setenv("OLLAMA_HOST", f"127.0.0.1:{server.server_port}")
        try:
            yield
        finally:
            server.shutdown()
            thread.join()
