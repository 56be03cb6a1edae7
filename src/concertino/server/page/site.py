"""The site: templates, static files, and the values that every page shows."""

from __future__ import annotations

import hashlib
import json
import re
import unicodedata
from collections.abc import Sequence
from datetime import UTC, datetime
from decimal import Decimal
from functools import cached_property
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from ...agents import WorkerAgent
from ...records import record
from ...runtime import Runtime
from ...runtime.question import question_of
from ...runtime.timeline import TimelineCall
from ...waits import denial_reason
from ..endpoint import ApiCall
from ..open_waits import open_waits
from .markup import markdown_html, plain_text, well_formed
from .question_fields import question_fields

_HERE = Path(__file__).parent
_POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data: blob:",
        "media-src 'self'",
        "connect-src 'self'",
        "form-action 'self'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types page",
    )
)
HEADERS = {"Content-Security-Policy": _POLICY, "Cross-Origin-Opener-Policy": "same-origin"}
"""Headers of a page: it runs its own scripts only, and loads nothing from elsewhere."""
_TYPES = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
LISTED = 40
"""Conversations in the list, until the reader asks for more."""
_STATES = {"suspended": "waiting", "cancelled": "stopped", "limited": "limit reached", "dead_letter": "given up"}
_LONGEST_SHOWN = 20_000
"""Characters of a tool's result that the page shows."""


@record(kw_only=True)
class PageAgent:
    """An agent as the page presents it."""

    name: str
    """The agent's name."""
    label: str = ""
    """A name for people; by default its name in words."""
    description: str = ""
    prompts: tuple[str, ...] = ()
    """Examples of messages, for the empty page."""


class Site:
    """Renders the templates. *agents* presents those of the application; workers have texts of their own."""

    def __init__(self, agents: Sequence[PageAgent], title: str) -> None:
        self.title = title
        self._stated = {agent.name: agent for agent in agents}
        self._templates = Environment(
            loader=FileSystemLoader(_HERE / "templates"),
            autoescape=True,
            trim_blocks=True,
            lstrip_blocks=True,
            undefined=StrictUndefined,
        )
        self._templates.filters.update(
            markdown=markdown_html,
            tokens=tokens,
            money=money,
            when=when,
            label=label,
            state=state,
            pretty=pretty,
            exact=exact,
            cut=cut,
            plain=plain_text,
            denial_reason=denial_reason,
            call_state=call_state,
            task=task,
        )
        self._templates.globals.update(subject=subject, question_of=question_of, question_fields=question_fields)

    @cached_property
    def assets(self) -> dict[str, tuple[bytes, str]]:
        """The static files with their types, by name."""
        files = sorted((_HERE / "static").iterdir())
        return {path.name: (path.read_bytes(), _TYPES[path.suffix]) for path in files if path.suffix in _TYPES}

    @cached_property
    def version(self) -> str:
        """A digest of the static files, which is part of their addresses: browsers may keep them for ever."""
        made = hashlib.blake2b(digest_size=8)
        for content, _ in self.assets.values():
            made.update(content)
        return made.hexdigest()

    def agents(self, call: ApiCall) -> list[PageAgent]:
        """Return the agents of the application as the page presents them."""
        return [self.agent(call.runtime, name) for name in call.state.agents]

    def agent(self, runtime: Runtime, name: str) -> PageAgent:
        """Return an agent as the page presents it."""
        if name in self._stated:
            found = self._stated[name]
            return PageAgent(name=name, label=self.label(name), description=found.description, prompts=found.prompts)
        for agent in runtime.agents:
            if agent.name == name and isinstance(agent, WorkerAgent):
                texts = agent.definition
                return PageAgent(
                    name=name,
                    label=texts.name or label(name),
                    description=texts.description,
                    prompts=tuple(texts.starter_prompts),
                )
        return PageAgent(name=name, label=label(name))

    def label(self, name: str) -> str:
        """Return the name of an agent for people."""
        found = self._stated.get(name)
        return found.label if found is not None and found.label else label(name)

    def render(self, template: str, **values: Any) -> Markup:
        """Return a template as HTML."""
        html = self._templates.get_template(template).render(site=self, **values)
        return Markup(well_formed(html))  # noqa: S704 - autoescaped

    def page(self, request: Request, template: str, status: int = 200, **values: Any) -> Response:
        """Return a whole page."""
        base = request.scope.get("root_path", "")
        return HTMLResponse(self.render(template, base=base, **values), status, HEADERS)

    def fragment(self, request: Request, template: str, **values: Any) -> Response:
        """Return a part of a page, for the script."""
        return self.page(request, template, **values)


async def frame_values(call: ApiCall, *, title: str, here: str = "", listed: int = LISTED) -> dict[str, Any]:
    """Return the values of the frame around every page: its title, the list of chats, and the open approvals."""
    return {
        "conversations": await call.runtime.conversations(call.scope, listed),
        "listed": listed,
        "open_approvals": len(await open_waits(call, 100)),
        "title": title,
        "here": here,
    }


# -- filters -----------------------------------------------------------------------------------------------------------


def tokens(count: int) -> str:
    """Return a number of tokens in three digits: 950, 12.3k, 4.56M."""
    for limit, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if count >= limit:
            return f"{count / limit:.3g}{unit}"
    return str(count)


def money(cost: Decimal | None) -> str:
    """Return US dollars, with more digits for small amounts."""
    if cost is None:
        return "no price"
    return f"${cost:.2f}" if cost == 0 or cost >= 1 else f"${cost:.4f}"


def when(seconds: float) -> str:
    """Return a moment in ISO form, for a `time` element."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")


def label(name: str) -> str:
    """Return a name of a program as words: `main_thread` is "Main thread"."""
    words = re.sub(r"[_\-\s]+", " ", name).strip()
    return words[:1].upper() + words[1:]


def state(name: str) -> str:
    """Return the state of a run in the reader's words."""
    return _STATES.get(name, name)


def call_state(call: TimelineCall) -> str:
    """Return the state of a call in the reader's words."""
    denied = any(wait.resolution is not None and wait.resolution.verdict == "denied" for wait in call.waits)
    return "denied" if denied else call.state


def task(text: str) -> str:
    """Return the task of an agent in the reader's words: that of a question to a person is JSON with its `message`."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return text
    message = value.get("message") if isinstance(value, dict) else None
    return message if isinstance(message, str) else text


def pretty(text: str) -> str:
    """Return JSON text with indentation; other text as it is."""
    try:
        return json.dumps(json.loads(text), indent=2, ensure_ascii=False)
    except (ValueError, RecursionError):
        return text


def exact(text: str) -> str:
    """Return arguments with indentation, and with escapes for characters that are invisible or reorder others."""
    shown = pretty(text)
    return shown.translate({ord(each): json.dumps(each)[1:-1] for each in set(shown) if _is_unseen(each)})


def _is_unseen(character: str) -> bool:
    return character != "\n" and unicodedata.category(character) in ("Cc", "Cf", "Cn", "Co", "Cs", "Zl", "Zp")


def cut(text: str, most: int = _LONGEST_SHOWN) -> str:
    """Return the beginning of a long text."""
    return text if len(text) <= most else f"{text[:most]}\n… {len(text) - most:,} more characters"


def subject(arguments: str) -> str:
    """Return the first text among a call's arguments, in one line."""
    try:
        value = json.loads(arguments)
    except (ValueError, RecursionError):
        return ""
    texts = [each for each in value.values() if isinstance(each, str)] if isinstance(value, dict) else []
    return " ".join(texts[0].split())[:160] if texts else ""
