"""Titles, feedback and arguments of a conversation: the data policy applies to them, and bad ones are named."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from concertino import OPERATOR, Chat, Conversation, DataPolicy, KeepFor, MemoryStore, Runtime, Scope, SqliteStore
from concertino.agents import EMAIL
from concertino.errors import ConfigurationError
from concertino.storage import Feedback
from concertino.testing import ScriptedModel
from concertino.testing.store_suite import traces

from .test_conversations import ANN, Desk, echoes, process, say

SECRET = "zephyr"
MARK = {"drop": "", "redact": "[redacted]"}


class Under(Desk):
    """A desk under a data policy."""

    def __init__(self, policy: DataPolicy, name: str = "desk") -> None:
        self._policy, self.name = policy, name

    def get_data_policy(self) -> DataPolicy:
        return self._policy


# -- the data policy ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["drop", "redact", "hash"])
async def test_titles_and_feedback_are_texts_of_the_policy(tmp_path: Path, text: Any) -> None:
    store = await SqliteStore.open(tmp_path / "a.db")
    model = echoes()
    runtime = process(store, model, Under(DataPolicy(text=text, hash_key=b"k" * 16)))
    conversation = await runtime.conversation(ANN, agent="desk")
    turn = await conversation.send("hello")
    await turn.result()
    await conversation.set_title(SECRET)
    await conversation.rate(turn.id, "up", SECRET)
    title, feedback = (await conversation.read()).title, (await turn.read()).feedback
    assert feedback is not None
    assert (feedback.rating, feedback.text) == ("up", title)
    assert title == MARK[text] if text in MARK else title.startswith("[hash:")
    await conversation.set_title("")
    asked = len(model.requests)
    assert await conversation.title() == "", "nothing is left to make one from"
    assert len(model.requests) == asked
    await runtime.close()
    await store.close()
    assert traces(tmp_path, SECRET) == []


async def test_titles_and_feedback_are_redacted_by_pattern() -> None:
    model = ScriptedModel("hi", "To ann@example.org")
    runtime = process(MemoryStore(), model, Under(DataPolicy(patterns=(EMAIL,))))
    conversation = await runtime.conversation(ANN, agent="desk")
    turn = await conversation.send("hello")
    await turn.result()
    assert await conversation.title() == "To [email]"
    await conversation.set_title("ann@example.org")
    await conversation.rate(turn.id, None, "ann@example.org")
    assert (await conversation.read()).title == "[email]"
    assert (await turn.read()).feedback == Feedback(text="[email]")


async def expire(store: SqliteStore | MemoryStore, seconds: float) -> None:
    """Let *seconds* pass for what is kept for a time."""

    def earlier(connection: Any) -> None:
        connection.execute("UPDATE conversation_texts SET erase_at = erase_at - ?", (seconds,))
        connection.execute("UPDATE heads SET sweep_at = sweep_at - ?, erase_at = erase_at - ?", (seconds, seconds))
        connection.execute("UPDATE heads SET ended = ended - ?", (seconds,))

    await store._connection.run(earlier)
    await store.sweep(OPERATOR)


async def test_titles_and_feedback_are_kept_as_long_as_other_texts(tmp_path: Path) -> None:
    store = await SqliteStore.open(tmp_path / "a.db")
    model = ScriptedModel(SECRET, f"About {SECRET}")
    runtime = process(store, model, Under(DataPolicy(text=KeepFor(3600))))
    conversation = await runtime.conversation(ANN, "c", agent="desk")
    turn = await conversation.send(SECRET)
    await turn.result()
    assert await conversation.title() == f"About {SECRET}"
    await conversation.rate(turn.id, "up", SECRET)
    other = await runtime.conversation(ANN, "other", agent="desk")
    await other.set_title(SECRET)
    await expire(store, 3500)
    assert (await other.read()).title == SECRET
    await expire(store, 101)
    assert (await conversation.read()).title == (await other.read()).title == ""
    assert (await turn.read()).feedback == Feedback(rating="up")
    await runtime.close()
    await store.close()
    assert traces(tmp_path, SECRET) == []


@pytest.mark.parametrize("skew", [-7200, 0, 7200])
async def test_a_title_does_not_outlive_the_turn_that_it_is_made_from(skew: int) -> None:
    """It was made when half of the time was over. The process that ended the turn has a clock of its own."""
    store = MemoryStore()
    runtime = process(store, ScriptedModel("hi", "A Title", "unused"), Under(DataPolicy(text=KeepFor(3600))))
    conversation = await runtime.conversation(ANN, "c", agent="desk")
    await (await conversation.send("hello")).result()
    past = f"UPDATE journal SET at = at - 1800; UPDATE ends SET ended = ended - 1800 + {skew}"
    await store._connection.run(lambda connection: connection.executescript(past))
    assert await conversation.title() == "A Title"
    kept = "SELECT erase_at - strftime('%s', 'now') FROM conversation_texts WHERE kind = 'title'"
    (left,) = await store._connection.run(lambda connection: connection.execute(kept).fetchone())
    assert left < 1802
    (run,) = [each for each in await store.runs(ANN) if each.start.agent == "conversation_title"]
    (sweep,) = await store._connection.run(
        lambda connection: connection.execute(
            "SELECT h.erase_after FROM heads AS h JOIN runs AS r ON r.number = h.run WHERE r.run_id = ?",
            (run.start.run_id,),
        ).fetchone()
    )
    assert sweep < 1802, "the run that made it has the text too"


async def test_each_title_is_made_under_the_policy_of_its_own_conversation() -> None:
    """The title agent of the first conversation was used for all."""
    store = MemoryStore()
    model = ScriptedModel("hi", "One", "hi", "Two")
    runtime = process(store, model, Desk(), Under(DataPolicy(text=KeepFor(3600)), "brief"))
    for agent, title in (("desk", "One"), ("brief", "Two")):
        conversation = await runtime.conversation(ANN, agent=agent)
        await (await conversation.send("hello")).result()
        assert await conversation.title() == title
    titles = [each for each in await store.runs(ANN) if each.start.agent == "conversation_title"]
    await expire(store, 3601)
    kept = ["hello" in str(await store.messages(ANN, each.start.run_id)) for each in reversed(titles)]
    assert kept == [True, False]


async def test_the_name_of_the_agent_that_writes_titles_is_reserved() -> None:
    """An agent of the product would be replaced by it when its run is resumed."""

    class Impostor(Desk):
        name = "conversation_title"

    with pytest.raises(ConfigurationError, match="'conversation_title' is reserved"):
        process(MemoryStore(), echoes(), Impostor())
    runtime = process(MemoryStore(), echoes())
    with pytest.raises(ConfigurationError, match="'conversation_title' is reserved"):
        await runtime.start(Chat("hello", scope=ANN), Impostor())
    with pytest.raises(ConfigurationError, match="no agent 'conversation_title'"):
        await runtime.conversation(ANN, "c", agent="conversation_title")
    await runtime.check(Chat("hello", scope=ANN), "conversation_title")  # as for any agent that this process lacks


# -- arguments ---------------------------------------------------------------------------------------------------------

Use = Callable[[Runtime, Conversation, Any], Awaitable[Any]]
TEXTS: dict[str, Use] = {
    "message": lambda _, talk, bad: talk.send(bad),
    "key": lambda _, talk, bad: talk.send("x", key=bad),
    "mode": lambda _, talk, bad: talk.send("x", mode=bad),
    "system_prompt": lambda _, talk, bad: talk.send(Chat("x", system_prompt=bad)),
    "personalization": lambda _, talk, bad: talk.send(Chat("x", personalization=bad)),
    "project_rules": lambda _, talk, bad: talk.send(Chat("x", project_rules=bad)),
    "title": lambda _, talk, bad: talk.set_title(bad),
    "text": lambda _, talk, bad: talk.rate("turn", "up", bad),
    "turn_id": lambda _, talk, bad: talk.turn(bad),
    "turn_id of regenerate": lambda _, talk, bad: talk.regenerate(bad),
    "turn_id of edit": lambda _, talk, bad: talk.edit(bad, "x"),
    "turn_id of branch": lambda _, talk, bad: talk.branch(bad),
    "turn_id of switch": lambda _, talk, bad: talk.switch(bad),
    "turn_id of withdraw": lambda _, talk, bad: talk.withdraw(bad),
    "turn_id of rate": lambda _, talk, bad: talk.rate(bad, "up"),
    "before": lambda _, talk, bad: talk.turns(before=bad),
    "before of conversations": lambda here, _, bad: here.conversations(ANN, before=bad),
    "conversation_id": lambda here, _, bad: here.conversation(ANN, bad, agent="desk"),
    "after of unsettled usage": lambda here, _, bad: here.unsettled_usage(ANN, after=bad),
    "text of search": lambda here, _, bad: here.search(ANN, bad),
    "run_id": lambda here, _, bad: here.start(Chat("x", scope=ANN), "desk", run_id=bad),
    "message of steer": lambda here, _, bad: here.steer(ANN, "run", bad),
    "reason": lambda here, _, bad: here.deny(ANN, "key", bad),
}
NUMBERS: dict[str, Use] = {
    "limit": lambda _, talk, bad: talk.turns(bad),
    "limit of conversations": lambda here, _, bad: here.conversations(ANN, bad),
    "limit of search": lambda here, _, bad: here.search(ANN, "x", bad),
    "limit of approvals": lambda here, _, bad: here.approvals(ANN, bad),
    "limit of unsettled usage": lambda here, _, bad: here.unsettled_usage(ANN, bad),
    "after": lambda here, _, bad: anext(here.events(ANN, "run", bad)),
}


@pytest.mark.parametrize("bad", [5, b"x", "a\ud800b", "a\0b"], ids=["int", "bytes", "surrogate", "nul"])
@pytest.mark.parametrize("name", TEXTS)
async def test_a_bad_text_is_named(name: str, bad: Any) -> None:
    runtime = process(MemoryStore(), echoes())
    conversation = await runtime.conversation(ANN, agent="desk")
    with pytest.raises(ConfigurationError, match=f"invalid {name.partition(' ')[0]}[: ]"):
        await TEXTS[name](runtime, conversation, bad)
    assert await conversation.turns() == ()


@pytest.mark.parametrize("bad", [-1, 2**63, 1.5, "5", None, True])
@pytest.mark.parametrize("name", NUMBERS)
async def test_a_bad_number_is_named(name: str, bad: Any) -> None:
    runtime = process(MemoryStore(), echoes())
    conversation = await runtime.conversation(ANN, agent="desk")
    with pytest.raises(ConfigurationError, match=f"invalid {name.partition(' ')[0]} "):
        await NUMBERS[name](runtime, conversation, bad)


@pytest.mark.parametrize("limit", [0, 1, 2**63 - 1])
async def test_any_other_number_is_a_limit(limit: int) -> None:
    runtime = process(MemoryStore(), echoes())
    conversation = await runtime.conversation(ANN, agent="desk")
    await say(conversation, "hello")
    await runtime.look()
    for found in (
        await conversation.turns(limit),
        await runtime.conversations(ANN, limit),
        await runtime.search(ANN, "hello", limit),
    ):
        assert len(found) == min(limit, 1)
    assert await runtime.approvals(Scope("acme", "bob"), limit) == ()
