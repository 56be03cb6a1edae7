"""Questions about concertino, searched in its own documentation. `pytest -s` with this file prints the figures."""

from __future__ import annotations

from pathlib import Path

from concertino.tools.documents import open_documents

ROOT = Path(__file__).resolve().parents[2]
FEWEST = 0.8  # the mean reciprocal rank of the first passage that contains the answer
QUESTIONS = {
    "How do I set how often a request is retried?": "Retry(",
    "How do I use another model when the first one fails?": "fallback=",
    "How can a person approve a tool call?": "`Ask`",
    "How do I set my own price for a model?": "Resources(price=",
    "How do I set when old messages are summarized?": "Retention(",
    "How do I limit the money that a user may spend?": "set_budget",
    "How do I make the context window smaller?": "limits_within",
    "How do I stop a run?": "runtime.stop",
    "What happens to a tool call after a crash?": "it runs again",
    "How do I erase everything about a user?": "store.erase(",
    "How do I test an agent without a model?": "ScriptedModel",
    "How does a tool return an error that the model reads?": "ToolError",
    "Which Python packages does concertino need?": "pydantic",
    "How do I start a sub-agent?": "delegate",
    "How do I limit the number of tool calls?": "tool_call_limit",
    "How do I run a local model without a key?": "ollama",
    "Is the database encrypted?": "encryption at rest",
    "How do I search my own documents?": "open_documents",
    "How do I get structured output?": "output_type",
    "How do I follow a run from another process?": "events",
    "What is ski rental?": "ski-rental",
    "How do I fork a run?": "runtime.fork",
    "Which commands does the command line have?": "runs list",
    "How do I report a security problem?": "advisories",
}


async def test_questions_find_their_answers_in_the_documentation(tmp_path: Path) -> None:
    library = await open_documents([ROOT / "docs", ROOT / "README.md", ROOT / "SECURITY.md"], cache_dir=tmp_path)
    ranks = {}
    for question, answer in QUESTIONS.items():
        hits = await library.search(question)
        ranks[question] = next((rank for rank, hit in enumerate(hits, 1) if answer in hit.snippet), None)
    await library.close()
    for question, rank in ranks.items():
        print(f"{rank or '-':>3}  {question}")
    found = sum(1 / rank for rank in ranks.values() if rank) / len(ranks)
    print(f"MRR {found:.3f} of {len(ranks)} questions")
    assert found >= FEWEST
