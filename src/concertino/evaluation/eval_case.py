"""The cases of an evaluation: read from a file, or taken from stored runs."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from pathlib import Path
from random import Random
from typing import Any

from ..errors import ConfigurationError
from ..extras import extra
from ..messages import AssistantMessage, Message, Text, UserMessage
from ..number_checks import check_whole
from ..orchestrator.chat import Chat
from ..orchestrator.journal.replay import replay
from ..orchestrator.lifecycle.resume import chat_of
from ..records import record
from ..scope import AnyScope
from ..storage.base import Store

_OWN = ("id", "message", "expected", "history")
SUFFIXES = (".jsonl", ".json", ".yaml", ".yml", ".csv")


@record(kw_only=True)
class EvalCase:
    """A task of an evaluation, and the expectations of its answer."""

    id: str
    chat: Chat
    """What the agent is given. Its model is replaced if `evaluate` names one."""
    expected: Any = None
    """What a scorer compares the answer with; None: nothing."""
    data: Mapping[str, Any] = field(default_factory=dict)
    """The other columns of the file, for scorers of your own."""


def read_cases(path: str | Path) -> list[EvalCase]:
    """Return the cases in a file: `.jsonl`, `.json` (a list), `.yaml` (a list; extra `yaml`) or `.csv`.

    Each case has a `message`; `id` (default: its number), `expected` and `history` are optional, and every other field
    is part of `EvalCase.data`. Raises `ConfigurationError`, which names the file and the case.
    """
    path = Path(path)
    try:
        text = path.read_text("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{path} cannot be read: {error}") from None
    if path.suffix not in SUFFIXES:
        raise ConfigurationError(f"{path}: unknown format {path.suffix!r}: use {', '.join(SUFFIXES)}")
    try:
        rows = list(_rows(path.suffix, text))
    except (ValueError, RecursionError, csv.Error) as error:
        raise ConfigurationError(f"{path} is not valid {path.suffix[1:].upper()}: {error}") from None
    cases = [_case(row, number, f"{path}, case {number}") for number, row in enumerate(rows, 1)]
    if not cases:
        raise ConfigurationError(f"{path} has no cases")
    return _distinct(cases, str(path))


def sample(cases: Sequence[EvalCase], count: int, seed: int) -> list[EvalCase]:
    """Return *count* of the cases, chosen at random by *seed*, in their order; all if there are fewer."""
    check_whole("sample", "count", count)
    check_whole("sample", "seed", seed, 0)
    chosen = sorted(Random(seed).sample(range(len(cases)), min(count, len(cases))))  # noqa: S311 - statistics
    return [cases[index] for index in chosen]


async def stored_cases(
    store: Store, scope: AnyScope, *, conversation_id: str | None = None, agent: str | None = None, limit: int = 100
) -> list[EvalCase]:
    """Return the last *limit* completed runs of *scope* as cases, oldest first; each expects the answer that it gave.

    A case has the whole input of its run: the history, the memories, the files, the model. Only runs of *agent* and of
    one conversation are taken, if given, and no sub-agents' runs. Runs whose content a data policy has erased are left
    out.
    """
    runs = await store.runs(scope, conversation_id=conversation_id, state="completed", roots=True, limit=limit)
    cases = []
    for run in reversed(runs):
        if agent not in (None, run.start.agent):
            continue
        journal = await store.load(scope, run.start.run_id)
        if journal is None or run.end is None or any(entry.erased for entry in journal.entries):
            continue
        found = replay(journal)
        chat = replace(chat_of(found, Chat(model=found.started.model)), conversation_id="", traceparent="")
        cases.append(EvalCase(id=run.start.run_id, chat=chat, expected=run.end.answer))
    return cases


def _rows(suffix: str, text: str) -> Iterable[Any]:
    if suffix == ".csv":
        return _table(text)
    if suffix == ".jsonl":
        return [json.loads(line) for line in text.splitlines() if line.strip()]
    if suffix == ".json":
        found = json.loads(text)
    else:
        with extra("yaml", "reading YAML"):
            import yaml  # noqa: PLC0415 - an extra
        try:
            found = yaml.safe_load(text)
        except yaml.YAMLError as error:
            raise ValueError(error) from None
    if not isinstance(found, list):
        raise ValueError("expected a list of cases")  # noqa: TRY004 - the caller reports it with the file
    return found


def _table(text: str) -> Iterator[dict[str, str]]:
    for row in csv.DictReader(io.StringIO(text), strict=True):
        if None in row or None in row.values():
            raise ValueError("a row has more or fewer fields than the header")
        yield {name: value for name, value in row.items() if value}


def _case(row: Any, number: int, where: str) -> EvalCase:
    if not isinstance(row, dict) or not isinstance(row.get("message"), str) or not row["message"].strip():
        raise ConfigurationError(f"{where}: it has no text 'message'")
    return EvalCase(
        id=str(row.get("id", number)),
        chat=Chat(row["message"], history=_history(row.get("history", ()), where)),
        expected=row.get("expected"),
        data={name: value for name, value in row.items() if name not in _OWN},
    )


def _history(rows: Any, where: str) -> list[Message]:
    made: list[Message] = []
    for row in rows if isinstance(rows, Sequence) and not isinstance(rows, str) else [rows]:
        match row:
            case {"role": "user", "content": str(text)}:
                made.append(UserMessage(text))
            case {"role": "assistant", "content": str(text)}:
                made.append(AssistantMessage((Text(text),)))
            case _:
                raise ConfigurationError(
                    f"{where}: invalid history {row!r:.80}: use a list of objects such as "
                    '{"role": "user", "content": "..."}; the roles are user and assistant'
                )
    return made


def _distinct(cases: list[EvalCase], where: str) -> list[EvalCase]:
    known: set[str] = set()
    for case in cases:
        if case.id in known:
            raise ConfigurationError(f"{where}: two cases have the id {case.id!r}: give each its own")
        known.add(case.id)
    return cases
