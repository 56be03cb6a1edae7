"""`rag` and `chatbot` over real libraries of documents."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from concertino import Attachment, Chat, Scope, ToolContext, ToolMessage, ToolOrchestrator, ToolRegistry
from concertino.agents import MainThreadAgent
from concertino.errors import ConfigurationError
from concertino.messages import ForcedTool, UserMessage
from concertino.testing import ScriptedModel, call
from concertino.tools.builtin import Chatbot, Settings, default_registry, rag
from concertino.tools.documents import DocumentLibrary, open_documents


@pytest.fixture
async def terms(tmp_path: Path) -> AsyncIterator[DocumentLibrary]:
    """A library with the files of Ann."""
    (tmp_path / "terms.md").write_text("# Terms\n\n## Refunds\n\nRefunds take five working days.\n")
    library = await open_documents([tmp_path / "terms.md"], cache_dir=tmp_path / "index")
    yield library
    await library.close()


@pytest.fixture
async def roses(tmp_path: Path) -> AsyncIterator[DocumentLibrary]:
    """A knowledge base about roses, stored in a file."""
    (tmp_path / "roses.md").write_text("# Roses\n\nPrune roses in March, before the first refunds of spring.\n")
    library = await open_documents([tmp_path / "roses.md"], cache_dir=tmp_path / "index")
    yield library
    await library.close()


async def test_rag_searches_a_library_of_documents(terms: DocumentLibrary) -> None:
    """`open_documents` is a backend as it is; the product gets the sources, and the model their passages."""
    with ScriptedModel(call("rag", query="How long does a refund take?"), "Five days.") as model:
        chat = Chat("How long?", model=model, attachments=[Attachment("terms.md")])
        result = await ToolOrchestrator(chat, MainThreadAgent(), default_registry(["RAG"], Settings(rag=terms))).run()
    asked = model.requests[1].messages[0]
    assert isinstance(asked, UserMessage)
    assert "Refunds take five working days." in asked.text
    assert asked.text.endswith("The user asks: How long?")
    ((key, source),) = result.data["rag"].items()
    assert f"[{key}] Terms (" in asked.text
    assert source["location"].endswith("terms.md")


async def test_rag_searches_the_library_of_the_call_s_user(terms: DocumentLibrary, roses: DocumentLibrary) -> None:
    """A function chooses the library by scope, so that one registry serves all users."""
    libraries = {"ann": terms, "bob": roses}

    async def files(context: ToolContext) -> DocumentLibrary:
        return libraries[context.scope.user or ""]

    async def found(user: str) -> str:
        with ScriptedModel(call("rag", query="refunds"), "ok") as model:
            chat = Chat("refunds?", model=model, scope=Scope("acme", user))
            await ToolOrchestrator(chat, MainThreadAgent(), ToolRegistry([rag(files)])).run()
        message = model.requests[1].messages[0]
        assert isinstance(message, UserMessage)
        return message.text

    assert "working days" in await found("ann")
    assert "working days" not in await found("bob")
    assert "Prune roses" in await found("bob")


async def test_a_chatbot_answers_from_its_knowledge_base(roses: DocumentLibrary) -> None:
    """The chatbot is forced first and its knowledge base next; the model reads its instructions and its passages."""
    bot = Chatbot("Rosa", "You are a gardener. Be brief.", knowledge=roses)
    steps = [call("chatbot", should_use_knowledge_base=True), call("rag", query="When do I prune?"), "In March."]
    with ScriptedModel(*steps) as model:
        chat = Chat("When do I prune?", model=model, chatbot_id="rosa")
        registry = default_registry(["CHATBOT"], Settings(chatbot=bot))
        result = await ToolOrchestrator(chat, MainThreadAgent(), registry).run()
    assert [r.tool_choice for r in model.requests] == [ForcedTool("chatbot"), ForcedTool("rag"), "auto"]
    told = [message.content for message in result.messages if isinstance(message, ToolMessage)]
    assert "Answer as Rosa" in told[0]
    assert "You are a gardener" in told[0]
    assert "Prune roses in March" in model.requests[2].messages[0].text  # type: ignore[union-attr]


async def test_a_chatbot_of_the_call_and_one_without_files(roses: DocumentLibrary) -> None:
    """A function chooses the chatbot; `rag` searches the chosen one's files, and finds nothing if it has none."""
    bots = {"ann": Chatbot("Rosa", "Garden.", roses), "bob": Chatbot("Max", "Cook.")}
    registry = default_registry(["CHATBOT"], Settings(chatbot=lambda context: bots[context.scope.user or ""]))

    async def contents(user: str) -> list[Any]:
        with ScriptedModel(call("chatbot"), call("rag", query="prune"), "ok") as model:
            chat = Chat("x", model=model, scope=Scope("acme", user))
            result = await ToolOrchestrator(chat, MainThreadAgent(), registry).run()
        return [*[m.content for m in result.messages if isinstance(m, ToolMessage)], result.data["rag"]]

    ann, bob = await contents("ann"), await contents("bob")
    assert ("Rosa" in ann[0], "Max" in bob[0]) == (True, True)
    assert (len(ann[2]), bob[2]) == (1, {})


@pytest.mark.parametrize("given", [None, 5, "folder"])
def test_something_else_than_a_library_is_refused(given: Any) -> None:
    """The error names the setting and a real backend."""
    with pytest.raises(ConfigurationError, match=r"Settings\(rag=.*open_documents"):
        rag(given)
