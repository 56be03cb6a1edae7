"""Data sets: files of each format, their mistakes, and stored runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from concertino import OPERATOR, AgentConfig, Chat, MemoryStore, Resources, Scope, ToolOrchestrator
from concertino.errors import ConfigurationError
from concertino.evaluation import read_cases, sample, stored_cases
from concertino.orchestrator import DataPolicy
from concertino.runtime import Runtime
from concertino.testing import ScriptedModel

FILES = {
    "cases.jsonl": '\ufeff{"id": "a", "message": "Hi", "expected": "Hello", "calls": "greet"}\n\n{"message": "Bye"}\n',
    "cases.json": '[{"id": "a", "message": "Hi", "expected": "Hello", "calls": "greet"}, {"message": "Bye"}]',
    "cases.yaml": "- {id: a, message: Hi, expected: Hello, calls: greet}\n- message: Bye\n",
    "cases.csv": "id,message,expected,calls\na,Hi,Hello,greet\n,Bye,,\n",
}


@pytest.mark.parametrize("name", FILES)
def test_each_format_gives_the_same_cases(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(FILES[name])
    first, second = read_cases(tmp_path / name)
    assert (first.id, first.chat.message, first.expected, first.data) == ("a", "Hi", "Hello", {"calls": "greet"})
    assert (second.id, second.chat.message, second.expected, second.data) == ("2", "Bye", None, {})


@pytest.mark.parametrize(
    ("name", "text", "problem"),
    [
        ("a.jsonl", "{", "not valid JSONL"),
        ("a.jsonl", "", "has no cases"),
        ("a.jsonl", '{"message": ""}', "case 1: it has no text 'message'"),
        ("a.jsonl", '{"id": 1, "message": "x"}\n{"id": 1, "message": "y"}', "two cases have the id '1'"),
        ("a.jsonl", '{"message": "x", "history": [{"role": "system", "content": "y"}]}', "invalid history"),
        ("a.json", '{"message": "x"}', "expected a list"),
        ("a.json", "[" * 100_000, "not valid JSON"),
        ("a.yaml", "a: [", "not valid YAML"),
        ("a.csv", "message\nx,y\n", "more or fewer fields"),
        ("a.txt", "x", "unknown format '.txt'"),
    ],
)
def test_a_mistake_names_the_file_and_the_case(name: str, text: str, problem: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(ConfigurationError, match=problem) as raised:
        read_cases(tmp_path / name)
    assert name in str(raised.value)


def test_a_history_becomes_messages(tmp_path: Path) -> None:
    row = '{"message": "And 3?", "history": [{"role": "user", "content": "2?"}, {"role": "assistant", "content": "4"}]}'
    (tmp_path / "a.jsonl").write_text(row)
    (case,) = read_cases(tmp_path / "a.jsonl")
    assert [(message.role, message.text) for message in case.chat.history] == [("user", "2?"), ("assistant", "4")]  # type: ignore[union-attr]


def test_a_sample_depends_on_its_seed_alone(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("message\n" + "".join(f"m{number}\n" for number in range(50)))
    cases = read_cases(tmp_path / "a.csv")
    chosen = [[case.id for case in sample(cases, 5, seed)] for seed in (1, 1, 2)]
    assert chosen[0] == chosen[1] != chosen[2]
    assert chosen[0] == sorted(chosen[0], key=int)
    assert sample(cases, 80, 1) == cases


class _Clerk(AgentConfig):
    name = "clerk"
    prompt = "You help."


class _Secret(_Clerk):
    name = "secret"

    def get_data_policy(self) -> DataPolicy:
        return DataPolicy(text="drop")


async def test_a_turn_of_a_conversation_is_a_case_with_its_history() -> None:
    model = ScriptedModel("First.", "Second.", "again")
    async with Runtime([_Clerk()], Resources(model=model), store=MemoryStore()) as runtime:
        scope = Scope("acme", "ann")
        conversation = await runtime.conversation(scope, agent="clerk")
        for message in ("One?", "Two?"):
            await (await conversation.send(message)).result()
        first, second = await stored_cases(runtime.store, scope, conversation_id=conversation.id)
        assert (first.chat.message, first.expected) == ("One?", "First.")
        assert (second.chat.message, second.expected) == ("Two?", "Second.")
        assert await stored_cases(runtime.store, Scope("rival", "ann")) == []
        assert await stored_cases(runtime.store, OPERATOR, agent="other") == []
        asked = len(model.requests)
        await ToolOrchestrator(second.chat, _Clerk(), resources=Resources(models=lambda _: model)).run()
        assert list(model.requests[asked].messages) == list(model.requests[1].messages)
        await runtime.store.close()


async def test_a_run_without_its_content_is_no_case() -> None:
    async with MemoryStore() as store:
        resources = Resources(model=ScriptedModel("Hello."), store=store)
        await ToolOrchestrator(Chat("Hi"), _Secret(), resources=resources).run()
        assert await stored_cases(store, OPERATOR) == []
