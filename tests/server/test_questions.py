"""Questions of tools in the web API: what waits for a user, and answers that fit or do not."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from concertino import AgentConfig, MemoryStore, ModelRequest, Resources, Runtime, Scope, ToolContext, ToolMessage, tool
from concertino.agents import HumanStep, Workflow, WorkflowAgent, ask_person
from concertino.server import create_app
from concertino.testing import ScriptedModel, call

from .kit import Desk, User, authenticate

FORM = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "seats": {"type": "integer", "maximum": 8}},
    "required": ["name"],
}
HOSTILE = {
    "type": "object",
    "title": "<script>\u202e",
    "properties": {
        "\u202ename": {"enum": [f"{n}<b>" for n in range(10_000)]},
        "deep": {"type": "object", "properties": {"a": {"type": "object", "patternProperties": {"^(a+)+$": {}}}}},
    },
}


@asynccontextmanager
async def asking(details: dict[str, Any]) -> AsyncIterator[tuple[Any, str, str]]:
    """Yield an application in which one question waits for Ann, the path of its turn, and its key."""

    @tool(effect="idempotent")
    async def survey(context: ToolContext) -> str:
        """Ask."""
        return f"They say: {await ask_person(context, 'Which one?', **details)}"

    class Host(AgentConfig[None]):
        name = "host"
        tools = (survey,)

    def step(request: ModelRequest) -> Any:
        last = request.messages[-1]
        if isinstance(last, ToolMessage):
            return "Thanks."
        return call("refund", order="A", euros=1) if last.text == "Refund A." else call("survey")

    model = ScriptedModel(*[step] * 20)
    async with Runtime([Host(), Desk()], Resources(model=model, store=MemoryStore())) as runtime:
        app = create_app(runtime, authenticate)
        ann = User(app)
        conversation = await ann.new_conversation()
        turn = await ann.send(conversation, "Ask me.")
        (wait,) = await runtime.store.waits(Scope("acme", "ann"), root_id=turn["id"])
        yield app, f"{conversation}/turns/{turn['id']}", wait.key


@pytest.mark.parametrize(
    ("details", "wrong", "field", "right"),
    [
        ({"choices": ["18:00", "20:00"]}, "19:00", "answer", "20:00"),
        ({"schema": FORM}, {"name": "Ann", "seats": 9}, "seats", {"name": "Ann", "seats": 8}),
        ({"schema": FORM}, "Ann", "JSON object", {"name": "Ann"}),
        ({"schema": HOSTILE}, {"\u202ename": "other"}, "\u202ename", {"\u202ename": "9<b>", "deep": {"a": {}}}),
    ],
)
async def test_a_wrong_answer_names_the_field_and_loses_nothing(
    details: dict[str, Any], wrong: Any, field: str, right: Any
) -> None:
    async with asking(details) as (app, turn, key):
        ann = User(app)
        refused = await ann("POST", f"/api/questions/{key}", 422, json={"answer": wrong})
        assert field in refused["error"]["message"]
        assert "the question stays open: correct the answer, or decline" in refused["error"]["message"]
        assert (await ann("GET", turn))["state"] == "waiting"
        assert (await ann("POST", f"/api/questions/{key}", json={"answer": right}))["won"]
        await ann.events(f"{turn}/events")
        assert (await ann("GET", turn))["answer"] == "Thanks."


@pytest.mark.parametrize(
    ("details", "form", "choices", "url"),
    [
        ({}, None, [], ""),
        ({"choices": ["18:00", "<b>"]}, None, ["18:00", "<b>"], ""),
        ({"schema": FORM}, FORM, [], ""),
        ({"schema": HOSTILE}, HOSTILE, [], ""),
        ({"url": "https://example.com/"}, None, [], "https://example.com/"),
        ({"url": "javascript:alert(1)"}, None, [], ""),
    ],
)
async def test_what_waits_for_a_user_is_listed(
    details: dict[str, Any], form: Any, choices: list[str], url: str
) -> None:
    async with asking(details) as (app, turn, key):
        (listed,) = (await User(app)("GET", "/api/waits"))["items"]
        assert (listed["kind"], listed["key"], listed["tool"]) == ("question", key, "ask_person")
        question = {"text": "Which one?", "schema": form, "choices": choices, "url": url, "login": False}
        assert listed["question"] == question
        assert listed["root_id"] == turn.rpartition("/")[2]
        for session in ("acme/bob", "globex/ann"):
            assert (await User(app, session)("GET", "/api/waits"))["items"] == []
        await User(app)("POST", f"/api/questions/{key}", json={"answer": None})
        assert (await User(app)("GET", "/api/waits"))["items"] == []


async def test_approvals_and_questions_of_workflows_are_listed_with_what_answers_them() -> None:
    flow = Workflow(name="release", steps=[HumanStep(id="ask", question="When?", output="when")], answer="$when")
    agents: list[AgentConfig[Any]] = [Desk(), WorkflowAgent(flow)]
    model = ScriptedModel(call("refund", order="A", euros=500), call("refund", order="A", euros=1))
    async with Runtime(agents, Resources(model=model, store=MemoryStore())) as runtime:
        app = create_app(runtime, authenticate)
        ann, lead = User(app), User(app, "acme/lead")
        await ann.send(await ann.new_conversation(agent="release"), "Ship it.")
        for _ in range(2):
            await ann.send(await ann.new_conversation(agent="desk"), "Refund A.")
        listed = (await ann("GET", "/api/waits"))["items"]
        assert [(each["kind"], each["tool"]) for each in listed] == [("question", "ask_person"), ("approval", "refund")]
        assert [each["question"] and each["question"]["text"] for each in listed] == ["When?", None]
        assert len((await ann("GET", "/api/waits?limit=1"))["items"]) == 1
        (named,) = (await lead("GET", "/api/waits"))["items"]
        assert named["who"] == ["lead"]


async def test_a_question_is_found_behind_more_waits_than_are_read_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("concertino.runtime.answering._PAGE", 2)
    async with asking({}) as (app, _, key):
        ann, runtime = User(app), app.state.server.runtime
        await runtime.resolve(Scope("acme", "ann"), key, "first")
        for _ in range(3):
            await ann.send(await ann.new_conversation(agent="desk"), "Refund A.")
        await ann.send(await ann.new_conversation(agent="host"), "Ask me.")
        assert len(await runtime.approvals(Scope("acme", "ann"))) == 3
        (found,) = await runtime.questions(Scope("acme", "ann"))
        assert found.key != key
        assert list(await runtime.questions(Scope("acme", "ann"), 0)) == []
        assert list(await runtime.questions(Scope("acme", "ann"), after=found)) == []


async def test_of_two_answers_at_once_the_first_counts() -> None:
    async with asking({"choices": ["a", "b"]}) as (app, turn, key):
        ann = User(app)
        path = f"/api/questions/{key}"
        both = await asyncio.gather(*[ann("POST", path, json={"answer": each}) for each in ("a", "b")])
        assert sorted(each["won"] for each in both) == [False, True]
        await ann.events(f"{turn}/events")
        assert not (await ann("POST", path, json={"answer": "neither"}))["won"]


@pytest.mark.parametrize("session", ["acme/bob", "globex/ann", "globex/bob"])
async def test_a_question_is_its_owners(session: str) -> None:
    async with asking({"schema": FORM}) as (app, turn, key):
        for answer in ({"name": "Bob"}, {"seats": 99}, None):
            await User(app, session)("POST", f"/api/questions/{key}", 404, json={"answer": answer})
        assert (await User(app)("GET", turn))["state"] == "waiting"


async def test_an_answer_after_a_stop_or_an_erasure_changes_nothing() -> None:
    async with asking({"schema": FORM}) as (app, turn, key):
        ann, path = User(app), f"/api/questions/{key}"
        await ann("POST", f"/api/runs/{turn.rpartition('/')[2]}/stop")
        late = await ann("POST", path, json={"answer": {"name": "Ann"}})
        assert late == {"won": False, "verdict": "cancelled", "by": late["by"]}
        assert not (await ann("POST", path, json={"answer": {"seats": "many"}}))["won"]
        await ann("DELETE", "/api/data")
        await ann("POST", path, 404, json={"answer": {"name": "Ann"}})


@pytest.mark.parametrize(
    ("answer", "verdict", "shown"), [("on Monday", "approved", "on Monday"), ("", "approved", ""), (None, "denied", "")]
)
async def test_a_question_of_a_workflow_is_answered_like_that_of_a_tool(
    answer: str | None, verdict: str, shown: str
) -> None:
    flow = Workflow(name="release", steps=[HumanStep(id="ask", question="When?", output="when")], answer="$when")
    async with Runtime([WorkflowAgent(flow)], Resources(model=ScriptedModel(), store=MemoryStore())) as runtime:
        ann = User(create_app(runtime, authenticate))
        conversation = await ann.new_conversation()
        turn = await ann.send(conversation, "Ship it.")
        (wait,) = await runtime.store.waits(Scope("acme", "ann"), root_id=turn["id"])
        path = f"/api/questions/{wait.key}"
        refused = await ann("POST", path, 422, json={"answer": {"when": "now"}})
        assert "use a text" in refused["error"]["message"]
        given = await ann("POST", path, json={"answer": answer})
        assert (given["won"], given["verdict"]) == (True, verdict)
        await ann.events(f"{conversation}/turns/{turn['id']}/events")
        assert shown in (await ann("GET", f"{conversation}/turns/{turn['id']}"))["answer"]
