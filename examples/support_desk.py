"""A desk with two specialists: agents as tools, side by side, with one bill for all of them.

Run it with `python examples/support_desk.py`. The model is scripted, so that it needs no key; put
`open_model("anthropic")` in its place to see it think for itself.
"""

import asyncio
from collections import defaultdict

from concertino import AgentConfig, Chat, Tokens, ToolOrchestrator, ToolRegistry, tool
from concertino.agents import delegate
from concertino.events import RunStarted, ToolDone, ToolProgress
from concertino.testing import Answer, ScriptedModel, call
from concertino.tools.base import ToolContext


@tool
async def find_order(number: str, context: ToolContext) -> dict[str, str]:
    """Look an order up."""
    with context.progress.begin("Looking the order up", "search") as step:
        await asyncio.sleep(0.01)
        step.send(f"order {number}")
    return {"number": number, "state": "shipped on Monday"}


@tool
async def find_invoice(number: str) -> dict[str, str]:
    """Look an invoice up."""
    return {"number": number, "amount": "80.00 euros"}


class Shipping(AgentConfig):
    """Knows orders."""

    name = "shipping"
    prompt = "You know about orders."
    tools = (find_order,)
    enable_global_context_update = False


class Billing(AgentConfig):
    """Knows invoices."""

    name = "billing"
    prompt = "You know about invoices."
    tools = (find_invoice,)
    enable_global_context_update = False


class Desk(AgentConfig):
    """Talks to the customer."""

    name = "desk"
    prompt = "You help customers. Ask your specialists, both at once if you need both."


def model() -> ScriptedModel:
    """Return a script for the three agents."""
    return ScriptedModel(
        [call("shipping", query="Where is A7?"), call("billing", query="What does A7 cost?")],
        Answer(text="A7 was shipped on Monday and costs 80 euros.", tokens=Tokens(prompt=420, completion=12)),
        scripts={
            "You know about orders.": [call("find_order", number="A7"), "A7 was shipped on Monday."],
            "You know about invoices.": [call("find_invoice", number="A7"), "A7 costs 80 euros."],
        },
    )


async def main() -> None:
    """Ask the desk, watch the three agents, and add up the bill."""
    registry = ToolRegistry(
        [delegate(Shipping(), description="Knows orders."), delegate(Billing(), description="Knows invoices.")]
    )
    chat = Chat(model=model(), message="Where is my order A7, and what does it cost?")
    desk = ToolOrchestrator(chat, Desk(), registry)
    async for event in desk.stream():
        match event:
            case RunStarted(agent_path=path, task=task):
                print(f"{path}: {task}")
            case ToolProgress(agent_path=path, step=step) if step["ended"]:
                print(f"{path}: {step['name']}: {', '.join(step['parts'])}")
            case ToolDone(agent_path=path, name=name, content=content):
                print(f"{path}: {name} -> {content}")
    assert desk.result is not None
    print(desk.result.text)

    bill: dict[str, Tokens] = defaultdict(Tokens)
    for record in desk.result.usage:
        bill[record.agent_path] += record.tokens
    for path, tokens in bill.items():
        print(f"{path:16} {tokens.prompt:5} in {tokens.completion:4} out")


if __name__ == "__main__":
    asyncio.run(main())
