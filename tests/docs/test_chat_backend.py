"""`examples/chat_backend.py` as a product runs it: processes on one file, which are killed, and a model server."""

from __future__ import annotations

import base64
import itertools
import json
import os
import queue
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from decimal import Decimal
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from concertino import Tokens
from concertino.providers import price

PROGRAM = Path(__file__).resolve().parents[2] / "examples" / "chat_backend.py"
KEYS = {"acme": "key-of-acme", "globex": "key-of-globex"}
ADDRESS = "ann@example.org"
IMAGE = base64.b64encode(b"\x89PNG\r\n\x1a\n and a picture").decode()
PDF = base64.b64encode(b"%PDF-1.4 for bills@example.net").decode()
SECONDS = 60.0

Json = dict[str, Any]


# -- the model server ----------------------------------------------------------------------------------------------


class ModelServer(ThreadingHTTPServer):
    """Speaks Chat Completions and keeps a log. While it *holds*, it stops in the middle of each answer."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.holds = False
        self.log: list[Json] = []
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()

    def note(self, key: str, body: Json) -> Json:
        """Add a request to the log. A message of a user names the user, as in `(ann)`."""
        with self._lock:
            number = next(self._numbers)
            usage = {"prompt_tokens": 100 + number, "completion_tokens": 10 + number}
            entry = {"key": key, "body": body, "usage": usage, "complete": False}
            self.log.append(entry)
            return entry

    def of(self, user: str) -> list[Json]:
        """The requests for a user."""
        return [entry for entry in self.log if f"({user})" in json.dumps(entry["body"])]


class _Handler(BaseHTTPRequestHandler):
    server: ModelServer

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        entry = self.server.note(self.headers["authorization"].removeprefix("Bearer "), body)
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("connection", "close")
        self.end_headers()
        deltas = answer_to(body, len(self.server.log))
        half = len(deltas) // 2
        self._send(*deltas[:half])
        if self.server.holds:
            with suppress(ConnectionError):
                self.connection.recv(1)  # returns when the client is gone
            return
        self._send(*deltas[half:])
        reason = "tool_calls" if "tool_calls" in deltas[-1] else "stop"
        self._chunk({"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]})
        entry["complete"] = True
        self._chunk({"choices": [], "usage": entry["usage"]})
        self.wfile.write(b"data: [DONE]\n\n")

    def _send(self, *deltas: Json) -> None:
        for delta in deltas:
            self._chunk({"choices": [{"index": 0, "delta": delta, "finish_reason": None}]})

    def _chunk(self, values: Json) -> None:
        chunk = {"id": "1", "model": "gpt-5-mini", "object": "chat.completion.chunk", "created": 1, **values}
        self.wfile.write(f"data: {json.dumps(chunk)}\n\n".encode())
        self.wfile.flush()

    def log_message(self, *_: object) -> None:
        """Write nothing."""


def answer_to(body: Json, number: int) -> list[Json]:
    """The pieces of an answer: a tool call if the user wants what a tool does, else words."""
    messages = body["messages"]
    last = messages[-1]
    text = text_of(next(message for message in reversed(messages) if message["role"] == "user"))
    if "Sort the message" in text_of(messages[0]):
        return words('{"topic": "refund", "urgent": true}')
    if "Write a title" in text_of(messages[0]):
        return words("Where Orders Go")
    if last["role"] == "tool":
        return words(f"It is done: {text_of(last)}")
    if "refund" in text:
        return called(number, "refund", {"order": "A7", "euros": 80})
    if "remember" in text:
        return called(number, "store_memory", {"text": f"the user likes tea, says {ADDRESS}"})
    return words(f"Answer {number} goes to {ADDRESS} and to nobody else in the world.")


def words(text: str) -> list[Json]:
    return [{"role": "assistant", "content": word} for word in text.replace(" ", " \0").split("\0")]


def called(number: int, name: str, arguments: Json) -> list[Json]:
    call = {"index": 0, "id": f"call-{number}", "type": "function"}
    function = {"name": name, "arguments": json.dumps(arguments)}
    return [{"role": "assistant", "content": "One moment."}, {"tool_calls": [{**call, "function": function}]}]


def text_of(message: Json) -> str:
    content = message["content"]
    if isinstance(content, list):
        return " ".join(part.get("text", "") for part in content)
    return content or ""


# -- the processes -------------------------------------------------------------------------------------------------


class Process:
    """A running backend. Requests are lines that are sent; replies are read by the id of their request."""

    def __init__(self, folder: Path, url: str) -> None:
        models = {f"{tenant.upper()}_KEY": key for tenant, key in KEYS.items()}
        models |= {f"{tenant.upper()}_URL": url for tenant in KEYS}
        self._process = subprocess.Popen(
            [sys.executable, str(PROGRAM), str(folder / "chat.db")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, **models},
        )
        self._ids = itertools.count(1)
        self._replies: dict[int, queue.Queue[Json]] = {}
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def ask(self, who: str, do: str, **arguments: Any) -> Replies:
        """Send a request of a person, such as `acme/ann`."""
        tenant, user = who.split("/")
        id = next(self._ids)
        self._replies[id] = queue.Queue()
        assert self._process.stdin is not None
        request = {"id": id, "do": do, "tenant": tenant, "user": user, **arguments}
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        return Replies(self._replies[id])

    def get(self, who: str, do: str, **arguments: Any) -> Any:
        """Send a request and return its result."""
        reply = self.ask(who, do, **arguments).next()
        assert "error" not in reply, reply
        return reply["result"]

    def refused(self, who: str, do: str, **arguments: Any) -> str:
        """Send a request that is refused, and return the kind of the error."""
        return str(self.ask(who, do, **arguments).next()["error"])

    def say(self, who: str, text: str, **arguments: Any) -> Stream:
        """Send a message to the chat `c1` and read its stream to the end."""
        return self.ask(who, "send", **{"chat": "c1", "text": text, **arguments}).stream()

    def kill(self) -> None:
        """End the process as a crash does."""
        self._process.kill()
        self._gone()

    def finish(self) -> None:
        """End the input, and wait until the process has answered everything."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._gone()
        assert self._process.returncode == 0

    def _gone(self) -> None:
        self._process.wait(SECONDS)
        self._reader.join()
        for stream in (self._process.stdin, self._process.stdout):
            assert stream is not None
            with suppress(BrokenPipeError):
                stream.close()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            with suppress(ValueError):  # a line that a kill cut
                reply = json.loads(line)
                self._replies[reply.pop("id")].put(reply)


class Replies:
    """The replies to one request."""

    def __init__(self, replies: queue.Queue[Json]) -> None:
        self._replies = replies

    def next(self) -> Json:
        return self._replies.get(timeout=SECONDS)

    def until(self, *types: str) -> Stream:
        """Read a stream until events of these types have come, one after another."""
        stream = Stream(self.next()["turn"])
        for type in types:
            stream.add(self.next())
            while stream.events[-1]["type"] != type:
                stream.add(self.next())
        return stream

    def stream(self) -> Stream:
        """Read a stream to its end."""
        first = self.next()
        assert "error" not in first, first
        stream = Stream(first["turn"])
        while "done" not in (reply := self.next()):
            stream.add(reply)
        return stream


class Stream:
    """The events of a turn."""

    def __init__(self, turn: str) -> None:
        self.turn = turn
        self.events: list[Json] = []
        self.number = 0

    def add(self, reply: Json) -> None:
        assert reply["number"] > self.number
        self.number = reply["number"]
        self.events.append(reply["event"])

    def has(self, type: str) -> bool:
        return any(event["type"] == type for event in self.events)

    @property
    def result(self) -> Json:
        assert self.events[-1]["type"] == "run_ended"
        result: Json = self.events[-1]["result"]
        return result

    @property
    def text(self) -> str:
        return str(self.result["text"])


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with ModelServer() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


Start = Callable[[], Process]


@pytest.fixture
def start(tmp_path: Path, server: ModelServer) -> Iterator[Start]:
    """Start a process on the test's database."""
    processes = []

    def start() -> Process:
        processes.append(Process(tmp_path, f"http://127.0.0.1:{server.server_port}/v1"))
        return processes[-1]

    yield start
    for process in processes:
        process.kill()


# -- what must hold after all that happens -------------------------------------------------------------------------


def content(folder: Path) -> bytes:
    """Everything in the database's files."""
    return b"".join(path.read_bytes() for path in folder.glob("chat.db*"))


def payments(folder: Path) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(folder / "chat.payments")) as database:
        return database.execute("SELECT tenant, user, number, euros FROM payments").fetchall()


def check_keys(server: ModelServer, **users: str) -> None:
    """Each request had the key of its user's tenant."""
    assert len(server.log) == sum(len(server.of(user)) for user in users)
    for user, tenant in users.items():
        assert {entry["key"] for entry in server.of(user)} == {KEYS[tenant]}


def settle(process: Process, server: ModelServer, user: str, *turns: str) -> None:
    """Book what the server billed for the answers that it did not complete, in their order."""
    cut = [entry for entry in server.of(user) if not entry["complete"]]
    tenant = next(tenant for tenant, key in KEYS.items() if key == cut[0]["key"])
    attempts = [(turn, id) for turn in turns for id in process.get(f"{tenant}/lead", "unsettled", turn=turn)]
    for (turn, attempt), entry in zip(attempts, cut, strict=True):
        billed = {"tokens": list(entry["usage"].values()), "dollars": str(cost(entry))}
        assert process.refused(f"{tenant}/{user}", "settle", turn=turn, attempt=attempt, **billed) == "NotAllowedError"
        process.get(f"{tenant}/lead", "settle", turn=turn, attempt=attempt, **billed)


def check_bill(server: ModelServer, bill: list[Json], *users: str) -> None:
    """Each user's bill is what the server's log says."""
    assert [line["user"] for line in bill] == sorted(users)
    for line in bill:
        entries = server.of(line["user"])
        assert (line["attempts"], line["estimated"], line["unknown"]) == (len(entries), 0, 0)
        assert line["prompt"] == sum(entry["usage"]["prompt_tokens"] for entry in entries)
        assert line["completion"] == sum(entry["usage"]["completion_tokens"] for entry in entries)
        assert Decimal(line["cost"]) == sum(map(cost, entries))


def cost(entry: Json) -> Decimal:
    """The price of a request in the list of prices."""
    found, _ = price("openai", "gpt-5-mini", Tokens(*entry["usage"].values()), None)
    assert found
    return found


# -- the tests -----------------------------------------------------------------------------------------------------


def test_a_stream_that_a_kill_cuts_is_continued(tmp_path: Path, server: ModelServer, start: Start) -> None:
    first = start()
    server.holds = True
    cut = first.ask("acme/ann", "send", chat="c1", text=f"(ann) I am {ADDRESS}", key="m1").until("text_delta")
    server.holds = False
    first.kill()
    assert ADDRESS.encode() not in content(tmp_path)

    second = start()
    rest = second.ask("acme/ann", "events", chat="c1", turn=cut.turn, after=cut.number).stream()
    assert rest.has("voided")
    assert rest.text == "Answer 2 goes to [email] and to nobody else in the world."
    assert second.say("acme/ann", f"(ann) I am {ADDRESS}", key="m1").turn == cut.turn
    assert [entry["complete"] for entry in server.log] == [False, True]
    (turn,) = second.get("acme/ann", "history", chat="c1")
    assert (turn["message"], turn["answer"], turn["state"]) == ("(ann) I am [email]", rest.text, "completed")
    (line,) = second.get("acme/ann", "bill")
    assert (line["attempts"], line["unknown"]) == (2, 1)
    settle(second, server, "ann", cut.turn)
    check_bill(server, second.get("acme/lead", "bill"), "ann")
    second.finish()
    check_keys(server, ann="acme")


def test_an_approval_survives_a_kill_and_is_answered_elsewhere(
    tmp_path: Path, server: ModelServer, start: Start
) -> None:
    first = start()
    sent = first.ask("acme/ann", "send", chat="c1", text=f"(ann) a refund, says {ADDRESS}", key="m1")
    waiting = sent.until("call_waiting")
    while first.get("acme/ann", "history", chat="c1")[0]["state"] != "waiting":
        pass  # the event is stored first
    first.kill()
    assert ADDRESS.encode() not in content(tmp_path)

    second, third = start(), start()
    (turn,) = second.get("acme/ann", "history", chat="c1")
    assert (turn["run_id"], turn["state"]) == (waiting.turn, "waiting")
    follow = second.ask("acme/ann", "events", chat="c1", turn=waiting.turn, after=waiting.number)
    (wait,) = third.get("acme/lead", "waits")
    assert wait["arguments"] == {"order": "A7", "euros": 80}
    assert third.get("globex/lead", "waits") == []
    assert third.refused("globex/lead", "answer", key=wait["key"], approve=True) == "UnknownWaitError"
    assert third.refused("acme/ann", "answer", key=wait["key"], approve=True) == "NotAllowedError"
    assert third.get("acme/lead", "answer", key=wait["key"], approve=True) is True
    assert third.get("acme/lead", "answer", key=wait["key"], approve=False) is False
    assert follow.stream().text == "It is done: 80 euros for order A7 are paid back"
    assert second.say("acme/ann", "(ann) a refund", key="m1").turn == waiting.turn
    check_bill(server, third.get("acme/lead", "bill"), "ann")
    second.finish()
    third.finish()
    assert payments(tmp_path) == [("acme", "ann", "A7", 80)]
    assert len(server.log) == 2
    check_keys(server, ann="acme")


def test_branches_and_media_survive_kills_between_turns(tmp_path: Path, server: ModelServer, start: Start) -> None:
    first = start()
    one = first.say("acme/ann", "(ann) one")
    assert "".join(event["text"] for event in one.events if event["type"] == "text_delta") == one.text
    first.kill()

    second = start()
    files = [{"type": "image/png", "data": IMAGE}, {"type": "application/pdf", "data": PDF, "name": f"{ADDRESS}.pdf"}]
    seen = second.say("acme/ann", "(ann) what is this?", media=files)
    sent = [message for message in server.log[-1]["body"]["messages"] if message["role"] in ("user", "assistant")]
    assert [text_of(message).strip() for message in sent] == ["(ann) one", one.text, "(ann) what is this?"]
    parts = {part["type"]: part for part in sent[-1]["content"]}
    assert parts["image_url"]["image_url"]["url"] == f"data:image/png;base64,{IMAGE}"
    assert parts["file"]["file"] == {"filename": "[email]", "file_data": f"data:application/pdf;base64,{PDF}"}
    second.kill()

    third = start()
    other = third.ask("acme/ann", "regenerate", chat="c1", turn=seen.turn).stream()
    assert IMAGE in json.dumps(server.log[-1]["body"])
    edited = third.ask("acme/ann", "edit", chat="c1", turn=seen.turn, text=f"(ann) or {ADDRESS}?").stream()
    third.kill()

    fourth = start()
    assert [turn["run_id"] for turn in fourth.get("acme/ann", "history", chat="c1")] == [one.turn, edited.turn]
    assert fourth.get("acme/ann", "switch", chat="c1", turn=seen.turn) == seen.turn
    shown = fourth.get("acme/ann", "history", chat="c1")
    assert [turn["answer"] for turn in shown] == [one.text, seen.text]
    assert shown[-1]["siblings"] == [seen.turn, other.turn, edited.turn]
    fourth.get("acme/ann", "branch", chat="c1", turn=one.turn)
    after = fourth.say("acme/ann", "(ann) another way")
    assert [turn["run_id"] for turn in fourth.get("acme/ann", "history", chat="c1")] == [one.turn, after.turn]
    bill = fourth.get("acme/lead", "bill")
    check_bill(server, bill, "ann")
    assert PDF.encode() in content(tmp_path)  # as long as the policy keeps media
    fourth.get("acme/ann", "delete", chat="c1")
    assert PDF.encode() not in content(tmp_path)
    assert fourth.get("acme/lead", "bill") == bill
    fourth.finish()
    assert ADDRESS.encode() not in content(tmp_path)
    check_keys(server, ann="acme")


def test_a_stopped_turn_makes_room_for_the_queued_one(tmp_path: Path, server: ModelServer, start: Start) -> None:
    first = start()
    server.holds = True
    cut = first.ask("acme/ann", "send", chat="c1", text="(ann) stop me").until("text_delta")
    turn = first.ask("acme/ann", "send", chat="c1", text=f"(ann) remember tea, says {ADDRESS}", key="m2").next()["turn"]
    assert turn != cut.turn
    first.kill()
    assert ADDRESS.encode() not in content(tmp_path)  # also not in the queue

    second = start()
    second.ask("acme/ann", "events", chat="c1", turn=cut.turn, after=cut.number).until("voided", "text_delta")
    server.holds = False
    second.get("acme/ann", "stop", chat="c1", turn=cut.turn)
    assert second.say("acme/ann", "(ann) remember tea", key="m2").turn == turn
    shown = second.get("acme/ann", "history", chat="c1")
    assert [turn["state"] for turn in shown] == ["cancelled", "completed"]
    assert shown[0]["answer"]
    second.say("acme/ann", "(ann) what tea do I like?", chat="c2")
    assert "the user likes tea, says [email]" in json.dumps(server.log[-1]["body"])
    assert [entry["complete"] for entry in server.log] == [False, False, True, True, True]
    settle(second, server, "ann", cut.turn)
    check_bill(server, second.get("acme/lead", "bill"), "ann")
    second.finish()
    assert ADDRESS.encode() not in content(tmp_path)
    check_keys(server, ann="acme")


def test_tenants_are_apart_and_each_user_has_a_budget_and_a_bill(
    tmp_path: Path, server: ModelServer, start: Start
) -> None:
    first = start()
    one = first.say("acme/ann", "(ann) one")
    first.say("globex/bea", f"(bea) write to {ADDRESS}")
    assert first.get("acme/ann", "triage", text="(ann) my money, now!") == {"topic": "refund", "urgent": True}
    assert first.get("acme/ann", "title", chat="c1") == "Where Orders Go"
    first.get("acme/ann", "rate", chat="c1", turn=one.turn, rating="up", text=f"thanks, {ADDRESS}")
    assert first.refused("acme/ann", "set_budget", member="ann", dollars=None) == "NotAllowedError"
    first.get("acme/lead", "set_budget", member="cem", dollars="0.000001")
    first.kill()

    second = start()
    (turn,) = second.get("acme/ann", "history", chat="c1")
    assert turn["feedback"] == {"rating": "up", "text": "thanks, [email]"}
    assert second.get("acme/ann", "chats") == [{"chat": "c1", "title": "Where Orders Go"}]
    assert second.get("acme/ann", "search", text="one") == [{"chat": "c1", "turn": one.turn}]
    check_other_tenants(second, one.turn)
    asked = len(server.log)
    assert second.say("acme/cem", "(cem) hello").result["status"] == "limited"
    assert len(server.log) == asked
    assert second.refused("initech/ann", "send", chat="c1", text="(ann) hello") == "ResourcesError"
    assert second.refused("acme/ann", "open", path="other.db") == "KeyError"
    assert second.refused("acme/lead", "set_budget", member="cem", dollars="much") == "InvalidOperation"
    check_bill(server, second.get("acme/lead", "bill"), "ann")
    check_bill(server, second.get("globex/lead", "bill"), "bea")
    second.finish()
    assert ADDRESS.encode() not in content(tmp_path)
    check_keys(server, ann="acme", bea="globex")


def check_other_tenants(process: Process, turn: str) -> None:
    """A user of the same name in another tenant, and another user, find nothing."""
    for who in ("globex/ann", "acme/bob"):
        assert process.get(who, "chats") == []
        assert process.get(who, "search", text="one") == []
        assert process.get(who, "bill") == []
        assert process.get(who, "waits") == []
        for do in ("history", "title", "delete"):
            assert process.refused(who, do, chat="c1") == "UnknownConversationError"
        for do in ("events", "stop", "regenerate", "switch", "branch"):
            assert process.refused(who, do, chat="c1", turn=turn) == "UnknownConversationError"
