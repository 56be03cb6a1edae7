"""A receiver of OTLP over HTTP gets the spans of a run with a sub-agent, a retry, a crash and an approval."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

PROGRAM = [sys.executable, "-m", "tests.observability.program"]
pytestmark = pytest.mark.slow


class Receiver(ThreadingHTTPServer):
    """Stores all spans that it is sent."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.spans: list[Any] = []


class Handler(BaseHTTPRequestHandler):
    server: Receiver

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        if self.headers.get("content-encoding") == "gzip":
            import gzip

            body = gzip.decompress(body)
        for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
            for scope in resource.scope_spans:
                self.server.spans.extend(scope.spans)
        self.send_response(200)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, format: str, *arguments: Any) -> None:
        pass


@contextmanager
def receiving() -> Iterator[Receiver]:
    """Run a receiver in a thread."""
    with Receiver() as receiver:
        thread = threading.Thread(target=receiver.serve_forever)
        thread.start()
        try:
            yield receiver
        finally:
            receiver.shutdown()
            thread.join()


def attributes(span: Any) -> dict[str, Any]:
    """Return the attributes of a span."""
    return {each.key: getattr(each.value, each.value.WhichOneof("value")) for each in span.attributes}


def test_the_spans_of_two_processes_form_one_trace(tmp_path: Path) -> None:
    with receiving() as receiver:
        address = f"http://127.0.0.1:{receiver.server_port}"
        first = subprocess.run([*PROGRAM, str(tmp_path / "runs.db"), address, "start"], check=False, timeout=300)
        assert first.returncode == -signal.SIGKILL
        before = len(receiver.spans)
        subprocess.run([*PROGRAM, str(tmp_path / "runs.db"), address, "resume"], check=True, timeout=300)
    spans = receiver.spans
    assert {span.trace_id for span in spans} == {spans[0].trace_id}, "one trace"
    by_id = {span.span_id: span for span in spans}

    def above(span: Any) -> list[str]:
        parent = by_id.get(span.parent_span_id)
        return [] if parent is None else [parent.name, *above(parent)]

    named: dict[str, list[Any]] = {}
    for span in spans:
        named.setdefault(span.name, []).append(span)
    (query,) = named["query"]
    # The span of the run itself died with its process; what was below it is there.
    assert above(query) == ["execute_tool look", "invoke_agent clerk", "execute_tool clerk"]
    retried = named["chat script"][0]
    (failed,) = retried.events
    assert failed.name == "concertino.attempt.failed"
    assert {each.key: each.value.string_value for each in failed.attributes}["error.type"] == "OverloadedError"
    resumed = named["invoke_agent chief"]
    assert [attributes(span)["concertino.run.status"] for span in resumed] == ["suspended", "completed"]
    assert all(attributes(span)["concertino.run.resumed"] for span in resumed)
    assert all(above(span) == ["request"] for span in resumed)
    waited, paid = named["execute_tool pay"]
    assert attributes(waited)["concertino.wait.kind"] == "approval"
    assert "concertino.wait.kind" not in attributes(paid)
    assert before < len(spans)
