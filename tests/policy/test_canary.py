"""No canary from any entrance of content is in any sink after the end of the run."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from concertino import OPERATOR, DataPolicy
from concertino.ids import text_id
from concertino.storage import RunStart
from concertino.waits import arguments_hash

from .drive import Play, answer_all, suspended, to_the_end
from .ends import ENDS
from .kit import FORMS, POLICIES, Canaries, FullStore, Leaks, Sinks, look_by_port, open_store
from .scene import family, scripted

CASES = [
    *(("sqlite", "drop", form) for form in FORMS),
    *(("sqlite", how, "unicode") for how in POLICIES if how != "drop"),
    *(("memory", how, "surrogate") for how in ("drop", "keep for a time")),
]
QUICK = {("sqlite", "drop", "unicode"), ("sqlite", "keep for a time", "unicode")}
"""Cases with which each end is tried in each run of the tests; the others are slow, apart from the first end."""
ENDED = [
    pytest.param(end, *case, marks=[] if case in QUICK or end == "completed" else pytest.mark.slow)
    for end in ENDS
    for case in CASES
]
NEVER_STORED = {
    "streamed by the context",
    "streamed item",
    "unused summary",
    "question aside",
    "system aside",
    "prompt of boss",
}
"""Entrances whose content is never stored; the chat's prompt replaces the boss's."""


@pytest.fixture
def sinks(caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str], tmp_path: Path) -> Sinks:
    caplog.set_level("DEBUG", logger="")
    return Sinks(caplog, capfd, tmp_path / "runs.db")


async def check_nowhere(sinks: Sinks, store: FullStore, leaks: Leaks) -> None:
    """Search every sink while the store is open and after it was closed."""
    sinks.look_outside(leaks)
    await look_by_port(store, leaks)
    sinks.look_in_files(leaks, "open")
    await store.close()
    sinks.look_in_files(leaks, "closed")
    leaks.check()


async def forget_in_time(policy: DataPolicy, store: FullStore) -> None:
    """Wait until the time of `KeepFor` is over, and sweep."""
    if policy.erase_after:
        await asyncio.sleep(policy.erase_after + 0.02)
        await store.sweep(OPERATOR)


@pytest.mark.parametrize(("end", "kind", "how", "form"), ENDED)
async def test_no_sink_contains_a_canary(sinks: Sinks, end: str, kind: str, how: str, form: str) -> None:
    canaries, policy = Canaries(form), POLICIES[how]
    store = await open_store(kind, sinks.path)
    await ENDS[end](Play(canaries, policy, store, sinks.observe))
    await forget_in_time(policy, store)
    await check_nowhere(sinks, store, Leaks(canaries))


async def test_content_for_a_resume_is_stored_until_the_end(sinks: Sinks) -> None:
    canaries, policy = Canaries("unicode"), POLICIES["drop"]
    store = await open_store("sqlite", sinks.path)
    play = Play(canaries, policy, store, sinks.observe)
    agent, model = family(canaries, policy), scripted(canaries)
    async with play.runtime(agent, model) as runtime:
        waiting = await suspended(play, runtime, model, agent)
        stored = Leaks(canaries)
        sinks.look_in_files(stored, "suspended")
        wanted = {"message", "history", "reasoning", "signature of a call", "agent state", "prompt of child", "result"}
        assert stored.entrances >= wanted
        shown = Leaks(canaries)
        sinks.look_outside(shown)
        for run in await store.runs(OPERATOR):
            shown.look(
                f"messages of {run.start.agent_path}", repr(await store.messages(OPERATOR, run.start.run_id)).encode()
            )
        shown.check()
        assert list(await runtime.replay(OPERATOR, waiting.run_id))
        await answer_all(play, runtime, waiting)
        result = await (await runtime.resume(OPERATOR, waiting.run_id)).result()
    assert canaries["answer"] in result.text, "the caller sees everything"
    await check_nowhere(sinks, store, Leaks(canaries))


async def test_every_sink_is_searched(sinks: Sinks) -> None:
    """With a policy that keeps everything, every canary is found: the other tests can see a leak."""
    canaries = Canaries("unicode")
    store = await open_store("sqlite", sinks.path)
    await to_the_end(Play(canaries, DataPolicy(keep_whole_results=True), store, sinks.observe))
    outside, inside, by_port = Leaks(canaries), Leaks(canaries), Leaks(canaries)
    sinks.look_outside(outside)
    await look_by_port(store, by_port)
    await store.close()
    sinks.look_in_files(inside, "closed")
    missing = set(canaries) - inside.entrances
    assert missing <= NEVER_STORED, missing
    assert set(canaries) - by_port.entrances <= NEVER_STORED
    seen = ("message", "reasoning", "result", "streamed by the context", "progress", "answer", "steering", "edit")
    assert outside.entrances >= set(seen) - {"edit"}
    assert not [leak for leak in outside.found if "the log" in leak or "std" in leak]


def hashes_of_approvals(canaries: Canaries, _run: RunStart) -> Iterator[tuple[str, str]]:
    for entrance in ("argument to be approved", "argument to be denied"):
        yield entrance, arguments_hash(f'{{"amount": "{canaries[entrance]}"}}')


def ids_of_texts(canaries: Canaries, run: RunStart) -> Iterator[tuple[str, str]]:
    message = '{"v":1,"role":"user","text":"' + canaries["special message"] + '"}'
    prompt = f"You are the {run.agent}. {canaries['prompt of ' + run.agent]}"
    for owner in (run.run_id, run.root_id, run.scope.key, run.scope.user, run.scope.tenant, ""):
        yield f"special message, by {owner!r}", text_id(owner, message)
        yield f"prompt of {run.agent}, by {owner!r}", text_id(owner, prompt)


@pytest.mark.parametrize("how", POLICIES)
@pytest.mark.parametrize("guesses", [hashes_of_approvals, ids_of_texts])
async def test_no_unkeyed_hash_of_content_is_stored(
    sinks: Sinks, how: str, guesses: Callable[[Canaries, RunStart], Iterator[tuple[str, str]]]
) -> None:
    """An unkeyed hash reveals a short text to an attacker that tries all texts."""
    canaries, policy = Canaries("ascii"), POLICIES[how]
    store = await open_store("sqlite", sinks.path)
    await to_the_end(Play(canaries, policy, store, sinks.observe))
    await forget_in_time(policy, store)
    made = [guess for run in await store.runs(OPERATOR) for guess in guesses(canaries, run.start)]
    await store.close()
    sunk = [sinks.path.read_bytes(), *(event.encode("utf-8", "surrogatepass") for event in sinks.events)]
    assert {name for name, guess in made if any(guess.encode() in content for content in sunk)} == set()
