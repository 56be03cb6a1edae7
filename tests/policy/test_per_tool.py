"""A policy by tool: the kept history is accepted by every provider and marks redacted content."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from concertino import OPERATOR, AgentConfig, Chat, DataPolicy, ModelRequest, Resources, SqliteStore, ToolData, tool
from concertino.errors import ConfigurationError, ErasedError
from concertino.messages import AssistantMessage, Message, ToolMessage, UserMessage
from concertino.orchestrator import Treatment
from concertino.runtime import Runtime
from concertino.testing import ScriptedModel, call
from tests.wire_bodies import wire_bodies

from .kit import SECRET, Canaries, Leaks, files, look_by_port


class Keeper(AgentConfig[None]):
    """Has a tool whose results are delicate, and one whose results are not."""

    name = "keeper"

    def __init__(self, canaries: Canaries, policy: DataPolicy) -> None:
        @tool(effect="read")
        async def secret(query: str) -> str:
            """Look up something delicate."""
            return canaries["secret result"]

        @tool(effect="read")
        async def plain(query: str) -> str:
            """Look up something plain."""
            return canaries["plain result"]

        self.tools = [secret, plain]
        self.policy = policy

    def get_data_policy(self) -> DataPolicy:
        return self.policy


async def history_of(path: Path, canaries: Canaries, policy: DataPolicy) -> tuple[SqliteStore, Runtime, str]:
    """A run that calls both tools in one turn, and each of them alone."""
    secret, plain = call("secret", query=canaries["secret question"]), call("plain", query=canaries["plain question"])
    model = ScriptedModel([secret, plain], secret, plain, canaries["answer"], canaries["other answer"])
    store = await SqliteStore.open(path)
    runtime = Runtime([Keeper(canaries, policy)], Resources(store=store, models=lambda _: model))
    run = await runtime.start(Chat(model=model, message=canaries["message"]), "keeper")
    assert (await run.result()).status == "completed"
    return store, runtime, run.id


def bodies(messages: Sequence[Message], tools: Any) -> dict[str, dict[str, Any]]:
    """The request of each provider with *messages* as history."""
    specs = tuple(each.spec for each in tools)
    asked = [*messages, UserMessage("and now?")]
    request = ModelRequest(model="m", system="s", messages=asked, tools=specs, max_output_tokens=100)
    made = wire_bodies(request, encrypted=False)
    return {name: json.loads(body) for name, body in made.items()}


def calls_and_results(name: str, body: dict[str, Any]) -> tuple[list[str], list[str]]:
    """The ids of the calls in a request, and of the results, in their order."""
    calls: list[str] = []
    results: list[str] = []
    for message in body.get("messages") or body.get("contents") or body["input"]:
        parts = message.get("parts") or message.get("content") or ()
        for part in [message, *(parts if isinstance(parts, list) else ())]:
            kind = part.get("type")
            calls += [each["id"] for each in part.get("tool_calls") or ()]
            calls += [part["id"]] if kind == "tool_use" else [part["call_id"]] if kind == "function_call" else []
            calls += [part["functionCall"]["id"]] if "functionCall" in part else []
            results += [part["tool_use_id"]] if kind == "tool_result" else []
            results += [part["call_id"]] if kind == "function_call_output" else []
            results += [part["functionResponse"]["id"]] if "functionResponse" in part else []
            results += [part["tool_call_id"]] if part.get("role") == "tool" else []
    return calls, results


def pairs(messages: Sequence[Message]) -> tuple[list[str], list[str]]:
    calls = [c.id for m in messages if isinstance(m, AssistantMessage) for c in m.tool_calls]
    return calls, [m.call_id for m in messages if isinstance(m, ToolMessage)]


def only(arguments: Treatment, results: Treatment) -> DataPolicy:
    key = SECRET if "hash" in (arguments, results) else b""
    return DataPolicy(tools={"secret": ToolData(arguments=arguments, results=results)}, hash_key=key)


CASES: dict[str, tuple[DataPolicy, set[str], list[str]]] = {
    "results redacted": (only("keep", "redact"), {"secret result"}, ["call_1", "call_2", "call_3", "call_4"]),
    "results hashed": (only("keep", "hash"), {"secret result"}, ["call_1", "call_2", "call_3", "call_4"]),
    "both dropped": (only("drop", "drop"), {"secret result", "secret question"}, ["call_2", "call_4"]),
    "both redacted": (
        only("redact", "redact"),
        {"secret result", "secret question"},
        ["call_1", "call_2", "call_3", "call_4"],
    ),
}


@pytest.mark.parametrize("case", CASES)
async def test_every_provider_accepts_the_kept_history(tmp_path: Path, case: str) -> None:
    policy, gone, left = CASES[case]
    canaries = Canaries("unicode")
    store, _, run_id = await history_of(tmp_path / "runs.db", canaries, policy)
    async with store:
        messages = [stored.message for stored in await store.messages(OPERATOR, run_id)]
        assert pairs(messages) == (left, left)
        for name, body in bodies(messages, Keeper(canaries, policy).tools).items():
            assert calls_and_results(name, body) == (left, left), name
        leaks, kept = Leaks(canaries, set(canaries) - gone), Leaks(canaries)
        await look_by_port(store, leaks)
        for each in files(tmp_path / "runs.db"):
            leaks.look(each.name, each.read_bytes(), tmp_path / "runs.db")
            kept.look(each.name, each.read_bytes())
        leaks.check()
        assert kept.entrances == {"message", "answer", "plain question", "plain result"} | ({"secret question"} - gone)


@pytest.mark.parametrize("one_side", [{"results": "drop"}, {"arguments": "drop"}])
async def test_dropping_only_calls_or_results_raises_or_keeps_the_pairs(
    tmp_path: Path, one_side: dict[str, Any]
) -> None:
    """Dropping only calls or only results raises, before a provider could reject the history."""
    canaries = Canaries()
    try:
        policy = DataPolicy(tools={"secret": ToolData(**one_side)})
    except ConfigurationError:
        return
    store, _, run_id = await history_of(tmp_path / "runs.db", canaries, policy)
    async with store:
        calls, results = pairs([stored.message for stored in await store.messages(OPERATOR, run_id)])
        assert calls == results, "a model takes stored history back only in pairs"


@pytest.mark.parametrize("case", CASES)
async def test_an_erased_run_cannot_be_forked_or_replayed(tmp_path: Path, case: str) -> None:
    canaries = Canaries()
    store, runtime, run_id = await history_of(tmp_path / "runs.db", canaries, CASES[case][0])
    message = f"run {run_id}: its content was erased"
    async with store:
        before = len(await store.runs(OPERATOR))
        for step in (1, 2, 4):
            with pytest.raises(ErasedError, match=message):
                await runtime.fork(OPERATOR, run_id, step)
        with pytest.raises(ErasedError, match=message):
            list(await runtime.replay(OPERATOR, run_id))
        with pytest.raises(ErasedError, match=message):
            await Runtime((), Resources(store=store, models=lambda _: ScriptedModel())).result(OPERATOR, run_id)
        assert len(await store.runs(OPERATOR)) == before, "nothing was begun"
        stored = await store.run(OPERATOR, run_id)
        assert stored is not None
        assert stored.state == "completed"


async def test_a_run_that_keeps_everything_can_be_forked_and_replayed(tmp_path: Path) -> None:
    canaries = Canaries("surrogate")
    store, runtime, run_id = await history_of(tmp_path / "runs.db", canaries, DataPolicy())
    async with store:
        replayed = list(await runtime.replay(OPERATOR, run_id))
        assert [step for step, _, _ in replayed] == [1, 2, 3, 4]
        restored = await Runtime((), Resources(store=store, models=lambda _: ScriptedModel())).result(OPERATOR, run_id)
        assert restored.text == canaries["answer"]
        forked = await (await runtime.fork(OPERATOR, run_id, 4)).result()
        assert (forked.status, forked.text) == ("completed", canaries["other answer"])
        assert list(forked.messages)[:-1] == list(restored.messages)[:-1]
