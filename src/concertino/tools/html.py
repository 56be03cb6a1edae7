"""The text of HTML pages, as Markdown; for the web and for local documents."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any, NamedTuple

from ..extras import extra

_DATES = ("article:modified_time", "article:published_time", "last-modified", "dcterms.modified", "date")
_INVISIBLE = "|".join(f"//{tag}" for tag in ("script", "style", "template", "noscript", "svg", "nav", "head", "form"))


class HtmlPage(NamedTuple):
    """The readable content of a page; any field may be empty."""

    text: str
    """Markdown."""
    title: str = ""
    version: str = ""
    date: str = ""
    """The date that the page's metadata states."""


def require_html_reader(needed_extra: str) -> None:
    """Raise `MissingExtraError`, which names *needed_extra*, if `read_html` cannot work; import nothing."""
    with extra(needed_extra, "reading HTML"):
        if find_spec("trafilatura") is None:
            raise ModuleNotFoundError("No module named 'trafilatura'", name="trafilatura")


def read_html(page: str, *, needed_extra: str = "documents") -> HtmlPage:
    """Return the main text of *page*, or all visible text if trafilatura finds no main text.

    Raises `MissingExtraError`, which names *needed_extra*, if trafilatura or one of its dependencies is missing.
    """
    with extra(needed_extra, "reading HTML"):
        import trafilatura  # noqa: PLC0415 - an optional dependency
        from lxml import etree, html  # noqa: PLC0415
    try:
        tree: Any = html.document_fromstring(page.encode("utf-8", "replace"), html.HTMLParser(encoding="utf-8"))
    except (etree.LxmlError, ValueError):  # an empty page has no tree
        return HtmlPage("")
    stated = {
        (node.get("name") or node.get("property") or "").lower(): node.get("content") for node in tree.iter("meta")
    }
    date = next((stated[name] for name in _DATES if stated.get(name)), "") or ""
    title = " ".join((tree.findtext(".//title") or "").split())
    text = trafilatura.extract(
        page, favor_recall=True, include_formatting=True, include_comments=False, output_format="markdown"
    )
    if not text:
        for node in tree.xpath(_INVISIBLE):
            node.drop_tree()
        lines = (" ".join(line.split()) for line in "\n\n".join(tree.itertext()).split("\n\n"))
        text = "\n\n".join(filter(None, lines))
    heading = next((line.lstrip("# ") for line in text.split("\n") if line.startswith("#")), "")
    return HtmlPage(text.replace("¶", ""), heading or title, stated.get("version") or "", date[:10])
