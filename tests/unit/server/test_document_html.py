"""A living document as the page draws it."""

from __future__ import annotations

from concertino.server.page.site import Site


def test_the_updates_of_a_document_are_drawn_like_the_document() -> None:
    entries = [
        {"section": "findings", "label": f"pass {each}", "text": f"**{each}** <b>", "conflict": False}
        for each in (1, 2)
    ]
    goal = {"passes": 2, "ended": None, "document": {"findings": "**2**"}, "history": entries}
    html = Site((), "Desk").render("document.html", goal=goal)
    assert "2 updates" in html
    for each in (1, 2):
        assert f"Pass {each}" in html
        assert f"<strong>{each}</strong> &lt;b&gt;" in html
