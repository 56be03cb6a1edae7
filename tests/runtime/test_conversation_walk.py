"""A random walk over all operations of two tenants' conversations, compared with a model of a few lines."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from concertino import AgentConfig, Conversation, MemoryStore, ModelRequest, Resources, Runtime, Scope, UserMessage
from concertino.testing import ScriptedModel


class Desk(AgentConfig[None]):
    name = "desk"


def echo(request: ModelRequest) -> str:
    return " ".join(message.text for message in request.messages if isinstance(message, UserMessage))


@dataclass
class Expected:
    """A conversation as a tree: the parent and the message of each turn, and the active leaf."""

    turns: dict[str, tuple[str, str]] = field(default_factory=dict)
    keys: dict[str, str] = field(default_factory=dict)
    leaf: str = ""

    def branch(self, turn: str) -> list[str]:
        found: list[str] = []
        while turn:
            found.append(turn)
            turn = self.turns[turn][0]
        return found

    def add(self, turn: str, parent: str, message: str) -> None:
        self.turns[turn] = (parent, message)
        self.leaf = turn

    def said(self, turn: str) -> str:
        return " ".join(self.turns[each][1] for each in reversed(self.branch(turn)))

    def newest_below(self, turn: str) -> str:
        while children := [each for each, (parent, _) in self.turns.items() if parent == turn]:
            turn = children[-1]
        return turn


operations = st.tuples(
    st.sampled_from(["send", "send", "send", "repeat", "regenerate", "edit", "branch", "switch", "restart", "search"]),
    st.integers(0, 1),
    st.integers(0, 99),
)


@settings(deadline=None, max_examples=60)
@given(st.lists(operations, max_size=25))
async def test_a_walk(walk: list[tuple[str, int, int]]) -> None:
    store, scopes = MemoryStore(), (Scope("acme", "ann"), Scope("rival", "ann"))
    trees = [Expected(), Expected()]
    runtimes = [make(store), make(store)]
    conversations = [await runtimes[0].conversation(scope, "c", agent="desk") for scope in scopes]
    for number, (operation, tenant, choice) in enumerate(walk):
        tree, conversation = trees[tenant], conversations[tenant]
        if operation == "restart":
            runtime = runtimes[choice % 2]
            conversations[tenant] = await runtime.conversation(scopes[tenant], "c")
        elif operation == "search":
            await runtimes[0].look()
            for word in (f"m{choice % 25}", f"e{choice % 25}"):
                found = {turn.run_id for turn in await runtimes[0].search(scopes[tenant], word)}
                assert found == {turn for turn, (_, message) in tree.turns.items() if word in tree.said(turn).split()}
        else:
            await step(tree, conversation, operation, number, choice)
        await compare(tree, conversations[tenant])


def make(store: MemoryStore) -> Runtime:
    return Runtime([Desk()], Resources(model=ScriptedModel(*[echo] * 30), store=store))


async def step(tree: Expected, conversation: Conversation, operation: str, number: int, choice: int) -> None:
    known = list(tree.turns)
    chosen = known[choice % len(known)] if known else ""
    if operation == "send":
        turn = await conversation.send(f"m{number}", key=str(number))
        tree.keys[str(number)] = turn.id
        tree.add(turn.id, tree.leaf, f"m{number}")
        assert (await turn.result()).text == tree.said(turn.id)
    elif operation == "repeat" and tree.keys:
        key = sorted(tree.keys)[choice % len(tree.keys)]
        assert (await conversation.send("again", key=key)).id == tree.keys[key]
    elif not chosen:
        return
    elif operation == "regenerate":
        turn = await conversation.regenerate(chosen)
        tree.add(turn.id, *tree.turns[chosen])
        assert (await turn.result()).text == tree.said(turn.id)
    elif operation == "edit":
        turn = await conversation.edit(chosen, f"e{number}")
        tree.add(turn.id, tree.turns[chosen][0], f"e{number}")
        assert (await turn.result()).text == tree.said(turn.id)
    elif operation == "branch":
        await conversation.branch(chosen)
        tree.leaf = chosen
    elif operation == "switch":
        tree.leaf = tree.newest_below(chosen)
        assert await conversation.switch(chosen) == tree.leaf


async def compare(tree: Expected, conversation: Conversation) -> None:
    shown = await conversation.turns(100)
    assert [turn.run_id for turn in shown] == tree.branch(tree.leaf)
    assert [turn.message for turn in shown] == [tree.turns[turn.run_id][1] for turn in shown]
    assert [turn.answer for turn in shown] == [tree.said(turn.run_id) for turn in shown]
    for turn in shown:
        assert turn.siblings == tuple(each for each, (parent, _) in tree.turns.items() if parent == turn.parent)
    assert (await conversation.read()).leaf == tree.leaf
    assert len((await conversation.export())["turns"]) == len(tree.turns)
