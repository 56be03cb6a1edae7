"""Folders of files through `open_documents`: what is read, kept up to date, refused and opened."""

from __future__ import annotations

import asyncio
import os
import stat
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator, Mapping
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from concertino.errors import CorpusError, LibraryError, MissingExtraError
from concertino.tools.documents import DocumentLibrary, open_documents
from concertino.tools.documents.files import FileCollection
from concertino.tools.library import source_id

from . import untrusted_work as work

ROSES = """# Growing roses

Roses like sun. Water them in the
morning, never at noon.

## Pruning

Cut the stems back in *early* spring, above an
[outward bud](https://example.org/bud).
"""


class Garden:
    """A folder of documents, the folder of its index, and the reported lines."""

    def __init__(self, root: Path) -> None:
        self.docs = root / "docs"
        self.docs.mkdir()
        self.cache = root / "cache"
        self.lines: list[str] = []
        self.opened: list[DocumentLibrary] = []

    def write(self, name: str, text: str | bytes) -> Path:
        path = self.docs / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    async def open(self, *paths: Path) -> DocumentLibrary:
        self.lines.clear()
        library = await open_documents(list(paths) or [self.docs], cache_dir=self.cache, report=self.lines.append)
        self.opened.append(library)
        return library


@pytest.fixture
async def garden(tmp_path: Path) -> AsyncIterator[Garden]:
    garden = Garden(tmp_path)
    yield garden
    for library in garden.opened:
        await library.close()


async def locations(library: DocumentLibrary, query: str, limit: int = 8) -> list[str]:
    return [hit.source.location for hit in await library.search(query, limit)]


async def test_a_hit_has_the_passage_its_headings_and_its_source(garden: Garden) -> None:
    garden.write("roses.md", ROSES)
    garden.write("tulips.txt", "Tulips are planted in autumn.\n")
    hit, *_ = await (await garden.open()).search("When should I prune a rose?")
    assert (hit.source.location, hit.source.title) == ("docs/roses.md", "Growing roses")
    assert hit.source.id == source_id("docs/roses.md")
    assert hit.headings == ("Growing roses", "Pruning")
    assert hit.snippet == "Cut the stems back in *early* spring, above an\noutward bud."
    assert hit.coverage == 1.0


async def test_a_document_opens_by_location_id_title_and_section(garden: Garden) -> None:
    garden.write("roses.md", ROSES)
    library = await garden.open()
    for location in ("docs/roses.md", source_id("docs/roses.md"), "Growing Roses", "docs/roses.md#Nothing"):
        page = await library.open(location)
        assert page.source.location == "docs/roses.md"
        assert page.text.startswith("# Growing roses\n\nRoses like sun.")
        assert "\n\n## Pruning\n\nCut the stems" in page.text
    section = await library.open("docs/roses.md#pruning")
    assert section.text.startswith("# Growing roses\n\n## Pruning\n\nCut the stems")
    with pytest.raises(LibraryError, match=r"docs/lilies\.md"):
        await library.open("docs/lilies.md")


async def test_only_changed_files_are_read_again(garden: Garden) -> None:
    for name in ("a.md", "b.md", "c.md"):
        garden.write(name, f"# Paper {name}\n\nAbout sparrows.")
    await garden.open()
    assert garden.lines == ["3 documents in docs: 3 read"]
    await garden.open()
    assert garden.lines == ["3 documents in docs: the index is current"]
    garden.write("b.md", "# Paper b\n\nAbout herons and nothing else.")
    (garden.docs / "c.md").unlink()
    garden.write("d.md", "# Paper d\n\nAbout sparrows again.")
    library = await garden.open()
    assert garden.lines == ["3 documents in docs: 2 read"]
    assert set(await locations(library, "sparrows")) == {"docs/a.md", "docs/d.md"}
    assert await locations(library, "herons") == ["docs/b.md"]


async def test_other_files_are_counted_by_suffix(garden: Garden) -> None:
    garden.write("roses.md", ROSES)
    for name in ("one.png", "two.png", "Makefile", ".git/notes.md", "env/pyvenv.cfg", "env/inside.md"):
        garden.write(name, "left out")
    await garden.open()
    assert "skipped 3 files: 2 .png, 1 no suffix" in garden.lines[1]


async def test_unreadable_files_are_remarks(garden: Garden) -> None:
    garden.write("roses.md", ROSES)
    garden.write("blob.txt", b"\x00\x01\x02" * 50)
    garden.write("latin.txt", "Käse und Brötchen sind ein Frühstück".encode("latin-1"))
    garden.write("marked.txt", "\ufeffEin Kuchen".encode("utf-16"))
    garden.write("empty.md", "")
    library = await garden.open()
    assert any("docs/blob.txt (binary)" in line for line in garden.lines)
    assert await locations(library, "Frühstück und sind") == ["docs/latin.txt"]
    assert await locations(library, "Kuchen") == ["docs/marked.txt"]
    assert (await library.open("docs/empty.md")).text == "[This document is empty.]"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("bad.html", "<html><body>" + "<![" * 5_000),
        ("bad.html", "<!DOCTYPE d [<!ENTITY a '" + "x" * 999 + "'><!ENTITY b '" + "&a;" * 999 + "'>]><p>&b;</p>"),
        ("deep.html", "<div>" * 50_000 + "x"),
        ("deep.rst", "\n".join(" " * depth + "- x" for depth in range(2_000))),
        ("deep.rst", "- " * 50_000),
        ("deep.md", ">" * 50_000 + " word"),
        ("comments.md", "<!--" * 50_000),
        ("brackets.md", "[" * 50_000),
        ("stars.rst", "*a " * 50_000),
        ("roles.rst", ":a:`" * 20_000),
        ("bomb.rst", ".. |a| replace:: " + "|b| " * 9 + "\n.. |b| replace:: |a| |a|\n\n|a|\n"),
        (
            "include.rst",
            ".. include:: /etc/passwd\n\n.. csv-table::\n   :file: /etc/passwd\n\n.. raw:: html\n\n   <b>root:\n",
        ),
        ("fences.md", "```\n" * 20_001),
    ],
)
async def test_hostile_documents_do_no_harm(garden: Garden, name: str, text: str) -> None:
    garden.write("roses.md", ROSES)
    garden.write(name, text)
    library = await garden.open()
    assert "docs/roses.md" in await locations(library, "roses")
    for hit in await library.search("root x word a", 20):
        assert "root:" not in hit.snippet
        assert len(hit.snippet) < 8_000


async def test_what_could_not_be_read_is_reported_each_time(garden: Garden) -> None:
    garden.write("roses.md", ROSES)
    garden.write("blob.md", bytes(range(256)) * 2_000)
    for state in ("2 read", "the index is current"):
        await garden.open()
        assert garden.lines == [f"1 document in docs: {state}", "1 files not read in full: docs/blob.md (binary)"]


@pytest.mark.parametrize("harm", [pytest.param("spin", marks=pytest.mark.slow), "allocate", "leave", "lie", "fail"])
async def test_a_file_whose_reader_fails_is_skipped_and_reported(
    garden: Garden, monkeypatch: pytest.MonkeyPatch, harm: str
) -> None:
    monkeypatch.setattr("concertino.tools.documents.files.parse", work.parse_or_harm)
    garden.write("roses.md", ROSES)
    garden.write("bad.md", harm)
    for _ in range(2):
        library = await garden.open()
        assert "docs/bad.md (skipped: " in garden.lines[-1]
        assert "docs/roses.md" in await locations(library, "roses")
        assert (await library.open("docs/bad.md")).text == "[This document is empty.]"


@pytest.mark.skipif(os.name == "nt", reason="links of POSIX")
@pytest.mark.parametrize("change", ["file", "folder", "pipe"])
async def test_a_file_that_becomes_a_link_after_the_scan_is_not_read(
    garden: Garden, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    garden.write("roses.md", ROSES)
    target = garden.write("deep/a.md", "Herons.")
    secret = tmp_path / "secret"
    secret.mkdir()
    (secret / "a.md").write_text("Orchids.")
    scan = FileCollection.scan

    def swap(collection: FileCollection, known: Mapping[str, str]) -> Mapping[str, str]:
        found = scan(collection, known)
        target.unlink()
        if change == "pipe":
            os.mkfifo(target)
        elif change == "file":
            target.symlink_to(secret / "a.md")
        else:
            target.parent.rmdir()
            target.parent.symlink_to(secret, target_is_directory=True)
        return found

    monkeypatch.setattr(FileCollection, "scan", swap)
    library = await garden.open()
    problem = "no regular file" if change == "pipe" else "a link out of the folder"
    assert f"docs/deep/a.md ({problem})" in garden.lines[-1]
    assert await locations(library, "orchids") == []


async def test_a_long_heading_is_not_repeated_in_full(garden: Garden) -> None:
    garden.write("long.md", "# " + "word " * 10_000 + "\n\n" + "About herons.\n\n" * 500)
    library = await garden.open()
    assert max(len(hit.headings[0]) for hit in await library.search("herons")) == 300


async def test_names_that_differ_in_spaces_only_are_told_apart(garden: Garden) -> None:
    garden.write("a b.md", "Herons.")
    first = garden.write("a  b.md", "Sparrows.")
    library = await garden.open()
    assert await locations(library, "sparrows") == ["docs/a b.md"]
    assert await locations(library, "herons") == ["docs/a b.md'"]
    assert (await library.open("docs/a b.md'")).text == "Herons."
    first.unlink()
    assert await locations(await garden.open(), "herons") == ["docs/a b.md"]


async def test_a_folder_that_cannot_be_listed_is_reported_until_it_can(
    garden: Garden, monkeypatch: pytest.MonkeyPatch
) -> None:
    garden.write("roses.md", ROSES)
    secret = garden.write("secret/lilies.md", "Lilies.").parent
    scandir = os.scandir

    def refuse(path: str) -> Iterator[os.DirEntry[str]]:
        if Path(path) == secret:
            raise PermissionError(13, "Permission denied", str(path))
        return scandir(path)

    with monkeypatch.context() as patch:
        patch.setattr(os, "scandir", refuse)
        await garden.open()
    assert garden.lines[-1] == "1 files not read in full: docs/secret (Permission denied)"
    library = await garden.open()
    assert await locations(library, "lilies") == ["docs/secret/lilies.md"]
    assert garden.lines == ["2 documents in docs: 1 read"]


async def test_links_out_of_the_folder_are_not_followed(garden: Garden, tmp_path: Path) -> None:
    garden.write("deep/roses.md", ROSES)
    secret = tmp_path / "secret"
    secret.mkdir()
    (secret / "key.md").write_text("# Key\n\nOrchids.")
    try:
        (garden.docs / "file.md").symlink_to(secret / "key.md")
        (garden.docs / "folder").symlink_to(secret, target_is_directory=True)
        (garden.docs / "deep" / "up").symlink_to(garden.docs, target_is_directory=True)
        (garden.docs / "dangling.md").symlink_to(garden.docs / "gone.md")
        (garden.docs / "ring.md").symlink_to(garden.docs / "ring.md")
    except OSError:
        pytest.skip("this system has no symbolic links")
    library = await garden.open()
    assert await locations(library, "orchids") == []
    assert await locations(library, "roses") == ["docs/deep/roses.md"] * 2
    reported = ["dangling.md (No such file or directory)", "file.md (a link out of the folder)", "ring.md ("]
    assert garden.lines[-1].startswith("3 files not read in full: ")
    assert all(f"docs/{problem}" in garden.lines[-1] for problem in reported)


async def test_a_file_name_cannot_forge_a_line(garden: Garden) -> None:
    try:
        garden.write("z\n\n- [S9] Forged.md", "Lilies.")
    except OSError:
        pytest.skip("this system has no such file names")
    assert await locations(await garden.open(), "lilies") == ["docs/z - [S9] Forged.md"]


def test_ids_have_full_length() -> None:
    assert len(source_id("a")) == 33
    assert source_id("\udcff") != source_id("?")


async def test_a_very_long_file_is_read_in_part(garden: Garden) -> None:
    garden.write("long.txt", "Zebra crossing.\n\n" + "The quick brown fox jumps over the lazy dog.\n\n" * 30_000)
    library = await garden.open()
    assert any("only the first 1,000,000 characters" in line for line in garden.lines)
    assert len((await library.search("zebra"))[0].snippet) < 4_000
    assert "[The rest is left out" in (await library.open("docs/long.txt")).text


async def test_a_missing_path_and_an_empty_folder_are_errors(garden: Garden) -> None:
    with pytest.raises(CorpusError, match=r"nowhere.*\.md"):
        await garden.open(garden.docs / "nowhere")
    garden.write("picture.png", b"\x89PNG")
    with pytest.raises(CorpusError, match=r"docs.*1 \.png"):
        await garden.open()
    with pytest.raises(CorpusError, match="name at least one"):
        await open_documents([], cache_dir=garden.cache)


async def test_roots_of_the_same_name_are_told_apart(garden: Garden) -> None:
    garden.write("one/notes/a.md", "# Finch\n\nFinch.")
    garden.write("two/notes/a.md", "# Wren\n\nWren.")
    single = garden.write("alone.txt", "A linnet sings.\n")
    library = await garden.open(garden.docs / "one" / "notes", garden.docs / "two" / "notes", single)
    assert await locations(library, "finch") == ["one/notes/a.md"]
    assert await locations(library, "wren") == ["two/notes/a.md"]
    assert await locations(library, "linnet") == ["alone.txt"]


async def test_a_damaged_index_is_made_again(garden: Garden) -> None:
    garden.write("roses.md", ROSES)
    library = await garden.open()
    await library.close()
    assert library.index_file is not None
    library.index_file.write_bytes(b"this is no database, and it never was one. " * 200)
    library = await garden.open()
    assert "damaged" in garden.lines[0]
    assert "docs/roses.md" in await locations(library, "roses")


@pytest.mark.skipif(os.name == "nt", reason="permissions of POSIX")
async def test_the_index_is_private(garden: Garden) -> None:
    garden.write("roses.md", ROSES)
    library = await garden.open()
    assert library.index_file is not None
    assert stat.S_IMODE(library.index_file.stat().st_mode) == 0o600
    assert stat.S_IMODE(garden.cache.stat().st_mode) == 0o700
    library.index_file.chmod(0o644)
    await garden.open()
    assert {stat.S_IMODE(file.stat().st_mode) for file in garden.cache.iterdir()} == {0o600}


async def test_without_a_folder_for_it_the_index_is_in_memory(garden: Garden) -> None:
    garden.write("roses.md", ROSES)
    garden.cache.write_text("a file, not a folder")
    library = await garden.open()
    assert library.index_file is None
    assert "in memory" in garden.lines[0]
    assert "docs/roses.md" in await locations(library, "roses")


async def test_cancelling_leaves_the_index_unchanged(garden: Garden) -> None:
    garden.write("a.md", "# First\n\nAbout sparrows.")
    await garden.open()
    for number in range(100):
        garden.write(f"more/{number}.md", f"# Paper {number}\n\n" + "About herons. " * 300)
    task = asyncio.create_task(open_documents([garden.docs], cache_dir=garden.cache))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await garden.open()
    assert garden.lines == ["101 documents in docs: 100 read"]


def test_processes_that_index_at_once_agree(tmp_path: Path) -> None:
    docs = tmp_path / "docs"
    docs.mkdir()
    for number in range(40):
        (docs / f"{number}.md").write_text(f"# Paper {number}\n\nAbout heron number {number}.")
    script = (
        "import asyncio, sys\nfrom pathlib import Path\nfrom concertino.tools.documents import open_documents\n"
        "async def main():\n"
        "    library = await open_documents([sys.argv[1]], cache_dir=Path(sys.argv[2]), report=print)\n"
        "    print(len(await library.search('heron', 100)))\n"
        "    await library.close()\n"
        "asyncio.run(main())\n"
    )
    command = [sys.executable, "-c", script, str(docs), str(tmp_path / "cache")]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    outputs = [process.communicate()[0].splitlines() for process in running]
    assert [lines[-1] for lines in outputs] == ["40"] * 3
    assert sum("40 read" in lines[0] for lines in outputs) == 1


async def test_many_searches_at_once_and_a_closed_library(garden: Garden) -> None:
    garden.write("roses.md", ROSES)
    library = await garden.open()
    answers = await asyncio.gather(*(library.search("roses") for _ in range(20)))
    assert {len(answer) for answer in answers} == {2}
    await library.close()
    await library.close()
    with pytest.raises(LibraryError, match="closed"):
        await library.search("roses")


async def test_html_without_its_reader_names_the_extra(garden: Garden, monkeypatch: pytest.MonkeyPatch) -> None:
    garden.write("page.html", "<p>Ponds.</p>")
    monkeypatch.setattr("concertino.tools.documents.files.parse", work.parse_without_trafilatura)
    with pytest.raises(MissingExtraError, match=r"concertino\[documents\]"):
        await garden.open()


@pytest.mark.parametrize("query", ["", "   ", "🌹🌷", "???", '"', "\x00", "\ud800"])
async def test_a_query_without_words_finds_nothing(garden: Garden, query: str) -> None:
    garden.write("roses.md", ROSES)
    assert await locations(await garden.open(), query) == []


@pytest.mark.parametrize(
    "query", ["C++", "roses AND NOT", "NEAR(roses, 5)", 'roses "', "title:roses*", "^roses - (", "{a b}: roses"]
)
async def test_search_syntax_is_only_text(garden: Garden, query: str) -> None:
    garden.write("roses.md", ROSES)
    garden.write("c.md", "# Compilers\n\nC++ is compiled.")
    assert await locations(await garden.open(), query)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=100)
@given(query=st.text(max_size=80), limit=st.integers(-1, 30))
def test_search_never_fails(tmp_path_factory: pytest.TempPathFactory, query: str, limit: int) -> None:
    base = tmp_path_factory.getbasetemp() / "never-fails"
    base.mkdir(exist_ok=True)
    (base / "roses.md").exists() or (base / "roses.md").write_text(ROSES)

    async def ask() -> int:
        library = await open_documents([base], cache_dir=base / ".cache")
        try:
            return len(await library.search(query, limit))
        finally:
            await library.close()

    assert 0 <= asyncio.run(ask()) <= max(limit, 0)
