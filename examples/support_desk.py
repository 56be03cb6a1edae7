"""A support desk with two specialists: agents as tools, running concurrently, with one bill.

Run it with `python examples/support_desk.py`. The model is scripted and needs no key; replace it with
`open_model("ollama:qwen3")` or `open_model("anthropic")` to use a real one.
"""

import asyncio
from collections import defaultdict

from concertino import AgentConfig, Chat, Tokens, ToolContext, ToolOrchestrator, ToolRegistry, tool
from concertino.agents import delegate
from concertino.events import RunStarted, ToolDone, ToolProgress
from concertino.testing import Answer, ScriptedModel, call


@tool
async def find_order(number: str, context: ToolContext) -> dict[str, str]:
    """Look up an order."""
    with context.progress.begin("Looking up the order", "search") as step:
        await asyncio.sleep(0.01)
        step.send(f"order {number}")
    return {"number": number, "state": "shipped on Monday"}


@tool
async def find_invoice(number: str) -> dict[str, str]:
    """Look up an invoice."""
    return {"number": number, "amount": "80.00 euros"}


class Shipping(AgentConfig):
    """An agent that looks up orders."""

    name = "shipping"
    prompt = "You know about orders."
    tools = (find_order,)
    enable_global_context_update = False


class Billing(AgentConfig):
    """An agent that looks up invoices."""

    name = "billing"
    prompt = "You know about invoices."
    tools = (find_invoice,)
    enable_global_context_update = False


class Desk(AgentConfig):
    """The agent that answers the customer."""

    name = "desk"
    prompt = "You help customers. Ask your specialists, in one turn if you need both."


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
    chat = Chat("Where is my order A7, and what does it cost?", model=model())
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
