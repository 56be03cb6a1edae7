"""Bells: within a process, over PostgreSQL and over NATS."""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from concertino.errors import ConfigurationError
from concertino.runtime import LocalBell, NatsBell
from concertino.runtime.bus.base import RemoteBell, events_of, step_of

from ..faults.proxy import Proxy, proxy_to
from ..runtime.kit import state
from .nats_server import NatsServer


def test_a_bell_calls_those_who_listen_to_the_topic() -> None:
    bell, heard = LocalBell(), list[str]()
    ends = [bell.listen(topic, lambda topic=topic: heard.append(topic)) for topic in ("a", "a", "b")]  # type: ignore[misc]
    bell.ring("a")
    bell.ring("c")
    ends[0]()
    bell.ring("a")
    ends[1]()
    bell.ring("a")
    bell.ring("b")
    assert heard == ["a", "a", "a", "b"]
    assert not bell.reaches_others


async def test_a_bell_ends_although_its_client_loses_a_cancellation() -> None:
    class Deaf(RemoteBell):
        asked = asyncio.Event()

        async def _receive(self) -> None:
            self._is_connected()

        async def _exchange(self, topics: list[str]) -> None:
            self.asked.set()
            with suppress(asyncio.CancelledError):
                await asyncio.Event().wait()

        async def _close(self) -> None:
            pass

    async with Deaf() as bell:
        await bell.asked.wait()


@pytest.mark.postgres
async def test_a_ring_reaches_other_processes_once(make_bell: Callable[[], RemoteBell]) -> None:
    async with make_bell() as one, make_bell() as other:
        await state(lambda: one.connected and other.connected)
        here, there, later = list[str](), list[str](), list[str]()
        one.listen("cmd.agent.t.wakeup", lambda: here.append("rung"))
        end = other.listen("cmd.agent.t.wakeup", lambda: there.append("rung"))
        while not there:  # the server may not know yet that the other listens
            one.ring("cmd.agent.t.wakeup")
            await asyncio.sleep(0.01)
        count = len(here)
        await _answered(one, other)
        assert count >= len(there), "a process hears its own ring only directly"
        end()
        heard = len(there)
        other.listen("later", lambda: later.append("rung"))
        while not later:
            one.ring("cmd.agent.t.wakeup")
            one.ring("later")
            await asyncio.sleep(0.01)
        assert len(there) == heard


async def _answered(one: RemoteBell, other: RemoteBell) -> None:
    """Wait until what was rung before has arrived: rings keep their order."""
    answered = asyncio.Event()
    end = other.listen("answer", answered.set)
    while not answered.is_set():
        one.ring("answer")
        await asyncio.sleep(0.01)
    end()


@pytest.mark.postgres
async def test_a_bell_outlasts_its_server() -> None:
    """It begins without a server, connects when there is one, and again after each loss; then it calls everyone."""
    server = NatsServer()
    heard = list[str]()
    async with NatsBell(server.url) as one, NatsBell(server.url) as other:
        other.listen("topic", lambda: heard.append("rung"))
        one.ring("topic")
        try:
            for _ in range(2):
                server.start()
                await state(lambda: one.connected and other.connected)
                assert heard, "who listens looks again after each gap"
                heard.clear()
                await _answered(one, other)
                server.stop()
                await state(lambda: not one.connected and not other.connected)
                one.ring("topic")
        finally:
            server.stop()
    assert not one.connected


@pytest.mark.postgres
async def test_a_closed_connection_for_notifications_is_made_anew(url: str, schema: str) -> None:
    import psycopg

    from concertino.runtime import PostgresBell

    async with PostgresBell(url, schema=schema) as one, PostgresBell(url, schema=schema) as other:
        await state(lambda: one.connected and other.connected)
        await _answered(one, other)
        heard = list[str]()
        other.listen("topic", lambda: heard.append("rung"))
        with psycopg.connect(url, autocommit=True) as operator:
            ended = operator.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE %s", (f'LISTEN "{schema}"%',)
            ).fetchall()
        assert len(ended) == 2
        await state(lambda: bool(heard))
        await state(lambda: one.connected and other.connected)
        await _answered(one, other)


@pytest.mark.postgres
@pytest.mark.parametrize("kind", ["postgres", "nats"])
async def test_a_half_open_connection_is_given_up(kind: str, url: str, schema: str, nats: NatsServer) -> None:
    """Nothing passes and nothing ends it: an idle client would wait for ever, and every ring would be lost."""
    from concertino.runtime import PostgresBell

    def bell(proxy: Proxy | None) -> RemoteBell:
        if kind == "nats":
            return NatsBell(nats.url if proxy is None else f"nats://127.0.0.1:{proxy.port}")
        return PostgresBell(url if proxy is None else url.replace(f":{target}/", f":{proxy.port}/"), schema=schema)

    def noticed() -> bool:
        one.ring("topic")  # the connection for sending notices when it sends
        return not proxy.half_opened

    target = nats.port if kind == "nats" else int(url.rpartition(":")[2].partition("/")[0])
    async with proxy_to(target) as proxy, bell(proxy) as one, bell(None) as other:
        await state(lambda: one.connected and other.connected)
        await _answered(one, other)
        proxy.half_open()
        await state(noticed)
        await state(lambda: one.connected)
        await _answered(one, other)
        await _answered(other, one)


@pytest.mark.postgres
async def test_what_other_programs_send_ends_no_bell(nats: NatsServer) -> None:
    """Anything may be sent to a subject: bytes that are no text, a megabyte, malformed headers."""
    topic, large = b"cmd.agent.t.wakeup", b"\xff\xfe" * 500_000
    heard, later = list[str](), asyncio.Event()
    async with NatsBell(nats.url) as bell:
        await state(lambda: bell.connected)
        bell.listen(topic.decode(), lambda: heard.append("rung"))
        bell.listen("later", later.set)
        await bell._exchange([])
        await bell._client.flush()
        later.clear()
        reader, writer = await asyncio.open_connection("127.0.0.1", nats.port)
        await reader.readline()
        writer.write(b'CONNECT {"verbose":false,"headers":true}\r\n')
        for headers in (b"\xff\xff\xff\r\n\r\n", b"NATS/1.0\r\n\xff: \xfe\r\n\r\n", b"NATS/1.0 no number\r\n\r\n"):
            writer.write(b"HPUB %s %d %d\r\n%s\r\n" % (topic, len(headers), len(headers), headers))
        for payload in (large, large, b"\x00"):
            writer.write(b"PUB %s %d\r\n%s\r\n" % (topic, len(payload), payload))
        writer.write(b"PUB cmd.agent.\xff.wakeup 0\r\n\r\nPUB later 0\r\n\r\n")
        await writer.drain()
        await later.wait()
        await state(lambda: len(heard) >= 6)
        assert bell._client.stats["reconnects"] == 0
        writer.close()
        await writer.wait_closed()


async def test_a_bell_that_can_never_connect_is_reported(caplog: pytest.LogCaptureFixture) -> None:
    async with NatsBell("nats://host", no_such_option=True):
        await state(lambda: bool(caplog.messages))
    assert caplog.messages == ["the bell never works: TypeError; an option may be invalid"]


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        ("nats://host:port", "invalid nats 'nats:...': use a URL, such as 'nats://bus.internal:4222'"),
        ("ws://ann:secret@host", "invalid nats 'ws:...': WebSocket is not supported; "),
        ("nats://ann:sec,ret@host", "write a comma in a password as %2C"),
        ("nats://ann:4222,secret@host", "credentials, and another has none; give each its own; write a comma in a "),
        ("nats://a,,nats://b", "invalid nats 'nats:...': use a URL"),
    ],
)
def test_an_invalid_url_is_refused_without_its_password(url: str, problem: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        NatsBell(url)
    assert problem in str(caught.value)
    assert "ret" not in str(caught.value)


@pytest.mark.postgres
async def test_credentials_may_have_any_characters(tmp_path: Path) -> None:
    password = "a,b:c@d/e?f#g%h [☃"
    users = json.dumps({"user": "ann,e", "password": password}, ensure_ascii=False)
    (tmp_path / "nats.conf").write_text(f"authorization {{ users = [ {users} ] }}", "utf-8")
    server = NatsServer()
    server.start("-c", str(tmp_path / "nats.conf"))
    place = f"{quote('ann,e', safe='')}:{quote(password, safe='')}@127.0.0.1:{server.port}"
    try:
        async with NatsBell(f"nats://{place}, nats://{place}") as bell:
            await state(lambda: bell.connected)
    finally:
        server.stop()


@pytest.mark.postgres
async def test_a_server_that_refuses_a_bell_is_reported_once(caplog: pytest.LogCaptureFixture) -> None:
    server = NatsServer()
    server.start("--user", "ann", "--pass", "right")
    url = f"nats://ann:wrong@127.0.0.1:{server.port}"
    try:
        async with NatsBell(url) as bell:
            await state(lambda: bool(caplog.records))
            while bell._client._server_pool[0].reconnects < 3:  # noqa: ASYNC110 - tries again without an end
                await asyncio.sleep(0.01)
            server.stop()
            server.start("--user", "ann", "--pass", "wrong")
            await state(lambda: bell.connected)
    finally:
        server.stop()
    found = [each.getMessage() for each in caplog.records if each.name == "concertino"]
    assert len(found) == 1
    place = f"nats 127.0.0.1:{server.port}"
    assert found[0].startswith(
        f"the bell is out of order until its server is back: {place}: the server refuses the user"
    )
    assert "wrong" not in caplog.text


@pytest.mark.parametrize("given", ["scheme", "option"])
async def test_a_client_that_wants_tls_sends_no_password_to_a_server_without_it(
    given: str, caplog: pytest.LogCaptureFixture
) -> None:
    received, answered = bytearray(), asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b'INFO {"server_id":"x","version":"2.10.0","max_payload":1048576,"proto":1,"headers":true}\r\n')
        with suppress(OSError):  # the client may reset the connection
            while data := await reader.read(4096):
                received.extend(data)
                writer.write(b"PONG\r\n")
        answered.set()
        writer.close()

    options: dict[str, Any] = {"tls": ssl.create_default_context()} if given == "option" else {}
    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        scheme = "nats" if given == "option" else "tls"
        async with NatsBell(f"{scheme}://ann:secret@127.0.0.1:{port}", **options) as bell:
            await state(lambda: bell.connected or bool(caplog.records))
            assert not bell.connected
        await answered.wait()
    assert b"secret" not in received
    assert f"nats 127.0.0.1:{port}: the server does not require TLS" in caplog.text
    assert "secret" not in caplog.text


@pytest.mark.postgres
async def test_each_kind_of_permission_that_a_user_lacks_is_reported_once(
    caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    rules = '{user: ann, password: secret, permissions: {publish: "other.>", subscribe: "other.>"}}'
    (tmp_path / "nats.conf").write_text(f"authorization {{ users = [ {rules} ] }}")
    server = NatsServer()
    server.start("-c", str(tmp_path / "nats.conf"))
    try:
        async with NatsBell(f"nats://ann:secret@127.0.0.1:{server.port}") as bell:
            await state(lambda: bell.connected)
            for topic in ("cmd.agent.t.wakeup", "cmd.agent.u.wakeup", events_of("one"), events_of("two")):
                bell.listen(topic, lambda: None)
                await state(lambda topic=topic: topic in str(bell._client.last_error))  # type: ignore[misc]
                bell.ring(topic)
                await state(lambda: "publish" in str(bell._client.last_error).lower())
            await bell.publish([(step_of(root), b"{}") for root in ("one", "two")])
            await state(lambda: step_of("two") in str(bell._client.last_error))
    finally:
        server.stop()
    found = [each.getMessage() for each in caplog.records if "violation" in each.getMessage().lower()]
    assert len(found) == 5, "to wake workers, to wake readers: each to hear and to ring; and messages"
    for message in found:
        assert f"nats 127.0.0.1:{server.port}: " in message
        assert "publish and subscribe to cmd.agent.>, evt.agent.> and evt.conversation.>" in message
    assert "secret" not in caplog.text


async def test_a_server_that_cannot_be_reached_is_named(caplog: pytest.LogCaptureFixture) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))  # and nobody listens
        port = unused.getsockname()[1]
        async with NatsBell(f"nats://ann:secret@127.0.0.1:{port}"):
            await state(lambda: bool(caplog.records))
    assert f"nats 127.0.0.1:{port}: ConnectionRefusedError; check the host and the port" in caplog.text
    assert "secret" not in caplog.text
