"""A process that exports the spans of a run: `program STORE ADDRESS start|resume`. The first one kills itself."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from typing import Any

from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

from concertino import AgentConfig, Ask, Chat, Resources, Retry, RunContext, Runtime, Scope, SqliteStore, ToolCall, tool
from concertino.agents import delegate
from concertino.errors import OverloadedError
from concertino.observability import OpenTelemetry
from concertino.testing import ScriptedModel, call

PROVIDER = TracerProvider()
TELEMETRY = OpenTelemetry(PROVIDER)
SCOPE = Scope("acme", "ann")


@tool(effect="read")
def look(item: str) -> str:
    """Look something up, with a span of its own."""
    with trace.get_tracer("shop").start_as_current_span("query"):
        return f"{item}: 3.50 euros"


@tool(effect="read")
async def crash() -> str:
    """Kill the process, once what it did before is exported."""
    if sys.argv[3] == "start":
        TELEMETRY.flush()
        PROVIDER.force_flush()
        os.kill(os.getpid(), signal.SIGKILL)
    return "still here"


@tool(effect="idempotent")
async def pay(euros: int) -> str:
    """Pay."""
    return f"{euros} euros paid"


class Clerk(AgentConfig[None]):
    name = "clerk"
    prompt = "You know all prices."
    tools = (look,)


class Chief(AgentConfig[None]):
    name = "chief"
    tools = (delegate(Clerk(), description="Knows the prices."), crash, pay)

    def authorize_tool_call(self, run: RunContext[None], call: ToolCall, arguments: dict[str, Any]) -> Ask | Any:
        from concertino import Allow

        return Ask(note="a payment") if call.name == "pay" else Allow()


def model(step: str) -> ScriptedModel:
    """Return the model of one process."""
    if step == "start":
        overloaded = OverloadedError("try later", provider="scripted")
        script = [overloaded, call("clerk", query="tea?"), call("crash")]
        return ScriptedModel(*script, scripts={"You know all prices": [call("look", item="tea"), "3.50"]})
    return ScriptedModel(call("pay", euros=4), "Paid.")


async def main(path: str, address: str, step: str) -> None:
    PROVIDER.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(f"{address}/v1/traces")))
    trace.set_tracer_provider(PROVIDER)
    async with await SqliteStore.open(path) as store:
        resources = Resources(model=model(step), store=store, retry=Retry(first=0.0))
        async with Runtime([Chief()], resources, observers=[TELEMETRY], sweep=0.02, lease=0.5) as runtime:
            if step == "start":
                with trace.get_tracer("shop").start_as_current_span("request"):
                    run = await runtime.start(Chat("Buy tea", scope=SCOPE), "chief")
                PROVIDER.force_flush()
                await run.result()
            # An answer that comes before the suspension is used without one.
            while not (waiting := await store.runs(SCOPE, state="suspended")):  # noqa: ASYNC110 - the watchdog resumes it
                await asyncio.sleep(0.02)
            root_id = waiting[0].start.root_id
            (wait,) = await runtime.approvals(SCOPE)
            await runtime.approve(SCOPE, wait.key)
            async for _ in runtime.events(SCOPE, root_id):
                pass
            assert (await runtime.result(SCOPE, root_id)).text == "Paid."
    TELEMETRY.flush()
    PROVIDER.force_flush()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
