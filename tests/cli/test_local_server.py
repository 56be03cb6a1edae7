"""`--model openai-compatible:NAME`: a local server without a key."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from tests.cli.conftest import Cli

pytest.importorskip("openai")


@pytest.fixture
def server() -> Iterator[HTTPServer]:
    """A server that answers every chat completion with one sentence."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            common: dict[str, object] = {
                "id": "1",
                "object": "chat.completion.chunk",
                "created": 0,
                "model": body["model"],
            }
            chunks: list[dict[str, object]] = [
                {"choices": [{"index": 0, "delta": {"role": "assistant", "content": "Red apples."}}]},
                {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]},
                {"choices": [], "usage": {"prompt_tokens": 20, "completion_tokens": 3, "total_tokens": 23}},
            ]
            events = [f"data: {json.dumps({**common, **chunk})}\n\n" for chunk in chunks]
            content = "".join([*events, "data: [DONE]\n\n"]).encode()
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *arguments: object) -> None:
            """Write no log."""

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_local_server_needs_no_key(cli: Cli, corpus: Path, server: HTTPServer) -> None:
    env = {"OPENAI_COMPATIBLE_URL": f"http://127.0.0.1:{server.server_address[1]}/v1"}
    arguments = ("chat", "Apples?", "--corpus", "pages", "--model", "openai-compatible:small", "--json")
    done = cli(*arguments, env=env)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["report"] == "Red apples."
    assert found["totals"]["tokens"]["prompt"] == 20
    assert found["totals"]["cost"] is None  # no price list has this model
    assert "cost unknown" in done.stderr


def test_help_names_the_local_server(cli: Cli) -> None:
    for command in ("research", "chat"):
        text = " ".join(cli(command, "--help").stdout.split())
        assert "ollama:NAME" in text
        assert "OPENAI_COMPATIBLE_URL" in text


@pytest.mark.parametrize(
    ("model", "part"),
    [("openai-compatible:small", "OPENAI_COMPATIBLE_URL"), ("ollama", "ollama"), ("vllm:small", "openai-compatible")],
)
def test_an_incomplete_model_is_refused(cli: Cli, corpus: Path, model: str, part: str) -> None:
    done = cli("chat", "Apples?", "--corpus", "pages", "--model", model)
    assert (done.returncode, done.stdout) == (2, "")
    assert part in done.stderr
