"""The routes of the page, below the protection of the application."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute

from ...errors import ConcertinoError
from ...messages import UserMessage
from ...runtime import Conversation
from ...storage.conversation_types import ENDED_STATES, StoredTurn
from ..conversation_endpoints import event_source
from ..endpoint import ApiCall
from ..error_form import FormedRoute, error_response
from ..open_waits import open_waits
from .live_page import page_frames, version_of
from .month_usage import month_usage
from .run_details import run_panel
from .site import LISTED, PageAgent, Site, frame_values
from .turn_parts import TurnParts
from .turn_view import TurnView
from .worker_pages import goal_document, goal_of, worker_list, worker_of, worker_portal

_TURNS = 12
"""Turns of one page of a conversation."""
_MOST_LISTED = 1_280
"""Conversations in the list that a reader can ask for."""
_View = Callable[[Site, ApiCall], Awaitable[Response]]


def page_routes(agents: Sequence[PageAgent] = (), *, title: str = "Concertino") -> list[BaseRoute]:
    """Return the routes of a page, which `create_app` takes as its `routes` below the empty path.

    *agents* presents agents of the application: their labels, descriptions and example messages. An agent that is not
    among them is shown by its name, a worker with the texts of its definition.
    """
    site = Site(agents, title)

    def error_form(request: Request, _: Exception, status: int, __: str) -> Response | None:
        if not _wants_page(request):
            return None
        return site.page(request, "error.html", status, layout="bare.html", title="Error", status_code=status)

    return [FormedRoute(path, _answering(site, view), error_form, methods=["GET"]) for path, view in _VIEWS.items()]


def _wants_page(request: Request) -> bool:
    """Return whether a person has opened the address, and not a script."""
    return "text/html" in request.headers.get("accept", "")


def _answering(site: Site, view: _View) -> Callable[[Request], Awaitable[Response]]:
    async def answer(request: Request) -> Response:
        try:
            return await view(site, ApiCall(request))
        except (ConcertinoError, HTTPException) as error:
            status = error_response(request, error).status_code
            if status >= 500 or not _wants_page(request):
                raise
            frame = await frame_values(ApiCall(request), title="Error")
            return site.page(request, "error.html", status, layout="frame.html", status_code=status, **frame)

    return answer


# -- views -------------------------------------------------------------------------------------------------------------


async def _home(site: Site, call: ApiCall) -> Response:
    agents = site.agents(call)
    asked = call.request.query_params.get("agent", "")
    chosen = next((agent for agent in agents if agent.name == asked), next(iter(agents), None))
    return site.page(
        call.request,
        "chat.html",
        **await frame_values(call, title="New chat", here="new"),
        agents=agents,
        chosen=chosen,
        worker=False,
        workers=[agent.name for agent in agents if worker_of(call.runtime, agent.name) is not None],
        goal=None,
        conversation=None,
        version="",
        turns=(),
        earlier=None,
    )


async def _conversation(site: Site, call: ApiCall) -> Response:
    conversation = await _open(call)
    version = await version_of(call.runtime.store, conversation)
    stored = await conversation.read()
    agent = site.agent(call.runtime, stored.agent)
    turns, earlier = await _turns(site, call, conversation, None)
    worker = worker_of(call.runtime, stored.agent) is not None
    return site.page(
        call.request,
        "chat.html",
        **await frame_values(call, title=stored.title or "Chat", here=stored.id),
        agents=[agent],
        chosen=agent,
        worker=worker,
        workers=[agent.name] if worker else [],
        goal=await goal_of(call, stored.agent, stored.busy or stored.leaf),
        conversation=stored,
        version=version,
        turns=turns,
        earlier=earlier,
    )


async def _turn_list(site: Site, call: ApiCall) -> Response:
    """Return a page of turns: the newest, or those before another one."""
    conversation = await _open(call)
    version = await version_of(call.runtime.store, conversation)
    turns, earlier = await _turns(site, call, conversation, call.request.query_params.get("before"))
    return site.fragment(call.request, "turns.html", turns=turns, earlier=earlier, version=version)


async def _conversation_list(site: Site, call: ApiCall) -> Response:
    query = call.request.query_params
    asked = query.get("listed", "")[:4]
    listed = min(max(int(asked), LISTED), _MOST_LISTED) if asked.isdecimal() else LISTED
    frame = await frame_values(call, title="", here=query.get("here", ""), listed=listed)
    return site.fragment(call.request, "conversations.html", **frame)


async def _live(site: Site, call: ApiCall) -> Response:
    conversation = await _open(call)
    seen = call.request.query_params.get("seen", "")
    frames = page_frames(site, call.request.scope.get("root_path", ""), call.runtime.store, conversation, seen)
    return event_source(call, frames)


async def _approvals(site: Site, call: ApiCall) -> Response:
    waits = await open_waits(call, 100)
    links: dict[str, str] = {}
    for root_id in {wait.root_id for wait in waits}:
        run = await call.runtime.store.run(call.scope, root_id)
        links[root_id] = "" if run is None else run.start.conversation_id
    frame = await frame_values(call, title="Approvals", here="approvals")
    return site.page(call.request, "approvals.html", waits=waits, links=links, **frame)


async def _search(site: Site, call: ApiCall) -> Response:
    text = call.request.query_params.get("text", "")[:1000].replace("\0", "").strip()
    found = await call.runtime.search(call.scope, text, 50) if text else ()
    frame = await frame_values(call, title=f"Search: {text}")
    return site.page(call.request, "search.html", found=found, text=text, **frame)


async def _asset(site: Site, call: ApiCall) -> Response:
    found = site.assets.get(call.request.path_params["name"])
    if found is None:
        raise HTTPException(404, "there is no such file")
    content, media_type = found
    return Response(content, media_type=media_type, headers={"Cache-Control": "public, max-age=31536000, immutable"})


_VIEWS: dict[str, _View] = {
    "/": _home,
    "/c/{conversation}": _conversation,
    "/c/{conversation}/turns": _turn_list,
    "/c/{conversation}/live": _live,
    "/c/{conversation}/document": goal_document,
    "/runs/{run}/panel": run_panel,
    "/workers": worker_list,
    "/workers/{worker}": worker_portal,
    "/approvals": _approvals,
    "/usage": month_usage,
    "/search": _search,
    "/conversations": _conversation_list,
    "/assets/{version}/{name}": _asset,
}


# -- turns -------------------------------------------------------------------------------------------------------------


async def _open(call: ApiCall) -> Conversation:
    return await call.runtime.conversation(call.scope, call.request.path_params["conversation"])


async def _turns(
    site: Site, call: ApiCall, conversation: Conversation, before: str | None
) -> tuple[list[dict[str, Any]], str | None]:
    """Return a page of the active branch with what each turn shows, the oldest first, and the id to read on before."""
    found = list(await conversation.turns(_TURNS, before))
    earlier = found[-1].run_id if len(found) == _TURNS else None
    queued = [] if before or not (await conversation.read()).busy else list(await conversation.queue())
    shown = [await _shown(site, call, turn) for turn in reversed(found)]
    known = {turn.run_id for turn in found}
    return shown + [await _shown(site, call, turn) for turn in queued if turn.run_id not in known], earlier


async def _shown(site: Site, call: ApiCall, turn: StoredTurn) -> dict[str, Any]:
    """Return what the page shows of a turn; a turn in progress is empty, and its stream fills it."""
    base = call.request.scope.get("root_path", "")
    view = TurnView(turn.run_id)
    parts = TurnParts(site, base, view)
    ended = turn.state in ENDED_STATES
    if ended:
        async for number, event in call.runtime.events(call.scope, turn.run_id):
            view.take(number, event)
        if not view.has_answer and turn.answer:  # the data policy keeps no more of it
            view.show_answer(turn.answer)
        view.over = True
        parts.draw()
    messages = () if turn.state == "queued" else await call.runtime.store.messages(call.scope, turn.run_id)
    attached = next((each.message.media for each in messages if isinstance(each.message, UserMessage)), ())
    index = turn.siblings.index(turn.run_id) if turn.run_id in turn.siblings else 0
    return {
        "turn": turn,
        "ended": ended,
        "html": parts.html(),
        "attached": attached,
        "tokens": sum(agent.tokens for agent in view.agents.values()),
        "previous": turn.siblings[index - 1] if index > 0 else "",
        "next": turn.siblings[index + 1] if index + 1 < len(turn.siblings) else "",
        "version": index + 1,
    }
