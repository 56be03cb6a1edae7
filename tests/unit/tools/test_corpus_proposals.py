"""A real collection: several hundred long documents."""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path

import pytest

from concertino.tools.corpus import open_corpus

DATA = Path(__file__).resolve().parents[3].parent / "shared" / "data" / "corpus" / "peps.jsonl.gz"


async def test_proposals_are_found_by_number_name_and_question(tmp_path: Path) -> None:
    if not DATA.exists():
        if os.environ.get("CI"):
            pytest.fail("the shared data is not beside the repository (../shared/data)")
        pytest.skip("the shared data is not beside the repository (../shared/data)")
    docs = tmp_path / "proposals"
    docs.mkdir()
    with gzip.open(DATA, "rt", encoding="utf-8") as lines:
        for line in lines:
            record = json.loads(line)
            (docs / f"{record['id']}.rst").write_text(record["text"], encoding="utf-8")
    corpus = await open_corpus([docs], cache_dir=tmp_path / "cache")
    try:
        assert await corpus.document_count() == len(list(docs.iterdir()))
        expected = {
            "PEP 572": ("pep-572", 1),
            "structural pattern matching rationale": ("pep-635", 3),
            "Why was the walrus operator accepted?": ("pep-572", 5),
            "exception groups": ("pep-654", 3),
            "data classes": ("pep-557", 3),
        }
        for query, (name, within) in expected.items():
            places = [hit.source.location for hit in await corpus.search(query, within)]
            assert f"proposals/{name}.rst" in places, (query, places)
        page = await corpus.open("proposals/pep-563.rst")
        assert "Status: Superseded\n" in page.text
        assert "\nSuperseded-By: 649, 749\n" in page.text
    finally:
        await corpus.close()
