"""The part with which an agent keeps notes."""

from __future__ import annotations

from ...number_checks import check_whole
from ...orchestrator.agent import Part

_PROMPT = """# Notes
The beginning of a long conversation is summarized. What you must still know word for word then, keep in your notes:
- `note_facts`: requirements, decisions, names, ids, paths and figures that matter until the end.
- `note_tasks`: the steps of a task with more than two steps. Update it when a step is done, or when the plan changes.
Each call replaces the whole list, so repeat what is still true. Call these tools alone, not together with others."""


class Notes(Part):
    """Offers the tools `note_facts` and `note_tasks`, whose newest calls stay in every request.

    A note is only a call in the conversation: it is resumed, forked, redacted, kept and erased like the conversation.
    `recall` finds lists that a later call has replaced. A list has at most *characters*; the model reads an error if it
    writes a longer one.

    Raises `ConfigurationError` if *characters* is not positive.
    """

    prompt = _PROMPT

    def __init__(self, characters: int = 4_000) -> None:
        check_whole("Notes", "characters", characters)
        from ...tools.builtin.note_lists import note_facts, note_tasks  # noqa: PLC0415 - pydantic is slow to import

        self.tools = (note_facts(characters), note_tasks(characters))
