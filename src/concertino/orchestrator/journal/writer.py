"""The journal: the one place where a run's happenings go to the store, each with what the data policy leaves of it."""

from __future__ import annotations

import asyncio
import dataclasses
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from ...errors import StaleClaimError
from ...ids import text_id, token
from ...messages import AssistantMessage, Message
from ...storage.base import Store
from ...storage.codec import encode_message
from ...storage.types import Entry, EntryKind, HeldMessage, Reservation, RunEnd, RunStart, Settlement, StoredText
from ...token_engine.counting.base import TokenCounter
from ...token_engine.counting.sizes import message_text
from ...token_engine.edits import Edit, encode_edit
from ...usage import UsageRecord
from ...waits import Wait
from ..plain import plain
from .data_policy import KEEP_ALL, held, kept_text, text_lasts
from .lease import Tree


@dataclass(slots=True)
class _Gathered:
    """What the next append will write."""

    messages: list[Message] = field(default_factory=list)
    operations: list[Any] = field(default_factory=list)
    usage: list[UsageRecord] = field(default_factory=list)
    settle: list[Settlement] = field(default_factory=list)
    texts: dict[str, str] = field(default_factory=dict)
    taken: list[str] = field(default_factory=list)
    edits: list[list[Any]] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)
    data: dict[str, Any] = field(default_factory=dict)
    progress: dict[str, list[dict[str, Any]]] = field(default_factory=dict)

    def before(self, later: _Gathered) -> _Gathered:
        """This and what came *later*, as one."""
        for name in self.__slots__:
            mine, other = getattr(self, name), getattr(later, name)
            mine.extend(other) if isinstance(mine, list) else mine.update(other)
        return self

    def only(self, *names: str) -> tuple[_Gathered, _Gathered]:
        """Of *names* alone, and all the rest."""
        mine, rest = _Gathered(), _Gathered()
        for name in self.__slots__:
            setattr(mine if name in names else rest, name, getattr(self, name))
        return mine, rest


class Journal:
    """Gathers what happens in a run, and appends it as one entry when the run says so. Without a store it does
    nothing, and `on` is False."""

    __slots__ = (
        "_begun",
        "_counter",
        "_gathered",
        "_known",
        "_lock",
        "_salt",
        "_store",
        "_text",
        "_tree",
        "_unsure",
        "commands",
        "ended",
        "on",
        "policy",
        "run_id",
        "seen",
        "seq",
        "user_id",
    )

    def __init__(self, tree: Tree, run_id: str, user_id: str, counter: TokenCounter) -> None:
        self._tree = tree
        self._store: Store | None = tree.store
        self._counter = counter
        self.user_id = user_id
        self.on = tree.store is not None
        self.run_id = run_id
        self.policy = KEEP_ALL
        self.seq = 0
        self.seen = 0
        """The number of the last command that was taken in."""
        self.commands = 0
        """The number of the last command that there is."""
        self.ended = False
        self._begun = False
        self._lock = asyncio.Lock()
        self._salt = token()  # ids outlive their texts: nobody may check a guess at a short one with them
        self._gathered = _Gathered()
        self._unsure: tuple[int, _Gathered] | None = None
        self._known: dict[str, Any] = {}
        """What the journal has already said, by name: it is said again only when it changes."""
        self._text: str | None = ""

    # -- gathering -----------------------------------------------------------------------------------------------

    def add(self, message: Message) -> None:
        """A message that joins the conversation."""
        self._gathered.messages.append(message)
        operations = self._gathered.operations
        if operations and type(operations[-1]) is int:
            operations[-1] += 1
        else:
            operations.append(1)
        if isinstance(message, AssistantMessage):
            self._text = message.text

    def replace(self, messages: Sequence[Message]) -> None:
        """The conversation begins again with *messages*, and its last one."""
        self._gathered.operations.append(self.text_ids([encode_message(message) for message in messages]))
        self._gathered.edits.clear()

    def book(self, record: UsageRecord, settlement: Settlement | None) -> None:
        """A usage record, and what it takes from the accounts."""
        self._gathered.usage.append(record)
        if settlement is not None:
            self._gathered.settle.append(settlement)

    def count(self, path: str, calls: int) -> None:
        """How many tools the agent at *path* has called by now."""
        self._gathered.counts[path] = calls

    def data(self, tool: str, value: Any) -> None:
        """The structured result of a tool's last call."""
        self._gathered.data[tool] = value

    def progress(self, call_id: str, steps: list[dict[str, Any]]) -> None:
        """The steps that a tool showed, to be stored beside its result."""
        self._gathered.progress[call_id] = steps

    def edit(self, edits: Iterable[Edit]) -> None:
        """What is sent of the conversation has been edited."""
        self._gathered.edits.extend(map(encode_edit, edits))

    def take(self, keys: Sequence[str]) -> None:
        """Waits whose outcomes the run has taken in."""
        self._gathered.taken.extend(keys)

    def text_ids(self, bodies: Sequence[str]) -> list[str]:
        """The ids of texts that runs share; each is stored once."""
        owner = self.user_id if self.policy.keeps_everything else self._salt
        ids = [text_id(owner, body) for body in bodies]
        self._gathered.texts.update(zip(ids, bodies, strict=True))
        return ids

    def changed(self, name: str, value: Any) -> bool:
        """Whether *value* is not what the journal said last of *name*; from now on it is."""
        if name in self._known and ((known := self._known[name]) is value or known == value):
            return False
        self._known[name] = value
        return True

    # -- appending -----------------------------------------------------------------------------------------------

    async def begin(self, start: RunStart, body: dict[str, Any], content: dict[str, Any]) -> None:
        """Entry 0: what the run was given. Raises `RunExistsError`."""
        if self._store is None:
            return
        assert self._tree.claim is not None
        gathered, self._gathered = self._gathered, _Gathered()
        task = kept_text(self.policy, start.task)
        start = dataclasses.replace(start, task=task, erase_after=self.policy.erase_after)
        self._begun = True  # also if this is cancelled or fails: the store may have it all the same
        self._unsure = (0, gathered)
        await self._store.begin(start, self._entry("begun", 0, body, content, gathered), self._tree.claim)
        self._unsure = None
        self.seq = 1

    def restore(self, seq: int, seen: int, text: str) -> None:
        """Go on after what was written in another life of the run."""
        self._begun = True
        self.seq, self.seen, self.commands, self._text = seq, seen, seen, text

    async def append(
        self,
        kind: EntryKind,
        step: int,
        body: dict[str, Any],
        content: dict[str, Any] | None = None,
        *,
        waits: Sequence[Wait] = (),
        reserve: Reservation | None = None,
        end: RunEnd | None = None,
        aside: bool = False,
    ) -> None:
        """Write what was gathered as an entry of *kind*, atomically. What could not be written is kept for the next.

        What is *aside* is no boundary of a step: the conversation waits for the next entry. What is `noted` is usage
        alone: in another life the run goes on from its last boundary, and all that followed it happens again.

        Raises `StaleClaimError` once somebody else has the run: then nothing more may be done for it here.
        """
        if self._store is None or not self._begun or (self.ended and kind != "noted"):
            return
        async with self._lock:
            if self._unsure is not None:
                await self._find_out(self._store)
                if self.ended and kind != "noted":
                    return
            gathered, self._gathered = self._gathered, _Gathered()
            if aside or kind == "noted":
                gathered, rest = gathered.only("usage", "settle")
                self._gathered = rest if aside else self._gathered
            entry = self._entry(kind, step, body, content, gathered, waits=waits, reserve=reserve, end=end)
            try:
                head = await self._store.append(entry)
            except asyncio.CancelledError:
                self._unsure = (entry.seq, gathered)
                raise
            except BaseException as error:
                self._unwritten(gathered)
                if isinstance(error, StaleClaimError):
                    self._tree.lose(error)
                raise
            self.seq, self.commands = head.seq, head.commands
            self.ended = self.ended or end is not None
        self._tree.heed(head)

    async def has_ended(self) -> bool:
        """Whether the end is on record already. Ask before the end where a write may have been cancelled."""
        async with self._lock:
            if self._unsure is not None and self._store is not None:
                await self._find_out(self._store)
        return self.ended

    async def _find_out(self, store: Store) -> None:
        """Whether a write that was cancelled was carried out: nothing is written twice, and nothing is lost."""
        assert self._unsure is not None
        seq, gathered = self._unsure
        run = await store.run(self.run_id)
        if run is None or run.entries <= seq:
            self._unwritten(gathered)
        else:
            self.seq = run.entries
            self.ended = run.end is not None
        self._begun = run is not None
        self._unsure = None

    def _unwritten(self, gathered: _Gathered) -> None:
        """*gathered* is not on record: the next append says it all, and what was said along with it, again."""
        self._gathered = gathered.before(self._gathered)
        self._known.clear()
        self._text = None

    def _entry(
        self,
        kind: EntryKind,
        step: int,
        body: dict[str, Any],
        content: dict[str, Any] | None,
        gathered: _Gathered,
        *,
        waits: Sequence[Wait] = (),
        reserve: Reservation | None = None,
        end: RunEnd | None = None,
    ) -> Entry:
        assert self._tree.claim is not None
        if gathered.counts:
            body["counts"] = gathered.counts
        if gathered.operations and not (len(gathered.operations) == 1 and type(gathered.operations[0]) is int):
            body["operations"] = gathered.operations
        if gathered.texts:
            body["texts"] = list(gathered.texts)
        if gathered.data:
            content = {**(content or {}), "data": {name: plain(value) for name, value in gathered.data.items()}}
        if gathered.edits:
            content = {**(content or {}), "edits": gathered.edits}
        lives = None if self.policy.keeps_everything else self.run_id
        return Entry(
            run_id=self.run_id,
            seq=self.seq,
            claim=self._tree.claim,
            kind=kind,
            step=step,
            body=body,
            held=content or None,
            messages=[self._held(message, gathered.progress) for message in gathered.messages],
            texts=[
                StoredText(id=key, body=text, user_id=self.user_id, run_id=lives)
                for key, text in gathered.texts.items()
            ],
            usage=tuple(gathered.usage),
            waits=waits,
            taken=tuple(gathered.taken),
            reserve=reserve,
            settle=tuple(gathered.settle),
            end=end,
        )

    def _held(self, message: Message, progress: dict[str, list[dict[str, Any]]]) -> HeldMessage:
        tokens = self._counter.count(message_text(message))
        steps = progress.get(message.call_id, ()) if message.role == "tool" else ()
        return held(self.policy, message, tokens, steps)

    def end_of(self, status: Any, answer: str, error: str | None) -> RunEnd:
        """How the run ends, as the policy leaves it."""
        return RunEnd(
            status=status,
            answer=kept_text(self.policy, answer),
            error=None if error is None else kept_text(self.policy, error),
            ended=time.time(),
            lasts=text_lasts(self.policy),
            erase_after=self.policy.erase_after,
        )

    def says_text(self, text: str, content: dict[str, Any]) -> None:
        """Put *text* into *content* unless it follows from the messages."""
        if text != self._text:
            content["text"] = text
            self._text = text
