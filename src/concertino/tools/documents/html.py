"""HTML pages, read by trafilatura."""

from __future__ import annotations

from ...errors import MissingExtraError
from .document import Document, one_line

_DATES = ("article:modified_time", "article:published_time", "last-modified", "dcterms.modified", "date")
_INVISIBLE = "|".join(f"//{tag}" for tag in ("script", "style", "template", "noscript", "svg", "nav", "head", "form"))


def read_html(page: str) -> Document:
    """Read the main text of *page*, or all visible text if no main text can be told apart.

    Raises `MissingExtraError` if trafilatura or one of its dependencies is missing.
    """
    try:
        import trafilatura  # noqa: PLC0415 - an optional dependency
        from lxml import etree, html  # noqa: PLC0415
    except ImportError as error:
        raise MissingExtraError(
            f"cannot read HTML ({error}); install its reader: pip install 'concertino[documents]'"
        ) from error
    try:
        tree = html.document_fromstring(page.encode("utf-8", "replace"), html.HTMLParser(encoding="utf-8"))
    except (etree.LxmlError, ValueError):  # an empty page has no tree
        return Document()
    stated = {
        one_line(str(node.get("name") or node.get("property"))).lower(): one_line(str(node.get("content") or ""))
        for node in tree.iter("meta")
    }
    title = one_line(tree.findtext(".//title") or "")
    date = next((stated[name] for name in _DATES if stated.get(name)), "")
    text = trafilatura.extract(
        page, favor_recall=True, include_formatting=True, include_comments=False, output_format="markdown"
    )
    if not text:
        for node in tree.xpath(_INVISIBLE):
            node.drop_tree()
        text = "\n\n".join(filter(None, map(one_line, tree.text_content().split("\n\n"))))
    return Document(title, text.replace("¶", ""), stated.get("version", ""), date[:10])
