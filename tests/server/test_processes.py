"""Servers in processes of their own, on one store: kills, take-overs, drains, and requests to the other process."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from .kit import Json, parsed
from .program import SLOW

Numbered = list[tuple[int, Json]]


class Process:
    """A server, and a client of it."""

    def __init__(self, process: asyncio.subprocess.Process, url: str) -> None:
        self.process = process
        self.http = httpx2.AsyncClient(base_url=url, headers={"x-session": "acme/ann"}, timeout=600, trust_env=False)

    async def __call__(self, method: str, path: str, **options: Any) -> Any:
        answer = await self.http.request(method, path, **options)
        answer.raise_for_status()
        return answer.json() if answer.content else None

    async def new_conversation(self) -> str:
        return f"/api/conversations/{(await self('POST', '/api/conversations', json={}))['id']}"

    async def send(self, conversation: str, text: str) -> str:
        """Send a message and return the path of its turn."""
        return f"{conversation}/turns/{(await self('POST', f'{conversation}/turns', json={'text': text}))['id']}"

    async def drains(self) -> None:
        """Wait until the process drains."""
        while (answer := await self.http.get("/ready")).status_code != 503:
            assert answer.status_code == 200
            await asyncio.sleep(0.01)

    async def follow(self, turn: str, after: int = 0, *, until: Callable[[Json], bool] = lambda _: False) -> Numbered:
        """Return the events after number *after* up to one that *until* accepts, or to the end of the stream."""
        headers = {"Last-Event-ID": str(after)} if after else {}
        text, seen = "", 0
        try:
            async with self.http.stream("GET", f"{turn}/events", headers=headers) as answer:
                answer.raise_for_status()
                async for piece in answer.aiter_text():
                    text += piece
                    found = parsed(text)
                    for at in range(seen, len(found)):
                        if until(found[at][1]):
                            return found[: at + 1]
                    seen = len(found)
        except httpx2.TransportError:
            pass  # the server was killed
        return parsed(text)


@asynccontextmanager
async def server(folder: Path, grace: float = 0.0, stream_seconds: float = 3600.0) -> AsyncIterator[Process]:
    """Yield a server that has started; kill it afterwards."""
    command = (sys.executable, "-m", "tests.server.program", str(folder), str(grace), str(stream_seconds))
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    assert process.stdout is not None
    try:
        made = Process(process, (await process.stdout.readline()).decode().strip())
        async with made.http:
            yield made
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


@pytest.fixture
async def two(tmp_path: Path) -> AsyncIterator[tuple[Process, Process]]:
    async with server(tmp_path) as one, server(tmp_path) as other:
        yield one, other


def shown(events: Numbered) -> str:
    """Return the text of the answer as a page shows it: without void pieces, and complete answers for their pieces."""
    numbers = [number for number, _ in events]
    assert numbers == sorted(set(numbers)), "an event came twice, or too late"
    pieces: dict[int, tuple[str, str]] = {}
    for number, event in events:
        match event["type"]:
            case "text_delta":
                pieces[number] = event["attempt"], event["text"]
            case "turn_completed":
                text = "".join(part["text"] for part in event["message"]["parts"] if part["kind"] == "text")
                pieces = {at: piece for at, piece in pieces.items() if piece[0] != event["attempt"]}
                pieces[number] = event["attempt"], text
            case "voided":
                pieces = {
                    at: piece
                    for at, piece in pieces.items()
                    if not event["first"] <= at <= event["last"] or event["attempt"] not in ("", piece[0])
                }
    return "".join(text for _, text in pieces.values())


def text_arrived(event: Json) -> bool:
    return (event.get("type"), event.get("text")) == ("text_delta", "three ")


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
async def test_a_client_of_a_process_that_ends_misses_nothing(
    two: tuple[Process, Process], tmp_path: Path, how: signal.Signals
) -> None:
    first, second = two
    turn = await first.send(await first.new_conversation(), "slow")

    def end_the_process(event: Json) -> bool:
        if text_arrived(event):
            first.process.send_signal(how)
        return False

    before = await first.follow(turn, until=end_the_process)
    assert shown(before) == "one two three "
    assert await first.process.wait() == (0 if how == signal.SIGTERM else -how)
    (tmp_path / "go").touch()
    after = await second.follow(turn, before[-1][0])
    assert shown(before + after) == SLOW
    assert after[-1][1]["result"]["status"] == "completed"
    assert [event["type"] for _, event in after].count("voided") >= 1
    everything = await second.follow(turn)
    assert shown(everything) == SLOW
    last = before[-1][0]
    assert [each for each in everything if each[0] > last] == await second.follow(turn, last)
    assert {number for number, _ in after} >= {number for number, _ in everything if number > last}


async def test_two_browsers_at_two_processes_show_the_same(two: tuple[Process, Process], tmp_path: Path) -> None:
    first, second = two
    conversation = await first.new_conversation()
    turn = await first.send(conversation, "slow")
    readers = [asyncio.create_task(each.follow(turn)) for each in two]
    await second.follow(turn, until=text_arrived)
    (tmp_path / "go").touch()
    one, other = await asyncio.gather(*readers)
    assert shown(one) == shown(other) == SLOW
    assert one[-1] == other[-1]
    assert await first("GET", f"{conversation}/turns") == await second("GET", f"{conversation}/turns")


async def test_a_browser_at_another_process_follows_a_conversation(
    two: tuple[Process, Process], tmp_path: Path
) -> None:
    """The conversation's stream shows messages, edits and titles of the other browser, also after a kill."""
    first, second = two
    conversation = await first.new_conversation()
    got: list[tuple[str, str, Json]] = []

    async def follow(browser: Process, until: Callable[[str, Json], bool]) -> None:
        last = next((each[0] for each in reversed(got) if each[0]), "")
        headers = {"Last-Event-ID": last} if last else {}
        async with browser.http.stream("GET", f"{conversation}/events", headers=headers) as answer:
            answer.raise_for_status()
            frame: Json = {}
            async for line in answer.aiter_lines():
                name, _, value = line.partition(": ")
                frame |= {name: value} if name else {}
                if not line and "data" in frame:
                    got.append((frame.get("id", ""), frame.get("event", "message"), json.loads(frame["data"])))
                    frame = {}
                    if until(got[-1][1], got[-1][2]):
                        return

    reader = asyncio.create_task(follow(second, lambda _, event: text_arrived(event)))
    while not got:  # noqa: ASYNC110 - the stream is open
        await asyncio.sleep(0.01)
    slow = (await first.send(conversation, "slow")).rpartition("/")[2]
    await reader
    assert got[0][1:] == ("conversation", await first("GET", conversation) | {"leaf": "", "busy": ""} | old(got[0][2]))
    missing = {"Numbers", "You said: Hello"}  # a state may come before or after the events of its moment

    def complete(name: str, event: Json) -> bool:
        missing.discard(event["title"] if name == "conversation" else event.get("result", {}).get("text"))
        return not missing

    reader = asyncio.create_task(follow(second, complete))
    first.process.kill()
    await first.process.wait()
    (tmp_path / "go").touch()
    other = (await second.send(conversation, "Hello")).rpartition("/")[2]
    await second.follow(f"{conversation}/turns/{other}")
    await second("PATCH", conversation, json={"title": "Numbers"})
    await reader
    for run in (slow, other):
        events = [(int(id.rpartition(":")[2]), event) for id, _, event in got if id.startswith(f"{run}:")]
        assert shown(events) == (SLOW if run == slow else "You said: Hello")
        assert events[-1][1]["type"] == "run_ended"
    assert [name for id, name, _ in got if not id] == ["conversation"] * sum(not id for id, _, _ in got)


def old(state: Json) -> Json:
    """Return the fields of a conversation that its first turn has changed."""
    return {name: state[name] for name in ("updated", "modes", "tools", "title")}


async def test_a_stop_an_approval_and_an_edit_from_another_process(two: tuple[Process, Process]) -> None:
    first, second = two
    conversation = await first.new_conversation()
    turn = await first.send(conversation, "slow")
    reader = asyncio.create_task(first.follow(turn))
    await first.follow(turn, until=text_arrived)
    run = turn.rpartition("/")[2]
    receipt = await second("POST", f"/api/runs/{run}/stop")
    assert [each["what"] for each in receipt["stopped"]] == ["model"]
    stopped = (await reader)[-1][1]["result"]
    assert (stopped["status"], stopped["text"]) == ("cancelled", "one two three ")

    edited = await second("POST", f"{turn}/edit", json={"text": "refund 7"})
    turn = f"{conversation}/turns/{edited['id']}"
    waiting = await first.follow(turn, until=lambda event: event["type"] == "call_waiting")
    reader = asyncio.create_task(first.follow(turn, waiting[-1][0]))
    (wait,) = (await first("GET", "/api/approvals"))["items"]
    answer = await first("POST", f"/api/approvals/{wait['key']}", json={"decision": "approve"})
    assert answer["won"]
    ended = (await reader)[-1][1]["result"]
    assert (ended["text"], ended["error"]) == ("Done: 5 euros for order 7.", None)
    shown_turns = (await second("GET", f"{conversation}/turns"))["items"]
    assert [each["answer"] for each in shown_turns] == ["Done: 5 euros for order 7."]


async def test_a_run_that_ends_within_the_grace_period_is_finished(tmp_path: Path) -> None:
    async with server(tmp_path, grace=600) as one:
        conversation = await one.new_conversation()
        turn = await one.send(conversation, "slow")
        reader = asyncio.create_task(one.follow(turn))
        await one.follow(turn, until=text_arrived)
        one.process.terminate()
        await one.drains()
        refused = await one.http.post(f"{conversation}/turns", json={"text": "Hi"})
        assert refused.status_code == 503
        (tmp_path / "go").touch()
        assert shown(await reader) == SLOW
        assert await one.process.wait() == 0


async def test_a_second_signal_ends_at_once(tmp_path: Path) -> None:
    async with server(tmp_path, grace=600) as one:
        turn = await one.send(await one.new_conversation(), "slow")
        await one.follow(turn, until=text_arrived)
        one.process.terminate()
        await one.drains()
        one.process.terminate()
        assert await one.process.wait() == 0
