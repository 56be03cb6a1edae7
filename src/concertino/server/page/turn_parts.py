"""The parts of a turn as HTML. A part has the id of its element, and the id of the element that contains it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from markupsafe import Markup

from ...events import CallWaiting
from ...records import record
from .markup import markdown_html
from .site import Site
from .turn_items import CallItem, LineItem, MediaItem, ReportItem, TextItem
from .turn_view import TurnView

_SLOT = re.compile(r'id="([^"]+)">')
"""The end of a tag whose element may contain parts. Templates write it; in texts, quotation marks are escaped."""


@record
class HtmlPart:
    """An element that is new or different."""

    id: str
    into: str
    """The id of the element that contains it; it is added at the end."""
    html: str


class TurnParts:
    """Draws what has changed in a view."""

    def __init__(self, site: Site, base: str, view: TurnView) -> None:
        self._site = site
        self._base = base
        self._view = view
        self._drawn: dict[str, HtmlPart] = {}
        """The parts as they were drawn last, in the order of their beginning."""

    def draw(self) -> tuple[list[HtmlPart], list[str]]:
        """Return the parts that differ from the last drawing, and the ids of removed ones."""
        view = self._view
        changed, removed = list(view.changed), list(view.removed)
        view.changed.clear()
        view.removed.clear()
        made = [part for id in changed if id in view.items for part in self._item(id)]
        if changed:
            made += self._frame()
        gone = [id for removed_id in removed for id in self._forget(removed_id)]
        waiting = {_approval_id(call) for call in view.waiting}
        for id in [id for id in self._drawn if id.endswith("-approval") and id not in waiting]:
            gone += self._forget(id)
        new = [part for part in made if self._drawn.get(part.id) != part]
        self._drawn.update((part.id, part) for part in new)
        return new, gone

    def html(self) -> dict[str, Markup]:
        """Return the whole turn as HTML: the content of each element that is not a part."""
        inside: dict[str, list[HtmlPart]] = {}
        for part in self._drawn.values():
            inside.setdefault(part.into, []).append(part)

        def whole(part: HtmlPart) -> str:
            return _SLOT.sub(lambda slot: slot[0] + "".join(map(whole, inside.get(slot[1], ()))), part.html)

        frames = ("tree", "flow", "approvals", "sources")
        names = [f"{self._view.turn_id}-{name}" for name in frames]
        return {
            frame: Markup("".join(map(whole, inside.get(name, ()))))  # noqa: S704 - from templates
            for frame, name in zip(frames, names, strict=True)
        }

    def _forget(self, id: str) -> Iterator[str]:
        if self._drawn.pop(id, None) is not None:
            yield id
            for below in [part.id for part in self._drawn.values() if part.into in (id, f"{id}-inner")]:
                list(self._forget(below))

    # -- items ---------------------------------------------------------------------------------------------------

    def _item(self, id: str) -> Iterator[HtmlPart]:
        match self._view.items[id]:
            case TextItem() as item:
                yield self._part(item.id, item.into, "text", item=item)
                into = f"{item.id}-inner" if item.kind == "reasoning" else item.id
                for index in item.blocks.write(item.text):
                    html = Markup('<div id="{}" class="block">{}</div>').format(
                        f"{id}-{index}", item.blocks.blocks[index]
                    )
                    yield HtmlPart(f"{id}-{index}", into, html)
            case CallItem() as item:
                yield self._part(item.id, item.into, "call")
                yield self._part(f"{id}-head", f"{id}-summary", "call_head", item=item)
                yield self._part(f"{id}-body", f"{id}-content", "call_body", item=item)
                if item.state == "waiting" and item.waits is not None:
                    yield self._approval(item, item.waits)
            case ReportItem() as item:
                html = markdown_html(item.markdown, item.citations)
                yield self._part(item.id, item.into, "report", html=html, citations=item.citations)
            case LineItem() as item:
                yield self._part(item.id, item.into, "line", item=item)
            case MediaItem() as item:
                yield self._part(item.id, item.into, "media", media=item.media, digest=item.media.digest)

    def _approval(self, call: CallItem, wait: CallWaiting) -> HtmlPart:
        agent = self._view.agents.get(call.run_id)
        return self._part(
            _approval_id(call),
            f"{self._view.turn_id}-approvals",
            "approval",
            call={"key": wait.key, "tool": call.name, "arguments": wait.arguments, "who": wait.who, "note": wait.note},
            kind=wait.kind,
            agent="" if agent is None else agent.name,
        )

    def _frame(self) -> Iterator[HtmlPart]:
        """Yield the parts around the items: the tree of agents and the sources."""
        view = self._view
        if len(view.agents) > 1 and view.root is not None:
            yield self._part(
                f"{view.turn_id}-agents", f"{view.turn_id}-tree", "agents", root=view.root, agents=view.agents
            )
        if view.over and view.citations.cited:
            yield self._part(f"{view.turn_id}-cited", f"{view.turn_id}-sources", "sources", citations=view.citations)

    def _part(self, id: str, into: str, macro: str, **values: Any) -> HtmlPart:
        template = f"parts/{macro}.html"
        html = self._site.render(template, id=id, turn=self._view.turn_id, base=self._base, **values)
        return HtmlPart(id, into, html.strip())


def _approval_id(call: CallItem) -> str:
    return f"{call.id}-approval"


def status_of(view: TurnView) -> str:
    """Return what the turn does now, in a few words."""
    root = view.root
    if root is None:
        return "Starting"
    waits = [call.waits.kind for call in view.waiting if call.waits is not None]
    if waits:
        return "Waiting for your approval" if "approval" in waits else "Waiting for you"
    busy = [agent for agent in view.agents.values() if agent.state == "running" and agent is not root]
    if busy:
        return f"{len(busy)} {'agents' if len(busy) > 1 else 'agent'} at work"
    return root.activity[:1].upper() + root.activity[1:] if root.activity else ""
