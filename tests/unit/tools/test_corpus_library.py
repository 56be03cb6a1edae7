"""A corpus of folders and files, through `open_corpus`."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from concertino.errors import CorpusError, LibraryError, MissingExtraError
from concertino.tools.corpus import Corpus, open_corpus
from concertino.tools.library import source_id

Opener = Callable[..., Awaitable[Corpus]]


class Garden:
    """A folder of documents, an index folder, and what was reported."""

    def __init__(self, root: Path) -> None:
        self.docs = root / "docs"
        self.docs.mkdir()
        self.cache = root / "cache"
        self.lines: list[str] = []
        self.opened: list[Corpus] = []

    def write(self, name: str, text: str | bytes) -> Path:
        path = self.docs / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    async def open(self, *paths: Path) -> Corpus:
        self.lines.clear()
        corpus = await open_corpus(list(paths) or [self.docs], cache_dir=self.cache, report=self.lines.append)
        self.opened.append(corpus)
        return corpus


@pytest.fixture
async def garden(tmp_path: Path) -> AsyncIterator[Garden]:
    garden = Garden(tmp_path)
    yield garden
    for corpus in garden.opened:
        await corpus.close()


ROSES = """# Growing roses

Roses like sun. Water them in the
morning, never at noon.

## Pruning

Cut the stems back in *early* spring, above an
[outward bud](https://example.org/bud).
"""


async def found(corpus: Corpus, query: str, limit: int = 8) -> list[str]:
    return [hit.source.location for hit in await corpus.search(query, limit)]


async def test_a_question_finds_the_passage_and_its_document(garden: Garden) -> None:
    garden.write("roses.md", ROSES)
    garden.write("tulips.txt", "Tulips are planted in autumn.\n")
    corpus = await garden.open()
    hit, *_ = await corpus.search("When should I prune a rose?")
    assert hit.source.location == "docs/roses.md"
    assert hit.source.id == source_id("docs/roses.md")
    assert hit.source.title == "Growing roses"
    assert "Cut the stems back in early spring, above an outward bud." in hit.snippet


async def test_a_document_opens_by_location_id_path_and_title(garden: Garden) -> None:
    path = garden.write("roses.md", ROSES)
    corpus = await garden.open()
    for location in ("docs/roses.md", "docs/roses.md#Pruning", source_id("docs/roses.md"), str(path), "Growing Roses"):
        page = await corpus.open(location)
        assert page.source.location == "docs/roses.md"
    assert page.text == (
        "Growing roses\n\nRoses like sun. Water them in the morning, never at noon.\n\n"
        "Pruning\n\nCut the stems back in early spring, above an outward bud."
    )


async def test_an_unknown_document_is_named_with_the_remedy(garden: Garden) -> None:
    garden.write("roses.md", ROSES)
    corpus = await garden.open()
    with pytest.raises(LibraryError, match=r"no document 'docs/lilies\.md'.*search hit"):
        await corpus.open("docs/lilies.md")


async def test_the_second_start_reads_only_what_changed(garden: Garden) -> None:
    for name in ("a.md", "b.md", "c.md"):
        garden.write(name, f"# Paper {name}\n\nAbout sparrows.")
    await garden.open()
    assert garden.lines == ["indexed 3 documents (3 new, 0 changed, 0 removed)"]
    await garden.open()
    assert garden.lines == ["index is up to date: 3 documents"]

    garden.write("b.md", "# Paper b\n\nAbout herons and nothing else.")
    (garden.docs / "c.md").unlink()
    garden.write("d.md", "# Paper d\n\nAbout sparrows again.")
    corpus = await garden.open()
    assert garden.lines == ["indexed 3 documents (1 new, 1 changed, 1 removed)"]
    assert set(await found(corpus, "sparrows")) == {"docs/a.md", "docs/d.md"}
    assert await found(corpus, "herons") == ["docs/b.md"]
    assert await corpus.document_count() == 3


async def test_other_files_are_skipped_and_counted_in_one_line(garden: Garden) -> None:
    garden.write("roses.md", ROSES)
    garden.write("one.png", b"\x89PNG")
    garden.write("two.png", b"\x89PNG")
    garden.write("Makefile", "all:\n")
    garden.write(".git/notes.md", "hidden")
    garden.write("env/pyvenv.cfg", "home = x")
    garden.write("env/inside.md", "left out")
    corpus = await garden.open()
    assert await corpus.document_count() == 1
    (line,) = [line for line in garden.lines if line.startswith("skipped")]
    assert "skipped 3 files: 2 .png, 1 no suffix" in line
    assert ".rst" in line


async def test_files_that_are_no_text_are_reported_and_harmless(garden: Garden) -> None:
    garden.write("roses.md", ROSES)
    garden.write("blob.txt", b"\x00\x01\x02" * 50)
    garden.write("latin.txt", "Käse und Brötchen sind ein Frühstück".encode("latin-1"))
    garden.write("empty.md", "")
    corpus = await garden.open()
    assert "indexed 3 documents (3 new, 0 changed, 0 removed)" in garden.lines
    assert any("could not read docs/blob.txt (binary)" in line for line in garden.lines)
    assert await found(corpus, "Frühstück und sind") == ["docs/latin.txt"]
    assert (await corpus.open("docs/empty.md")).text == "[This document is empty.]"
    with pytest.raises(LibraryError):
        await corpus.open("docs/blob.txt")
    await garden.open()
    assert garden.lines == ["index is up to date: 3 documents"]


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="permissions do not bind this user")
async def test_a_file_without_permission_is_reported_and_tried_again(garden: Garden) -> None:
    garden.write("roses.md", ROSES)
    secret = garden.write("secret.md", "# Secret\n\nOrchids.")
    secret.chmod(0)
    await garden.open()
    assert any("could not read docs/secret.md" in line for line in garden.lines)
    secret.chmod(0o600)
    assert await found(await garden.open(), "orchids") == ["docs/secret.md"]


async def test_a_missing_path_names_itself_and_the_suffixes(garden: Garden) -> None:
    with pytest.raises(CorpusError, match=r"nowhere' cannot be found.*\.md"):
        await garden.open(garden.docs / "nowhere")


async def test_nothing_to_read_is_an_error_with_the_remedy(garden: Garden) -> None:
    garden.write("picture.png", b"\x89PNG")
    with pytest.raises(CorpusError, match=r"nothing to read.*docs.*\.rst.*skipped 1 file: 1 \.png"):
        await garden.open()
    with pytest.raises(CorpusError, match="no folder or file is named"):
        await open_corpus([], cache_dir=garden.cache)


async def test_links_in_a_ring_end(garden: Garden) -> None:
    garden.write("deep/roses.md", ROSES)
    try:
        (garden.docs / "deep" / "up").symlink_to(garden.docs, target_is_directory=True)
        (garden.docs / "dangling.md").symlink_to(garden.docs / "gone.md")
    except OSError:
        pytest.skip("this system makes no symbolic links")
    corpus = await garden.open()
    assert await corpus.document_count() == 1


async def test_several_roots_are_told_apart(garden: Garden) -> None:
    garden.write("one/notes/a.md", "# Finch\n\nFinch.")
    garden.write("two/notes/a.md", "# Wren\n\nWren.")
    single = garden.write("alone.txt", "A linnet sings.\n")
    corpus = await garden.open(garden.docs / "one" / "notes", garden.docs / "two" / "notes", single)
    assert corpus.name == "2 folders and 1 file"
    assert await found(corpus, "finch") == ["one/notes/a.md"]
    assert await found(corpus, "wren") == ["two/notes/a.md"]
    assert await found(corpus, "linnet") == ["alone.txt"]


async def test_a_very_long_file_is_read_up_to_the_limit(garden: Garden) -> None:
    line = b"The quick brown fox jumps over the lazy dog.\n"
    garden.write("long.txt", b"Zebra crossing.\n\n" + line * 200_000)
    corpus = await garden.open()
    assert "indexed in part: docs/long.txt: only the first 8 MB of 9 MB" in garden.lines
    hits = await corpus.search("zebra")
    assert len(hits[0].snippet) <= 1_600
    page = await corpus.open("docs/long.txt")
    assert len(page.text) < 201_000
    assert "[Cut here: these are the first 200,000 of" in page.text


async def test_a_damaged_index_is_made_anew(garden: Garden) -> None:
    garden.write("roses.md", ROSES)
    corpus = await garden.open()
    await corpus.close()
    assert corpus.index_file is not None
    corpus.index_file.write_bytes(b"this is no database, and it never was one. " * 200)
    corpus = await garden.open()
    assert "was damaged" in garden.lines[0]
    assert await found(corpus, "roses") == ["docs/roses.md"]


async def test_an_index_of_an_older_version_is_made_anew(garden: Garden) -> None:
    garden.write("roses.md", ROSES)
    corpus = await garden.open()
    await corpus.close()
    assert corpus.index_file is not None
    with sqlite3.connect(corpus.index_file) as connection:
        connection.execute("UPDATE meta SET value = 'older'")
    connection.close()
    assert await found(await garden.open(), "roses") == ["docs/roses.md"]
    assert garden.lines == ["indexed 1 document (1 new, 0 changed, 0 removed)"]


async def test_without_a_place_for_the_index_it_is_kept_in_memory(garden: Garden) -> None:
    garden.write("roses.md", ROSES)
    garden.cache.write_text("a file, no folder")
    corpus = await garden.open()
    assert corpus.index_file is None
    assert "in memory" in garden.lines[0]
    assert await found(corpus, "roses") == ["docs/roses.md"]


async def test_giving_up_leaves_the_index_as_it_was(garden: Garden) -> None:
    garden.write("a.md", "# First\n\nAbout sparrows.")
    await garden.open()
    for number in range(300):
        garden.write(f"more/{number}.md", f"# Paper {number}\n\n" + "About herons. " * 300)
    task = asyncio.create_task(open_corpus([garden.docs], cache_dir=garden.cache))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    corpus = await garden.open()
    assert garden.lines == ["indexed 301 documents (300 new, 0 changed, 0 removed)"]
    assert await found(corpus, "sparrows") == ["docs/a.md"]


def test_processes_that_index_at_once_agree(tmp_path: Path) -> None:
    docs = tmp_path / "docs"
    docs.mkdir()
    for number in range(40):
        (docs / f"{number}.md").write_text(f"# Paper {number}\n\nAbout herons.")
    script = (
        "import asyncio, sys\nfrom pathlib import Path\nfrom concertino.tools.corpus import open_corpus\n"
        "async def main():\n"
        "    corpus = await open_corpus([sys.argv[1]], cache_dir=Path(sys.argv[2]), report=print)\n"
        "    print(len(await corpus.search('herons', 100)))\n"
        "    await corpus.close()\n"
        "asyncio.run(main())\n"
    )
    command = [sys.executable, "-c", script, str(docs), str(tmp_path / "cache")]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(4)]
    outputs = [process.communicate()[0].splitlines() for process in running]
    assert [process.returncode for process in running] == [0, 0, 0, 0]
    assert [lines[-1] for lines in outputs] == ["40"] * 4
    assert sum("40 new" in lines[0] for lines in outputs) == 1


async def test_many_searches_at_once_and_a_closed_corpus(garden: Garden) -> None:
    garden.write("roses.md", ROSES)
    corpus = await garden.open()
    answers = await asyncio.gather(*(corpus.search("roses") for _ in range(20)))
    assert all(len(answer) == 1 for answer in answers)
    await corpus.close()
    await corpus.close()
    with pytest.raises(LibraryError, match="closed"):
        await corpus.search("roses")


async def test_html_is_read_for_its_main_text(garden: Garden) -> None:
    garden.write(
        "page.html",
        "<html><head><title>Ponds | Garden</title><style>p {color: red}</style></head><body><nav>Home</nav>"
        "<article><h1>Ponds</h1><p>A pond needs shade for half of the day, or algae will take it over.</p>"
        "<h2>Fish</h2><p>Goldfish survive winters in ponds that are deeper than a metre.</p></article></body></html>",
    )
    garden.write("scrap.htm", "<p>Just newts.</p>")
    corpus = await garden.open()
    page = await corpus.open("docs/page.html")
    assert page.source.title == "Ponds"
    assert "A pond needs shade for half of the day, or algae will take it over.\n\nFish\n\nGoldfish" in page.text
    assert (await corpus.open("docs/scrap.htm")).text == "Just newts."


async def test_html_without_its_reader_names_the_extra(garden: Garden, monkeypatch: pytest.MonkeyPatch) -> None:
    garden.write("page.html", "<p>Ponds.</p>")
    monkeypatch.setitem(sys.modules, "trafilatura", None)
    with pytest.raises(MissingExtraError, match=r"concertino\[web\]"):
        await garden.open()


async def test_names_come_first(garden: Garden) -> None:
    garden.write("api.md", "# API\n\n### pool.open_gate(name)\n\nOpens a gate. The gate, gate, gate.\n")
    garden.write("gates.md", "# Gates\n\nGates of all kinds: open gate, closed gate, pool gate, open pool.\n")
    garden.write("rfc-12.rst", "RFC: 12\nTitle: Gate Keeping\nStatus: Final\n\nWho keeps the gate.\n")
    corpus = await garden.open()
    assert (await found(corpus, "pool.open_gate"))[0] == "docs/api.md"
    assert (await found(corpus, "RFC 12"))[0] == "docs/rfc-12.rst"
    assert (await found(corpus, "gate keeping"))[0] == "docs/rfc-12.rst"
    assert (await found(corpus, "rfc-12"))[0] == "docs/rfc-12.rst"


async def test_identifiers_are_found_by_their_parts_and_by_other_spellings(garden: Garden) -> None:
    garden.write("camel.md", "# One\n\nCall `FlowerBed` to start.")
    garden.write("snake.md", "# Two\n\nCall `water_pump_speed` to start.")
    garden.write("hyphen.md", "# Three\n\nA sub-soil plough.")
    corpus = await garden.open()
    assert await found(corpus, "flower bed") == ["docs/camel.md"]
    assert await found(corpus, "FlowerBed") == ["docs/camel.md"]
    assert await found(corpus, "pump speed") == ["docs/snake.md"]
    assert await found(corpus, "subsoil") == ["docs/hyphen.md"]


async def test_passages_that_answer_more_of_the_question_come_first(garden: Garden) -> None:
    garden.write("often.md", "# Moss\n\n" + "Moss on moss beside moss under moss. " * 8)
    garden.write("both.md", "# Lawns\n\nHow to remove moss from a lawn: rake it out in spring, then sow again.")
    corpus = await garden.open()
    assert (await found(corpus, "remove moss from the lawn"))[0] == "docs/both.md"


async def test_a_document_gives_two_passages_at_most(garden: Garden) -> None:
    sections = "\n\n".join(f"## Part {n}\n\n" + f"The heron number {n} waits. " * 40 for n in range(6))
    garden.write("herons.md", f"# Herons\n\n{sections}")
    corpus = await garden.open()
    hits = await corpus.search("heron", 10)
    assert len(hits) == 2
    assert hits[0].score >= hits[1].score
    assert all(len(hit.snippet) < 1_700 for hit in hits)


async def test_scripts_without_blanks_between_words_are_searched(garden: Garden) -> None:
    garden.write("ja.md", "# 庭\n\n東京の庭園では桜が四月に咲きます。")
    garden.write("zh.md", "# 玫瑰\n\n玫瑰需要充足的阳光和水分。")
    corpus = await garden.open()
    assert await found(corpus, "桜はいつ咲きますか") == ["docs/ja.md"]
    assert await found(corpus, "阳光") == ["docs/zh.md"]
    assert await found(corpus, "桜") == ["docs/ja.md"]


async def test_a_very_long_query_is_searched(garden: Garden) -> None:
    garden.write("roses.md", ROSES)
    query = "rose " + " ".join(f"word{number}.part" for number in range(5_000))
    assert await found(await garden.open(), query) == ["docs/roses.md"]


@pytest.mark.parametrize("query", ["", "   ", "🌹🌷", "???", '"', "\x00", "\ud800"])
async def test_a_query_without_words_finds_nothing(garden: Garden, query: str) -> None:
    garden.write("roses.md", ROSES)
    assert await found(await garden.open(), query) == []


@pytest.mark.parametrize(
    "query", ["C++", "roses AND NOT", "NEAR(roses, 5)", 'roses "', "title:roses*", "^roses - (", "{a b}: c"]
)
async def test_search_syntax_is_only_text(garden: Garden, query: str) -> None:
    garden.write("roses.md", ROSES)
    garden.write("c.md", "# Compilers\n\nC++ is compiled.")
    assert await found(await garden.open(), query)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=150)
@given(query=st.text(max_size=80), limit=st.integers(-1, 30))
def test_search_never_fails(tmp_path_factory: pytest.TempPathFactory, query: str, limit: int) -> None:
    base = tmp_path_factory.getbasetemp() / "never-fails"
    base.mkdir(exist_ok=True)
    (base / "roses.md").exists() or (base / "roses.md").write_text(ROSES)

    async def ask() -> int:
        corpus = await open_corpus([base], cache_dir=base / ".cache")
        try:
            return len(await corpus.search(query, limit))
        finally:
            await corpus.close()

    assert 0 <= asyncio.run(ask()) <= max(limit, 0)
