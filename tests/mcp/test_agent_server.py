"""Agents and workflows as tools of an MCP server over streamable HTTP, for clients of both generations."""

from __future__ import annotations

import asyncio
from typing import Any

import mcp_types as types
import pytest
from mcp import MCPError
from mcp.shared._httpx_utils import create_mcp_http_client

from concertino import OPERATOR, Chat, Limits, MemoryStore, Resources, Runtime, Scope
from concertino.testing import ScriptedModel, call

from .agent_kit import ANN, ERAS, NOTES, Counter, Desk, client, flow, raw_call, served, shown

pytestmark = pytest.mark.parametrize("era", [pytest.param("legacy", marks=pytest.mark.slow), ERAS[1]])


async def test_an_agent_is_a_tool_that_answers(era: str) -> None:
    resources = Resources(model=ScriptedModel("Hello, Ann."), store=MemoryStore())
    async with served([Desk()], resources, descriptions={"desk": "The help desk."}) as (runtime, url):
        async with client(url, era) as found:
            tools = {each.name: each for each in (await found.list_tools()).tools}
            assert tools["desk"].description == "The help desk."
            assert set(tools) == {"desk", "continue_workflow", "get_run", "list_runs", "stop_run"}
            result = await found.call_tool("desk", {"message": "Hello!"})
        assert [each.text for each in result.content if isinstance(each, types.TextContent)] == ["Hello, Ann."]
        assert shown(result)["status"] == "completed"
        (run,) = await runtime.store.runs(ANN)
        assert run.start.run_id == shown(result)["run"]


async def test_an_approval_is_a_question_to_the_user(era: str) -> None:
    desk, asked = Desk(), []

    def answer(params: types.ElicitRequestFormParams) -> Any:
        asked.append(params.message)
        return {"approve": "tea" in params.message, "reason": "too dear"}

    model = ScriptedModel([call("order", item="tea"), call("order", item="gold")], "Tea only.")
    async with (
        served([desk], Resources(model=model, store=MemoryStore())) as (_, url),
        client(url, era, answer=answer) as found,
    ):
        result = await found.call_tool("desk", {"message": "Order tea and gold."})
    assert shown(result)["answer"] == "Tea only."
    assert desk.ordered == ["tea"]
    assert sorted(asked) == [f'Allow the call order({{"item": "{each}"}})? It costs money.' for each in ("gold", "tea")]
    assert "not allowed by ann: too dear" in str(model.requests[1].messages[-1])


@pytest.mark.parametrize("answer", [None, lambda params: types.ElicitResult(action="cancel")])
async def test_a_client_that_does_not_answer_learns_what_the_run_waits_for(era: str, answer: Any) -> None:
    desk = Desk()
    resources = Resources(model=ScriptedModel(call("order", item="tea"), "Ordered."), store=MemoryStore())
    async with served([desk], resources) as (runtime, url), client(url, era, answer=answer) as found:
        waiting = shown(await found.call_tool("desk", {"message": "Order tea."}))
        assert waiting["status"] == "suspended"
        assert waiting["waits_for"][0]["arguments"] == '{"item": "tea"}'
        (wait,) = await runtime.approvals(ANN)
        await Runtime(store=runtime.store).approve(ANN, wait.key)  # elsewhere: this process finds the answer later
        assert shown(await found.call_tool("get_run", {"run": waiting["run"]}))["answer"] == "Ordered."
    assert desk.ordered == ["tea"]


async def test_a_question_of_a_tool_is_asked(era: str) -> None:
    model = ScriptedModel(call("ask"), "Green.")
    async with (
        served([Desk()], Resources(model=model, store=MemoryStore())) as (_, url),
        client(url, era, answer=lambda params: {"answer": f"Green, to {params.message}"}) as found,
    ):
        result = await found.call_tool("desk", {"message": "Ask."})
    assert shown(result)["answer"] == "Green."
    assert "They say: Green, to Which colour?" in str(model.requests[1].messages[-1])


async def test_a_declined_question_is_refused(era: str) -> None:
    model = ScriptedModel(call("ask"), "Unknown.")
    async with (
        served([Desk()], Resources(model=model, store=MemoryStore())) as (_, url),
        client(url, era, answer=lambda params: types.ElicitResult(action="decline")) as found,
    ):
        assert shown(await found.call_tool("desk", {"message": "Ask."}))["answer"] == "Unknown."
    assert "They say: None" in str(model.requests[1].messages[-1])


async def test_progress_names_the_run_and_its_calls(era: str) -> None:
    lines: list[str | None] = []

    async def progress(progress: float, total: float | None, message: str | None) -> None:
        lines.append(message)

    desk = Desk()
    desk.release.set()
    resources = Resources(model=ScriptedModel(call("wait"), "Over."), store=MemoryStore())
    async with served([desk], resources) as (_, url), client(url, era) as found:
        result = await found.call_tool("desk", {"message": "Wait."}, progress_callback=progress)
    assert lines == [f"desk: started ({shown(result)['run']})", "wait: called"]


async def test_an_outside_agent_drives_a_workflow(era: str) -> None:
    resources = Resources(model=ScriptedModel(), store=MemoryStore())
    async with (
        served([flow()], resources, secret="s3cret") as (_, url),
        client(url, era, answer=lambda params: {"answer": "today"}) as found,
    ):
        assert (await found.list_tools()).tools[0].description == "Reviews a change."
        first = shown(await found.call_tool("flow", {"message": "change 7"}))["step"]
        assert (first["step"], first["prompt"]) == ("first", "Read change 7.")
        forged = {"token": first["token"][:-1] + "x", "notes": NOTES, "context": {"risk": "low"}}
        assert (await found.call_tool("continue_workflow", forged)).is_error
        done = {"token": first["token"], "notes": NOTES, "context": {"risk": "low"}}
        assert (await found.call_tool("continue_workflow", done | {"notes": "short"})).is_error
        assert (await found.call_tool("continue_workflow", done | {"context": "low"})).is_error
        second = shown(await found.call_tool("continue_workflow", done))
        assert second["step"]["prompt"] == "Report seen low today."
        async with client(url, era, user="bob") as other:
            stolen = {"token": second["step"]["token"], "notes": NOTES}
            assert (await other.call_tool("continue_workflow", stolen)).is_error
        again = shown(await found.call_tool("continue_workflow", done))
        assert again == second
        assert shown(await found.call_tool("get_run", {"run": second["run"]})) == second
        end = await found.call_tool("continue_workflow", {"token": second["step"]["token"], "notes": NOTES})
        assert (shown(end)["status"], shown(end)["answer"]) == ("completed", "seen low, today")


async def test_a_dropped_client_loses_nothing(era: str) -> None:
    desk = Desk()
    resources = Resources(model=ScriptedModel(call("wait"), "Over."), store=MemoryStore())
    async with served([desk], resources) as (runtime, url):
        async with create_mcp_http_client(headers={"x-user": "ann"}) as http:
            sent = await raw_call(http, url, era, "desk", {"message": "Wait."})
            async with http.stream("POST", url, **sent):
                await desk.started.wait()
        (run,) = await runtime.store.runs(ANN)
        async with client(url, era) as found:
            listed = shown(await found.call_tool("list_runs"))
            assert listed == {"runs": [{"run": run.start.run_id, "agent": "desk", "status": "running"}]}
            desk.release.set()
            assert shown(await found.call_tool("get_run", {"run": run.start.run_id}))["answer"] == "Over."


async def test_a_cancellation_stops_the_run_where_it_differs_from_a_lost_connection(era: str) -> None:
    desk = Desk()
    resources = Resources(model=ScriptedModel(call("wait"), "Over."), store=MemoryStore())
    async with served([desk], resources) as (runtime, url), client(url, era) as found:
        calling = asyncio.create_task(found.call_tool("desk", {"message": "Wait."}))
        await desk.started.wait()
        calling.cancel()
        await asyncio.wait([calling])
        (run,) = await runtime.store.runs(ANN)
        if era != "legacy":
            desk.release.set()
        result = shown(await found.call_tool("get_run", {"run": run.start.run_id}))
        assert result["status"] == ("cancelled" if era == "legacy" else "completed")


async def test_a_long_call_returns_the_state_of_its_run(era: str) -> None:
    desk = Desk()
    resources = Resources(model=ScriptedModel(call("wait"), "Over."), store=MemoryStore())
    async with served([desk], resources, seconds=0.05) as (_, url), client(url, era) as found:
        running = shown(await found.call_tool("desk", {"message": "Wait."}))
        assert running["status"] == "running"
        stopped = await found.call_tool("stop_run", {"run": running["run"]})
        assert (shown(stopped)["status"], stopped.is_error) == ("cancelled", True)


async def test_a_process_that_ends_answers_its_calls(era: str) -> None:
    desk = Desk()
    resources = Resources(model=ScriptedModel(call("wait"), "Over."), store=MemoryStore())
    async with served([desk], resources) as (runtime, url), client(url, era) as found:
        calling = asyncio.create_task(found.call_tool("desk", {"message": "Wait."}))
        await desk.started.wait()
        await runtime.close()
        assert shown(await calling)["status"] == "running"


async def test_a_run_at_its_limit_states_it(era: str) -> None:
    desk = Desk()
    desk.release.set()
    resources = Resources(
        model=ScriptedModel(call("wait"), call("wait")), store=MemoryStore(), limits=lambda *_: Limits(steps=1)
    )
    async with served([desk], resources) as (_, url), client(url, era) as found:
        result = await found.call_tool("desk", {"message": "Wait."})
    assert (shown(result)["status"], result.is_error) == ("limited", False)
    assert shown(result)["error"] == "no answer was possible within the limits"


async def test_a_typed_answer_is_structured(era: str) -> None:
    resources = Resources(model=ScriptedModel('{"items": 3}'), store=MemoryStore())
    async with served([Counter()], resources) as (_, url), client(url, era) as found:
        assert shown(await found.call_tool("counter", {"message": "Count."}))["output"] == {"items": 3}


async def test_a_run_of_another_user_does_not_exist(era: str) -> None:
    resources = Resources(model=ScriptedModel("Hello."), store=MemoryStore())
    async with served([Desk()], resources) as (_, url):
        async with client(url, era) as found:
            run = shown(await found.call_tool("desk", {"message": "Hello!"}))["run"]
        async with client(url, era, user="bob") as other:
            assert shown(await other.call_tool("list_runs")) == {"runs": []}
            for name in ("get_run", "stop_run"):
                refused, invented = [
                    await other.call_tool(name, {"run": each}) for each in (run, "run_" + "0" * len(run[4:]))
                ]
                assert refused.is_error and invented.is_error
                assert "there is no run" in str(refused.content)
                assert str(refused.content).replace(run, "") == str(invented.content).replace("run_" + "0" * 32, "")
            with pytest.raises(MCPError):
                await other.call_tool("nothing")
            assert (await other.call_tool("desk", {"message": " "})).is_error


async def test_a_session_belongs_to_the_user_who_opened_it(era: str) -> None:
    resources = Resources(model=ScriptedModel("Hello."), store=MemoryStore())
    async with served([Desk()], resources) as (runtime, url), create_mcp_http_client() as http:
        http.headers["x-user"] = "ann"
        sent = await raw_call(http, url, "legacy", "desk", {"message": "Hello!"})
        http.headers["x-user"] = "bob"
        assert (await http.post(url, **sent)).status_code == 404
        assert (await http.delete(url, headers=sent["headers"])).status_code == 404
        del http.headers["x-user"]
        assert (await http.post(url, **await raw_call(http, url, ERAS[1], "desk", {"message": "!"}))).status_code == 401
        assert list(await runtime.store.runs(OPERATOR)) == []


async def test_an_approval_of_another_person_is_not_asked_for(era: str) -> None:
    resources = Resources(model=ScriptedModel(call("order", item="tea")), store=MemoryStore())
    async with served([Desk(who=("bob",))], resources) as (runtime, url):
        async with client(url, era, answer=lambda params: {"approve": True}) as found:
            assert shown(await found.call_tool("desk", {"message": "Order tea."}))["status"] == "suspended"
        (wait,) = await runtime.approvals(Scope("acme", "bob"))
        assert wait.resolution is None


async def test_an_agent_that_is_not_offered_cannot_be_reached(era: str) -> None:
    resources = Resources(model=ScriptedModel(), store=MemoryStore())
    async with served([Desk(), flow()], resources, agents=["desk"]) as (runtime, url), client(url, era) as found:
        assert "flow" not in [tool.name for tool in (await found.list_tools()).tools]
        with pytest.raises(MCPError):
            await found.call_tool("flow", {"message": "change 7"})
        run = await runtime.start(Chat("change 7", scope=ANN), "flow")
        assert shown(await found.call_tool("list_runs")) == {"runs": []}
        assert (await found.call_tool("get_run", {"run": run.id})).is_error


async def test_a_failure_shows_no_text_for_developers(era: str) -> None:
    resources = Resources(model=ScriptedModel(ValueError("secret")), store=MemoryStore())
    async with served([Desk()], resources) as (_, url), client(url, era) as found:
        result = await found.call_tool("desk", {"message": "Hello!"})
    assert result.is_error and shown(result)["status"] == "failed"
    assert "secret" not in str(result)
