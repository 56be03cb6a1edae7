"""`concertino serve`: the web API of the built-in agents, and of a product's own."""

from __future__ import annotations

import json
import os
import signal
import socket
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx2
import pytest

from .conftest import Cli, assert_refused

APP = ("--app", "tests.cli.clerk:make_runtime", "--db", "runs.db")


def served(cli: Cli, visit: Callable[[httpx2.Client], Any], *arguments: str) -> tuple[Any, Any]:
    """Return what *visit* returns for a client of the server, and how the command ended after a signal."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    found: list[Any] = []
    over = threading.Event()

    def work() -> None:
        with httpx2.Client(base_url=f"http://127.0.0.1:{port}", trust_env=False, timeout=600) as client:
            while not over.wait(0.02):
                try:
                    client.get("/health").raise_for_status()
                    break
                except httpx2.TransportError:
                    continue
            else:
                return
            try:
                found.append(visit(client))
            finally:
                os.kill(os.getpid(), signal.SIGTERM)

    thread = threading.Thread(target=work)
    thread.start()
    done = cli("serve", "--port", str(port), *arguments)
    over.set()
    thread.join()
    return found[0] if found else None, done


def test_the_built_in_agents_answer(cli: Cli, corpus: Path) -> None:
    def visit(client: httpx2.Client) -> Any:
        agents = client.get("/api/agents").json()["items"]
        made = client.post("/api/conversations", json={}).json()
        path = f"/api/conversations/{made['id']}/turns"
        turn = client.post(path, json={"text": "What are apples?"}).json()
        client.get(f"{path}/{turn['id']}/events")
        refused = client.get("/api/agents", headers={"host": "evil.example.com"}).status_code
        return agents, client.get(f"{path}/{turn['id']}").json()["answer"], refused

    found, done = served(cli, visit, "--corpus", str(corpus), "--db", "runs.db")
    assert done.returncode == 0, done.stderr
    agents, answer, refused = found
    assert agents == ["main_thread", "supervisor", "librarian"]
    assert "Apples are red fruits." in answer
    assert refused == 400
    assert "serving http://127.0.0.1:" in done.stderr


def test_the_agents_of_a_product_answer_with_a_token(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CONCERTINO_TOKEN", "s3cret")

    def visit(client: httpx2.Client) -> Any:
        right = {"authorization": "Bearer s3cret"}
        answers = [client.get("/api/workers", headers=each) for each in ({}, {"authorization": "Bearer x"}, right)]
        return [answer.status_code for answer in answers], [each["id"] for each in answers[-1].json()["items"]]

    found, done = served(cli, visit, *APP, "--json", "--host", "0.0.0.0")
    assert done.returncode == 0, done.stderr
    assert found == ([401, 401, 200], ["clerk", "later"])
    assert json.loads(done.stdout)["url"].startswith("http://0.0.0.0:")


def test_other_machines_need_a_token(cli: Cli) -> None:
    done = cli("serve", "--host", "0.0.0.0", *APP)
    assert_refused(done, "CONCERTINO_TOKEN")


def test_an_address_in_use_is_refused(cli: Cli) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        done = cli("serve", "--port", str(taken.getsockname()[1]), *APP)
    assert_refused(done, "cannot be bound")


def test_clients_of_other_protocols_are_served(cli: Cli, corpus: Path) -> None:
    def visit(client: httpx2.Client) -> Any:
        asked = {"model": "main_thread", "messages": [{"role": "user", "content": "What are apples?"}]}
        answer = client.post("/v1/chat/completions", json=asked).json()["choices"][0]["message"]["content"]
        models = [model["id"] for model in client.get("/v1/models").json()["data"]]
        message = {"id": "m1", "role": "user", "parts": [{"type": "text", "text": "What are apples?"}]}
        stream = client.post("/api/chat", json={"id": "c1", "messages": [message], "trigger": "submit-message"})
        run = {
            "threadId": "t1",
            "runId": "r1",
            "messages": [{"id": "m1", "role": "user", "content": "What are apples?"}],
        }
        events = client.post("/agui", json=run | {"state": {}, "tools": [], "context": [], "forwardedProps": {}})
        return answer, models, stream.text, events.text

    found, done = served(cli, visit, "--corpus", str(corpus), "--db", "runs.db")
    assert done.returncode == 0, done.stderr
    answer, models, *streams = found
    assert {"main_thread", "supervisor", "librarian"} <= {*models}
    for text in (answer, *streams):
        assert "Apples are red fruits." in text
