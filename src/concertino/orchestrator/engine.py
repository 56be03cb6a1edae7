"""`ToolOrchestrator`: the loop. There is no other one."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Coroutine, Sequence
from contextlib import aclosing
from typing import Any, assert_never

from ..errors import ConfigurationError, RunError
from ..events import RunEnded, RunEvent, RunResult, RunStarted, RunStatus
from ..ids import new_run_id
from ..messages import AssistantMessage, Text, UserMessage
from ..providers.port import ModelRequest
from ..tools.registry import ToolRegistry
from . import prompting
from .asking import Asking
from .chat import Chat
from .checks import check_agent, check_chat, check_observers, registry_of
from .config import AgentConfig
from .hooks import Hooks
from .mailbox import PATIENCE
from .opening import Parent, build_messages, open_run, run_start
from .outcome import Fail, Finish, GoOn, StepOutcome
from .run import Ask, Run
from .step import Step

log = logging.getLogger("concertino")

Observer = Callable[[RunEvent], None]
"""Sees every event and decides nothing. One that raises is logged and harms nobody."""


class ToolOrchestrator:
    """Runs one agent once: `await run()`, or `async for event in stream()`.

    *registry* holds the agent's tools; without one, those of the agent itself. *tool_call_limit* replaces the
    agent's own limit. *run_id* names the run; without it a fresh id is made. *observers* see every event.

    Raises `ConfigurationError` for arguments of the wrong kind or an empty message.
    """

    def __init__(
        self,
        chat: Chat,
        config: AgentConfig[Any],
        registry: ToolRegistry | None = None,
        *,
        tool_call_limit: int | None = None,
        run_id: str | None = None,
        observers: Sequence[Observer] = (),
        parent: Parent | None = None,
    ) -> None:
        check_agent(config)
        check_chat(chat)
        check_observers(observers)
        self._chat = chat
        self._config = config
        self._registry = registry_of(config, registry)
        self._tool_call_limit = tool_call_limit
        self._observers = tuple(observers)
        self._parent = parent
        self.run_id = run_id or (parent.child_id() if parent else new_run_id())
        self._run: Run[Any] | None = None
        self._result: RunResult | None = None
        self._cause: Exception | None = None

    @property
    def result(self) -> RunResult | None:
        """How the run ended, however it did; None before that."""
        return self._result

    async def run(self) -> RunResult:
        """Run to the end. Raises `RunError`, with the result so far, if the run fails."""
        async for _ in self.stream():
            pass
        assert self._result is not None
        if self._result.status == "failed":
            raise RunError(self._result.error or "the run failed", self._result) from self._cause
        return self._result

    def stream(self) -> AsyncGenerator[RunEvent, None]:
        """The run's events, as they happen; the last is `RunEnded`, also when the run fails.

        Closing the generator or cancelling its consumer cancels the run: what was gathered is stored.
        """
        if self._run is not None:
            raise ConfigurationError("this ToolOrchestrator has run already; make a new one for each run")
        self._run = open_run(self._chat, self._config, self._registry, self.run_id, self._tool_call_limit, self._parent)
        events = self._events(self._run)
        return _observed(events, self._observers) if self._observers else events

    # -- the loop ------------------------------------------------------------------------------------------------

    async def _events(self, run: Run[Any]) -> AsyncGenerator[RunEvent, None]:
        hooks = Hooks(self._config)
        parent_call = self._parent.call_id if self._parent else None
        status: RunStatus = "completed"
        error: str | None = None
        outcome: StepOutcome = GoOn()
        try:
            yield RunStarted(run.id, run.path, run.index.value, self._config.name, self._chat.message, parent_call)
            async with aclosing(self._begin(run, hooks)) as events:
                async for event in events:
                    yield event
            while isinstance(outcome, GoOn) and await self._goes_on(run, hooks, outcome):
                step = Step(run, hooks, self._spawn)
                async with aclosing(step.events()) as events:
                    async for event in events:
                        yield event
                for event in run.mailbox.drain():
                    yield event
                outcome = step.outcome
            async with aclosing(self._conclude(run, hooks, outcome)) as events:
                async for event in events:
                    yield event
            if isinstance(outcome, Fail):
                status, error = "failed", outcome.error
            await self._end(run, status, error)
        except Exception as raised:  # noqa: BLE001 - it ends the run, with all that was gathered
            self._cause = raised
            error = f"{type(raised).__name__}: {raised}"
            await self._end_badly(run, "failed", error)
        except BaseException:  # cancelled, left by its consumer, or the program is ending
            await self._end_badly(run, "cancelled", "the run was cancelled")
            raise
        for event in run.mailbox.drain():
            yield event
        assert self._result is not None
        yield RunEnded(run.id, run.path, run.index.value, self._result)

    async def _begin(self, run: Run[Any], hooks: Hooks) -> AsyncGenerator[RunEvent, None]:
        """State, policy, the first messages, and what the agent looks up in advance."""
        run.recorder.policy = await hooks.ask("get_data_policy")
        run.ask = _asker(run, hooks)
        await run.recorder.begin(run_start(run, self._config, self._parent))
        run.agent_state = await hooks.ask("initialize_agent_state", run)
        build_messages(run, self._config)
        run.state.tool_choice = prompting.first_tool_choice(self._chat, run.registry)
        if hooks.has_own("prepare"):
            async with aclosing(_meanwhile(run, hooks.ask("prepare", run))) as events:
                async for event in events:
                    yield event
            for message in run.hook_value:
                run.add(message)
        for event in run.mailbox.drain():
            yield event

    async def _goes_on(self, run: Run[Any], hooks: Hooks, last: GoOn) -> bool:
        """Whether there is another step; what the last one and the hook want before it is put in place."""
        decision: bool | GoOn = await hooks.ask("should_continue_loop", run)
        run.prepare_next(last)
        if isinstance(decision, GoOn):
            run.prepare_next(decision)
            return True
        return decision

    async def _conclude(self, run: Run[Any], hooks: Hooks, outcome: StepOutcome) -> AsyncGenerator[RunEvent, None]:
        match outcome:
            case Finish(text):
                self._answer(run, run.state.text if text is None else text)
            case GoOn() | Fail():
                pass
            case _:
                assert_never(outcome)
        if hooks.has_own("conclude"):
            async with aclosing(_meanwhile(run, hooks.ask("conclude", run, run.state.text))) as events:
                async for event in events:
                    yield event
            self._answer(run, run.hook_value)

    def _answer(self, run: Run[Any], text: str) -> None:
        """The answer is what the conversation ends with, also where the model did not write it."""
        if text != run.state.text:
            run.state.text = text
            run.add(AssistantMessage((Text(text),)))

    # -- opening and closing -------------------------------------------------------------------------------------

    async def _end(self, run: Run[Any], status: RunStatus, error: str | None) -> None:
        self._result = self._gathered(run, status, error)
        await run.recorder.end(status, run.state.text, error)

    def _gathered(self, run: Run[Any], status: RunStatus, error: str | None) -> RunResult:
        run.deadlines.close()
        run.mailbox.close()
        return RunResult(
            run_id=run.id,
            agent_path=run.path,
            status=status,
            text=run.state.text,
            content_index=run.index.value,
            steps=run.state.step,
            tool_calls=dict(run.state.tool_calls),
            usage=run.ledger.records,
            data=dict(run.data),
            messages=tuple(run.added),
            error=error,
        )

    async def _end_badly(self, run: Run[Any], status: RunStatus, error: str) -> None:
        """As `_end`, for a run that is failing already: a store that fails too must not hide why.

        One that hangs keeps nobody who has cancelled; it is left to store what was gathered in its own time.
        """
        before, self._result = self._result, self._gathered(run, status, error)

        async def end() -> None:
            try:
                if await run.recorder.has_ended():
                    self._result = before
                else:
                    await run.recorder.end(status, run.state.text, error)
            except Exception:
                log.exception("run %s: what was gathered could not be stored", run.id)

        await asyncio.wait([asyncio.create_task(end())], timeout=PATIENCE if status == "cancelled" else None)

    # -- sub-agents ----------------------------------------------------------------------------------------------

    async def _spawn(
        self,
        parent: Parent,
        agent: AgentConfig[Any],
        task: str,
        registry: ToolRegistry | None,
        tool_call_limit: int | None,
    ) -> RunResult:
        """Run a sub-agent for a call; its events, usage and tool calls go into this run, however it ends."""
        run = parent.run
        chat = run.chat.for_child(task)
        child = ToolOrchestrator(chat, agent, registry, tool_call_limit=tool_call_limit, parent=parent)
        try:
            async with aclosing(child.stream()) as events:
                async for event in events:
                    await run.mailbox.deliver(event)
        finally:
            if child.result is not None:
                run.state.tool_calls.update(child.result.tool_calls)
        assert child.result is not None
        if child.result.status != "completed":
            raise RunError(child.result.error or "the sub-agent failed", child.result)
        return child.result


async def _meanwhile(run: Run[Any], work: Coroutine[Any, Any, Any]) -> AsyncGenerator[RunEvent, None]:
    """The events of a hook that may take its time; its value is left in `run.hook_value`."""

    async def keep() -> None:
        run.hook_value = await work

    run.mailbox.start([keep()])
    try:
        while (event := await run.mailbox.next()) is not None:
            yield event
    finally:
        await run.mailbox.stop()


def _asker(run: Run[Any], hooks: Hooks) -> Ask:
    async def ask(prompt: str, *, system: str | None = None) -> str:
        request = ModelRequest(
            model=run.model.name,
            system=run.system if system is None else system,
            messages=(UserMessage(prompt),),
            max_output_tokens=run.limits.output,
        )
        asking = Asking(run, hooks, run.model, request)
        try:
            async for chunk in asking.chunks:
                if (event := asking.take(chunk)) is not None:
                    run.mailbox.put(event)
            run.mailbox.put(await asking.settle())
        finally:
            await asking.close()
        return asking.message.text

    return ask


async def _observed(
    events: AsyncGenerator[RunEvent, None], observers: Sequence[Observer]
) -> AsyncGenerator[RunEvent, None]:
    try:
        async for event in events:
            for observe in observers:
                try:
                    observe(event)
                except Exception:
                    log.exception("an observer failed on %s", type(event).__name__)
            yield event
    finally:
        await events.aclose()
