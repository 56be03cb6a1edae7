"""The tools and the register of the faulty agents."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from concertino import AgentConfig, Tool, tool

FAULTY: dict[str, list[type[AgentConfig[Any]]]] = {}
"""By class of faults: agents with one of them."""

A = TypeVar("A", bound=type[AgentConfig[Any]])


def faulty(kind: str) -> Callable[[A], A]:
    """Register an agent with a fault of the class *kind*."""

    def register(agent: A) -> A:
        FAULTY.setdefault(kind, []).append(agent)
        return agent

    return register


@tool(effect="read")
async def look(place: str) -> str:
    """Look at a place."""
    return f"all is well at {place}"


@tool
async def pay(account: str, euros: int) -> str:
    """Pay from an account."""
    return f"{euros} euros are paid"


class Base(AgentConfig[Any]):
    """A clerk with two tools."""

    name = "clerk"
    prompt = "You are a clerk."
    tools: Sequence[Tool] = (look, pay)
