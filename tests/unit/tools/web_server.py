"""A small HTTP server on the loopback address, for tests of the web library."""

from __future__ import annotations

from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Thread
from types import TracebackType
from typing import Any, Self


@dataclass
class Reply:
    """A response of the server. With *hangs*, it sends nothing until it is closed."""

    body: bytes = b""
    content_type: str = "text/html"
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    hangs: bool = False


@dataclass
class Request:
    """A request that the server received."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes


class WebServer:
    """Serve replies by path, and 404 for an unknown path."""

    def __init__(self) -> None:
        self.replies: dict[str, Reply] = {}
        self.requests: list[Request] = []
        self.closing = Event()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                outer.answer(self)

            do_POST = do_GET  # noqa: N815  the name is the base class's

            def log_message(self, *args: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.port = self._server.server_address[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self._thread = Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})

    def answer(self, handler: BaseHTTPRequestHandler) -> None:
        length = int(handler.headers.get("content-length") or 0)
        headers = {name.lower(): value for name, value in handler.headers.items()}
        self.requests.append(Request(handler.command, handler.path, headers, handler.rfile.read(length)))
        reply = self.replies.get(handler.path.partition("?")[0], Reply(b"nothing here", "text/plain", 404))
        if reply.hangs:
            self.closing.wait()
            return
        try:
            handler.send_response(reply.status)
            if reply.content_type:
                handler.send_header("Content-Type", reply.content_type)
            handler.send_header("Content-Length", str(len(reply.body)))
            for name, value in reply.headers.items():
                handler.send_header(name, value)
            handler.end_headers()
            handler.wfile.write(reply.body)
        except ConnectionError:
            pass  # the client had enough

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.closing.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
