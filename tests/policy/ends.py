"""All ways in which a run ends, each with content of its own in it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from concertino import OPERATOR, Done, Fail, Finish, NextStep, NotDone, RunContext, ToolContext, Turn, tool
from concertino.errors import OverloadedError
from concertino.messages import AssistantMessage
from concertino.testing import Answer, call

from .drive import Play, sealed, to_the_end
from .kit import Canaries
from .scene import Agent, Notes, SigningModel, chat


class Ending(Agent):
    """A child that ends in its first step as *how* names it, or a boss that does so in its second."""

    def __init__(self, play: Play, how: str, *below: Agent) -> None:
        super().__init__(play.canaries, play.policy, "boss" if below else "child", *below)
        self.how = how
        self.reached: asyncio.Event = asyncio.Event()
        for agent in below:
            if isinstance(agent, Ending):
                self.reached = agent.reached
        self.tools = [*self.tools, hanging(self.c, self.reached)]

    def _now(self, run: RunContext[Notes], how: str) -> bool:
        return self.how == how and run.state.step > ("child" not in self.name)

    def interpret_response(self, run: RunContext[Notes], message: AssistantMessage) -> Turn:
        if self._now(run, "a hook fails"):
            raise ValueError(self.c["error of a hook"])
        return Turn(message, message.tool_calls)

    def after_step(self, run: RunContext[Notes], outcome: NextStep) -> NextStep:
        return Fail(self.c["Fail"]) if self._now(run, "Fail") else outcome

    def on_no_tool_calls(self, run: RunContext[Notes]) -> NextStep:
        return Finish(self.c["Finish"]) if self.how == "Finish" else Finish()

    def conclude(self, run: RunContext[Notes], text: str) -> str:  # type: ignore[override]  # a hook may be plain
        return text


def hanging(c: Canaries, reached: asyncio.Event) -> Any:
    """A tool that takes effect, hangs, and does not know afterwards what became of it."""

    async def probe(_key: str) -> Done | NotDone | None:
        raise ValueError(c["error of a probe"])

    @tool(probe=probe, timeout=None)
    async def hang(query: str, context: ToolContext) -> str:
        """Hang."""
        with context.progress.begin("hanging") as step:
            step.send(c["progress of a hanging tool"])
            context.stream(c["streamed by a hanging tool"])
            reached.set()
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                raise ValueError(c["error while being cancelled"]) from None
        return ""

    return hang


def model_of(play: Play, child: list[Any], boss: list[Any]) -> SigningModel:
    c = play.canaries
    asides = [c["answer aside"]] * 9
    task = call("child", query=c["task of the child"])
    model = SigningModel(scripts={"the boss": [task, *boss], "the child": child, "Asked aside": asides})
    model.canaries = c
    return model


async def by_itself(play: Play, how: str, child: list[Any], boss: list[Any]) -> None:
    """The child ends in that way, and then the boss."""
    agent, model = Ending(play, how, Ending(play, how)), model_of(play, child, boss)
    async with play.runtime(agent, model) as runtime:
        run = await runtime.start(chat(play.canaries, model), agent)
        result = await run.result()
        assert result.status == ("completed" if how == "Finish" else "failed"), result


async def hook_fails(play: Play) -> None:
    await by_itself(play, "a hook fails", [play.canaries["child"]], [play.canaries["boss"]])


async def fails(play: Play) -> None:
    await by_itself(play, "Fail", [play.canaries["child"]], [play.canaries["boss"]])


async def finishes(play: Play) -> None:
    await by_itself(play, "Finish", [play.canaries["child"]], [play.canaries["boss"]])


async def model_fails(play: Play) -> None:
    error = OverloadedError(play.canaries["error of the model"])
    broken = Answer(text=play.canaries["text of a broken answer"], reasoning=play.canaries["thought"], error=error)
    await by_itself(play, "", [broken], [broken])


async def stopped_in_a_tool(play: Play) -> None:
    agent, model = Ending(play, "", Ending(play, "")), model_of(play, [call("hang", query=play.canaries["query"])], [])
    async with play.runtime(agent, model) as runtime:
        run = await runtime.start(chat(play.canaries, model), agent)
        await agent.reached.wait()
        receipt = await runtime.stop(OPERATOR, run.id)
        assert receipt.unknown
        assert (await run.result()).status == "cancelled"


async def stopped_in_an_answer(play: Play) -> None:
    c, reached = play.canaries, asyncio.Event()

    async def wait() -> None:
        reached.set()
        await asyncio.Event().wait()

    begun = Answer(reasoning=c["thought"], text=c["text"], calls=(call("look", query=c["query"]),), midway=wait)
    agent, model = Ending(play, "", Ending(play, "")), model_of(play, [begun], [])
    async with play.runtime(agent, model) as runtime:
        run = await runtime.start(chat(c, model), agent)
        await reached.wait()
        await runtime.stop(OPERATOR, run.id)
        assert (await run.result()).status == "cancelled"


async def _parked(play: Play, child: list[Any], boss: list[Any]) -> tuple[str, SigningModel]:
    """A run whose process ended while its child was in a tool."""
    model = model_of(play, [call("hang", query=play.canaries["query"]), *child], boss)
    agent = Ending(play, "", Ending(play, ""))
    async with play.runtime(agent, model) as runtime:
        run = await runtime.start(chat(play.canaries, model), agent)
        await agent.reached.wait()
    return run.id, model


async def parked_and_resumed(play: Play) -> None:
    c = play.canaries
    run_id, model = await _parked(play, [c["answer of the child"]], [c["answer"]])
    agent = Ending(play, "", Ending(play, ""))
    async with play.runtime(agent, model) as runtime:
        result = await (await runtime.resume(OPERATOR, run_id)).result()
        assert result.status == "completed", result


@dataclass
class OtherNotes:
    """A later version of the agent's state, which the stored one does not match."""

    text: int = 0


async def state_no_longer_fits(play: Play) -> None:
    class Later(Ending):
        def initialize_agent_state(self, run: RunContext[Notes]) -> Any:
            return OtherNotes()

    run_id, model = await _parked(play, [], [])
    agent = Later(play, "", Later(play, ""))
    async with play.runtime(agent, model) as runtime:
        result = await (await runtime.resume(OPERATOR, run_id)).result()
        assert result.status == "failed"
        assert "does not match OtherNotes" in (result.error or "")


async def _to_the_end(play: Play) -> None:
    await to_the_end(play)


async def _sealed(play: Play) -> None:
    await sealed(play)


ENDS: dict[str, Callable[[Play], Awaitable[None]]] = {
    "completed": _to_the_end,
    "sealed by a stop": _sealed,
    "a hook fails": hook_fails,
    "Fail": fails,
    "Finish": finishes,
    "the model fails": model_fails,
    "stopped in a tool": stopped_in_a_tool,
    "stopped in an answer": stopped_in_an_answer,
    "parked in a tool and resumed": parked_and_resumed,
    "its state no longer fits": state_no_longer_fits,
}
