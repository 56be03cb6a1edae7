"""The living document: versions, labels, sources, the conflict rule, and the part that a prompt gets."""

from __future__ import annotations

from dataclasses import field

import pytest

from concertino import AgentConfig, AssistantMessage, Chat, MemoryStore, Resources, RunContext, ToolOrchestrator, Turn
from concertino.agents import LivingDocument
from concertino.errors import ConfigurationError
from concertino.records import record
from concertino.testing import ScriptedModel


def notes() -> LivingDocument:
    return LivingDocument.create({"findings": "", "verdict": "open"}, replaced=["verdict"])


def test_a_section_grows_and_a_replaced_one_has_its_newest_text() -> None:
    document = notes()
    document.write("findings", "a", label="pass 1")
    document.write("findings", "b", label="pass 2")
    document.write("verdict", "closed")
    assert document.text() == "## findings\n[pass 1] a\n[pass 2] b\n## verdict\nclosed"
    assert [document.version(name) for name in document.names] == [2, 2]
    assert document.history("verdict") == "verdict v1 [start]: open\nverdict v2: closed"


def test_a_late_update_is_a_conflict_and_nothing_is_lost() -> None:
    document = notes()
    read = document.version("findings"), document.version("verdict")
    assert not document.write("findings", "of ann", base=read[0]).conflict
    assert document.write("findings", "of bob", base=read[0]).conflict
    document.write("verdict", "of ann", base=read[1])
    assert document.write("verdict", "of bob", base=read[1]).conflict
    assert document.text() == "## findings\nof ann\nof bob\n## verdict\nof ann"
    assert document.history("verdict").splitlines()[-1] == "verdict v3 (conflict): of bob"


def test_a_prompt_gets_the_sections_that_it_needs_and_the_newest_entries_that_fit() -> None:
    document = notes()
    for number in range(10):
        document.write("findings", f"{number}" * 10, label=f"pass {number}")
    assert document.text(["verdict"]) == "## verdict\n[start] open"
    assert document.text(characters=25) == (
        "## findings\n[8 earlier left out]\n[pass 8] 8888888888\n[pass 9] 9999999999\n## verdict\n[1 earlier left out]"
    )
    assert document.text(["findings"], characters=3) == "## findings\n[9 earlier left out]\n[pass 9] 999"


def test_an_update_of_an_unknown_section_adds_it_and_one_without_a_name_is_refused() -> None:
    document = notes()
    document.write("risks", "none")
    assert document.names == ["findings", "verdict", "risks"]
    with pytest.raises(ConfigurationError, match="needs a name"):
        document.write(" ", "text")


@record(frozen=False)
class Desk:
    document: LivingDocument = field(default_factory=notes)


class Writer(AgentConfig[Desk]):
    """Any agent may own a document."""

    name = "writer"

    def initialize_agent_state(self, run: RunContext[Desk]) -> Desk:
        return Desk()

    def interpret_response(self, run: RunContext[Desk], message: AssistantMessage) -> Turn:
        run.agent_state.document.write("findings", message.text, label=f"step {run.state.step}", source=["the model"])
        return Turn(message, ())

    def conclude(self, run: RunContext[Desk], text: str) -> str:
        return run.agent_state.document.history()


async def test_the_journal_keeps_the_document_of_any_agent() -> None:
    resources = Resources(store=MemoryStore())
    orchestrator = ToolOrchestrator(Chat("go", model=ScriptedModel("found")), Writer(), resources=resources)
    assert (await orchestrator.run()).text.splitlines()[-1] == "findings v1 [step 1] (from the model): found"
