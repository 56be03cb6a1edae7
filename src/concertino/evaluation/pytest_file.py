"""`pytest_file`: the source of a test that repeats a stored run with a scripted model."""

from __future__ import annotations

import re
from collections.abc import Sequence
from keyword import iskeyword
from string import Template
from typing import Any

from ..errors import RunStateError
from ..messages import AssistantMessage, Message, Reasoning, SystemMessage, ToolCall, ToolMessage, UserMessage
from ..orchestrator.chat import Chat
from ..orchestrator.journal.entries import Ended, ModelAnswered, SideAnswered
from ..orchestrator.journal.patterns import UNKNOWN_TOOL
from ..orchestrator.journal.replay import Replay, read_steps
from ..storage.types import StoredJournal
from .recorded_run import RecordedRun, ToolOutcome, arguments_of

_WIDTH = 100
_PIECES = re.compile(rf".{{1,{_WIDTH}}}(?:\s|$)|.{{1,{_WIDTH}}}", re.DOTALL)
"""Up to `_WIDTH` characters of a line, up to a space if there is one."""
_FILE = Template('''\
"""A test of run $run of agent $agent.

The model's answers and the results of the tools are those of the run: no tool runs, and no key is needed. The hooks
run. Edit the expectations to what should have happened.
"""

import asyncio

$imports

ANSWERS = $answers
RESULTS = $results
CHAT = $chat


def test_$name() -> None:
    with ScriptedModel(*ANSWERS$summaries) as model:
        result = asyncio.run(run_with_results($factory, $agent_name, CHAT, model, RESULTS))
    assert result.status == $status
    assert result.text == $text
''')
_CHAT = (
    *("system_prompt", "personalization", "memories", "project_rules", "summary", "chatbot_id"),
    *("personalization_enabled", "memory_enabled", "send_tools"),
)
"""The fields of a chat that are written as they are."""
_PUBLIC = (
    *("AssistantMessage", "Chat", "Scope", "SystemMessage", "Text", "ToolCall", "ToolError", "ToolMessage"),
    *("ToolResult", "UserMessage"),
)
"""The names of `concertino` that a file may need."""


def pytest_file(journal: StoredJournal, app: str) -> str:
    """Return the source of a test of the run in *journal*; *app*, MODULE:NAME, is the function that makes the Runtime.

    Raises `RunStateError` if the journal does not have everything, or has media, which are no source text.
    """
    run = RecordedRun(journal)
    start, end = journal.run.start, journal.run.end
    assert end is not None
    if journal.contents:
        raise RunStateError("it has media")
    module, _, factory = app.partition(":")
    answers, results, chat = _answers(journal), _results(run), _chat(run.chat)
    summaries = f", summaries={_literal(run.summaries, 4)}" if run.summaries else ""
    names = {"ScriptedModel", "run_with_results"} | {
        name for name in ("Answer", "call") if re.search(rf"\b{name}\(", answers)
    }
    imports = [f"from {module} import {factory}", "", f"from concertino.testing import {', '.join(sorted(names))}"]
    used = [name for name in _PUBLIC if re.search(rf"\b{name}\(", f"{chat}{results}")]
    imports.insert(2, f"from concertino import {', '.join(used)}")
    if "BadRequestError(" in answers:
        imports.insert(3, "from concertino.errors import BadRequestError")
    return _FILE.substitute(
        run=start.run_id,
        agent=_word(start.agent),
        imports="\n".join(imports),
        answers=answers,
        results=results,
        chat=chat,
        name=f"{_word(start.agent)}_{start.run_id[-8:]}",
        summaries=summaries,
        factory=factory,
        agent_name=_short(start.agent),
        status=_short(end.status),
        text=_literal(run.state.state.text, 4),
    )


def _answers(journal: StoredJournal) -> str:
    """Return the answers of the model in their order, those to questions of hooks included."""
    found, steps = Replay(journal.run, journal.texts, journal.contents, journal.history), []
    asked = False
    for step in read_steps(journal):
        found.apply(step)
        if step.entry.kind == "model_requested":
            asked = True
        elif isinstance(step.entry, ModelAnswered) and asked:
            assert found.turn is not None
            steps.append(_step(found.turn.message))
            asked = False
        elif isinstance(step.entry, SideAnswered) and not step.entry.caller:
            steps.append(_literal(step.entry.answer, 4))
        elif isinstance(step.entry, Ended) and asked:
            steps.append(f"BadRequestError({_literal(step.entry.error or '', 4)})")
    return _block("[", steps, "]")


def _step(message: AssistantMessage) -> str:
    calls = [_call(call) for call in message.tool_calls]
    reasoning = "\n\n".join(part.text for part in message.parts if isinstance(part, Reasoning) and part.text)
    if calls and not message.text and not reasoning:
        return calls[0] if len(calls) == 1 else f"[{', '.join(calls)}]"
    if not calls and not reasoning and message.stop_reason == "end":
        return _literal(message.text, 4)
    texts = (("text", message.text), ("reasoning", reasoning))
    fields = [f"{name}={_literal(value, 8)}" for name, value in texts if value]
    fields += [f"calls=({', '.join(calls)},)"] if calls else []
    fields += [f"stop_reason={message.stop_reason!r}"] if message.stop_reason not in ("end", "tool_calls") else []
    return f"Answer({', '.join(fields)})"


def _call(call: ToolCall) -> str:
    arguments = arguments_of(call)
    if arguments is None or not all(name.isidentifier() and not iskeyword(name) for name in arguments):
        return f"call({_short(call.name)}, {call.arguments!r})"
    return f"call({', '.join([_short(call.name), *(f'{name}={_short(value)}' for name, value in arguments.items())])})"


def _results(run: RecordedRun) -> str:
    """Return the results of the calls that a tool may have answered; the engine itself refuses the others again."""
    rows = []
    for call_id, outcome in run.outcomes.items():
        tool, arguments = outcome.message.name, run.arguments_of(call_id)
        if arguments is not None and tool != UNKNOWN_TOOL:
            rows.append(f"({_short(tool)}, {_short(arguments)}, {_result(outcome)})")
    return _block("[", rows, "]")


def _result(outcome: ToolOutcome) -> str:
    message = outcome.message
    content = _literal(message.content if message.whole is None else message.whole, 8)
    if message.is_error:
        return f"ToolError({content})"
    more = [("data", outcome.data), ("summary", message.summary), ("ends_run", outcome.ends_run or None)]
    fields = [f"{name}={_literal(value, 8)}" for name, value in more if value is not None]
    return f"ToolResult({', '.join([content, *fields])})" if fields else content


def _chat(chat: Chat) -> str:
    usual = Chat()
    fields = [_literal(chat.message, 4)]
    if chat.history:
        fields.append(f"history={_block('[', [_message(each) for each in chat.history], ']', 8)}")
    fields += [
        f"{name}={_literal(getattr(chat, name), 4)}" for name in _CHAT if getattr(chat, name) != getattr(usual, name)
    ]
    if chat.scope != usual.scope:
        fields.append(f"scope=Scope({_short(chat.scope.tenant)}, {_short(chat.scope.user)})")
    short = f"Chat({', '.join(fields)})"
    return short if len(short) <= _WIDTH and "\n" not in short else _block("Chat(", fields, ")")


def _message(message: Message) -> str:
    match message:
        case UserMessage(text=text) | SystemMessage(text=text):
            return f"{type(message).__name__}({_literal(text, 8)})"
        case ToolMessage():
            error = ", is_error=True" if message.is_error else ""
            return f"ToolMessage({message.call_id!r}, {message.name!r}, {_literal(message.content, 8)}{error})"
        case _:
            parts = [f"Text({_literal(message.text, 8)})"] if message.text else []
            parts += [f"ToolCall({call.id!r}, {call.name!r}, {call.arguments!r})" for call in message.tool_calls]
            return f"AssistantMessage(({', '.join(parts)},))"


def _block(before: str, rows: Sequence[str], after: str, indent: int = 4) -> str:
    """Return rows between brackets, one per line."""
    if not rows:
        return before + after
    return "\n".join([before, *(f"{' ' * indent}{row}," for row in rows), " " * (indent - 4) + after])


def _literal(value: Any, indent: int) -> str:
    """Return a Python literal; a long text is split after its lines and words. Invisible characters are escapes."""
    if not isinstance(value, str) or (len(value) <= _WIDTH and "\n" not in value[:-1]):
        return _short(value)
    pieces = [piece for line in value.splitlines(keepends=True) for piece in _PIECES.findall(line)]
    return "\n".join(["(", *(f"{' ' * (indent + 4)}{_short(piece)}" for piece in pieces), " " * indent + ")"])


def _short(value: Any) -> str:
    """Return the literal of a value, with double quotes where that needs no more escapes."""
    literal = repr(value)
    plain = isinstance(value, str) and '"' not in value and literal[0] == "'"
    return f'"{literal[1:-1]}"' if plain else literal


def _word(name: str) -> str:
    return re.sub(r"\W", "_", name)
