"""A chat backend in one file: the layer between a web framework and concertino.

Each method of `Backend` is the work of one route, once the product knows who asks (`Scope`). The file itself has no web
framework. It reads requests as lines of JSON and writes answers and events as lines of JSON, so that it can be tried,
killed, and started again:

    export ACME_KEY=sk-... GLOBEX_KEY=sk-...
    python examples/chat_backend.py chat.db
    {"id": 1, "do": "send", "tenant": "acme", "user": "ann", "chat": "c1", "text": "Hello", "key": "m1"}

Each tenant has its own key, and its own server if `ACME_URL` names one with OpenAI's Chat Completions. Any number of
processes may serve one file. Each resumes what a killed one has left. The user `lead` of each tenant approves refunds:

    {"id": 2, "do": "waits", "tenant": "acme", "user": "lead"}
    {"id": 3, "do": "answer", "tenant": "acme", "user": "lead", "key": "...", "approve": true}
"""

import asyncio
import json
import os
import sqlite3
import sys
import threading
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, closing
from dataclasses import asdict, dataclass, replace
from decimal import Decimal
from pathlib import Path
from typing import Any, Literal

from concertino import (
    AgentConfig,
    AnyScope,
    Budget,
    Chat,
    Conversation,
    DataPolicy,
    KeepFor,
    Resources,
    Runtime,
    Scope,
    SqliteStore,
    TenantScope,
    Tokens,
    ToolContext,
    tool,
)
from concertino.agents import EMAIL, Approvals, TextRedaction, UserMemory
from concertino.errors import ConcertinoError, ConfigurationError, NotAllowedError
from concertino.events import event_json
from concertino.messages import Media
from concertino.providers.openai import OpenAICompatibleModel
from concertino.runtime import ConversationTurn

Json = dict[str, Any]
MONTH = 30 * 86_400
LEADS = ("lead",)


class Payments:
    """The product's payment service, here a table. It knows a payment by its key, so that none is made twice."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def pay(self, key: str, owner: Scope, order: str, euros: int) -> None:
        with closing(sqlite3.connect(self._path)) as database, database:
            database.execute("CREATE TABLE IF NOT EXISTS payments (key PRIMARY KEY, tenant, user, number, euros)")
            row = (key, owner.tenant, owner.user, order, euros)
            database.execute("INSERT OR IGNORE INTO payments VALUES (?, ?, ?, ?, ?)", row)


@tool(effect="idempotent")
def refund(order: str, euros: int, context: ToolContext) -> str:
    """Pay the money for an order back."""
    payments: Payments = context.deps
    payments.pay(context.key, context.scope, order, euros)
    return f"{euros} euros for order {order} are paid back"


class Desk(AgentConfig[None]):
    """The agent that the user talks to. It remembers facts, and its refunds need the approval of a lead."""

    name = "desk"
    prompt = "You are the help desk of a shop."
    tools = (refund,)

    def __init__(self, store: SqliteStore) -> None:
        self.parts = (TextRedaction(EMAIL), UserMemory(store), Approvals("refund", who=LEADS, note="a refund"))

    def get_data_policy(self) -> DataPolicy:
        return DataPolicy(media=KeepFor(MONTH))


@dataclass
class Ticket:
    """What a message is about."""

    topic: Literal["refund", "delivery", "other"]
    urgent: bool


class Triage(AgentConfig[None]):
    """Sorts messages. Its answer is a `Ticket`."""

    name = "triage"
    prompt = "Sort the message of a customer."
    output_type = Ticket
    parts = (TextRedaction(EMAIL),)


class Tenants:
    """Opens the model of each tenant once, with the tenant's own key."""

    def __init__(self, payments: Payments) -> None:
        self._payments = payments
        self._models: dict[str, OpenAICompatibleModel] = {}

    def resources(self, scope: Scope, agent: AgentConfig[Any]) -> Resources:
        """Return the resources of a run: called when it starts, and in each process that resumes it."""
        tenant = scope.tenant
        if tenant not in self._models:
            key, url = (os.environ.get(f"{tenant.upper()}_{name}") for name in ("KEY", "URL"))
            if not key:
                raise ConfigurationError(f"unknown tenant {tenant!r}: set {tenant.upper()}_KEY")
            self._models[tenant] = OpenAICompatibleModel("gpt-5-mini", url, vendor="openai", api_key=key)
        return Resources(model=self._models[tenant], deps=self._payments)

    async def close(self) -> None:
        for model in self._models.values():
            await model.close()


# -- the routes ----------------------------------------------------------------------------------------------------


class Backend:
    """The product's routes. Each takes the scope of the person who asks; anything out of its reach is "not found"."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._store = runtime.store

    @classmethod
    @asynccontextmanager
    async def open(cls, path: Path) -> AsyncIterator["Backend"]:
        """Open the backend on a file. Its watchdog resumes what other processes have left."""
        async with AsyncExitStack() as stack:
            store = await stack.enter_async_context(await SqliteStore.open(path))
            tenants = Tenants(Payments(path.with_suffix(".payments")))
            stack.push_async_callback(tenants.close)
            agents = [Desk(store), Triage()]
            yield cls(await stack.enter_async_context(Runtime(agents, tenants.resources, store=store)))

    # Messages. These routes stream: first the turn's id, then its events with their numbers.

    async def send(
        self, scope: Scope, chat: str, text: str, key: str = "", media: Sequence[Json] = ()
    ) -> AsyncIterator[Json]:
        """Send a message with images and PDFs. A client that got no answer sends it again with the same key."""
        conversation = await self._runtime.conversation(scope, chat, agent="desk")
        files = [Media(file["type"], data=file["data"], name=file.get("name", "")) for file in media]
        turn = await conversation.send(Chat(text, media=files), key=key)
        async for line in self._stream(turn):
            yield line

    async def regenerate(self, scope: Scope, chat: str, turn: str, key: str = "") -> AsyncIterator[Json]:
        """Answer a message again."""
        conversation = await self._conversation(scope, chat)
        async for line in self._stream(await conversation.regenerate(turn, key=key)):
            yield line

    async def edit(self, scope: Scope, chat: str, turn: str, text: str, key: str = "") -> AsyncIterator[Json]:
        """Send another text in place of a message's."""
        conversation = await self._conversation(scope, chat)
        async for line in self._stream(await conversation.edit(turn, text, key=key)):
            yield line

    async def events(self, scope: Scope, chat: str, turn: str, after: int = 0) -> AsyncIterator[Json]:
        """Continue the stream of a turn after event number *after*: for a client that reconnects, to any process."""
        async for line in self._stream(await self._turn(scope, chat, turn), after):
            yield line

    async def _stream(self, turn: ConversationTurn, after: int = 0) -> AsyncIterator[Json]:
        yield {"turn": turn.id}
        async for number, event in turn.events(after):
            if getattr(event, "audience", "answer") == "answer":  # drafts and side questions are not for users
                yield {"number": number, "event": event_json(event)}

    async def stop(self, scope: Scope, chat: str, turn: str) -> None:
        """Stop a turn in whichever process it runs. Its partial text is kept."""
        await (await self._turn(scope, chat, turn)).stop()

    async def triage(self, scope: Scope, text: str) -> Json:
        """Sort a message: an answer with a type, outside any conversation."""
        result = await (await self._runtime.start(Chat(text, scope=scope), "triage")).result()
        if not isinstance(result.output, Ticket):
            raise ConcertinoError(f"the message was not sorted: {result.error}")
        return asdict(result.output)

    # Conversations.

    async def chats(self, scope: Scope) -> Sequence[Json]:
        """List the conversations, the last updated first."""
        return [{"chat": found.id, "title": found.title} for found in await self._runtime.conversations(scope)]

    async def history(self, scope: Scope, chat: str) -> Sequence[Json]:
        """Return the active branch, the oldest turn first."""
        turns = await (await self._conversation(scope, chat)).turns()
        shown = ("run_id", "state", "message", "answer", "error", "siblings")
        return [
            {name: getattr(turn, name) for name in shown} | {"feedback": turn.feedback and asdict(turn.feedback)}
            for turn in reversed(turns)
        ]

    async def branch(self, scope: Scope, chat: str, turn: str) -> None:
        """Let the next message follow *turn*, in a new branch."""
        await (await self._conversation(scope, chat)).branch(turn)

    async def switch(self, scope: Scope, chat: str, turn: str) -> str:
        """Show the branch of *turn*. Return its last turn."""
        return await (await self._conversation(scope, chat)).switch(turn)

    async def title(self, scope: Scope, chat: str) -> str:
        """Return the title. The model writes it, once."""
        return await (await self._conversation(scope, chat)).title()

    async def search(self, scope: Scope, text: str) -> Sequence[Json]:
        """Find turns by their words."""
        return [{"chat": turn.conversation_id, "turn": turn.run_id} for turn in await self._runtime.search(scope, text)]

    async def rate(self, scope: Scope, chat: str, turn: str, rating: Literal["up", "down"], text: str = "") -> None:
        """Store feedback on an answer."""
        await (await self._conversation(scope, chat)).rate(turn, rating, text)

    async def delete(self, scope: Scope, chat: str) -> None:
        """Erase a conversation, with its media."""
        await (await self._conversation(scope, chat)).delete()

    async def _conversation(self, scope: Scope, chat: str) -> Conversation:
        return await self._runtime.conversation(scope, chat)

    async def _turn(self, scope: Scope, chat: str, turn: str) -> ConversationTurn:
        return await (await self._conversation(scope, chat)).turn(turn)

    # Approvals, budgets and the bill. A lead reaches all users of the tenant; a user reads what is the user's own.

    async def waits(self, scope: AnyScope) -> Sequence[Json]:
        """List the calls that wait for an approval."""
        return [
            {"key": wait.key, "tool": wait.tool, "arguments": json.loads(wait.arguments), "note": wait.note}
            for wait in await self._store.waits(scope)
        ]

    async def answer(self, scope: AnyScope, key: str, approve: bool, reason: str = "") -> bool:
        """Approve or deny a call. Return whether this answer counts: the first one does."""
        if approve:
            return (await self._runtime.approve(scope, key)).won
        return (await self._runtime.deny(scope, key, reason)).won

    async def set_budget(self, scope: AnyScope, member: str, dollars: str | None) -> None:
        """Limit what a user may spend."""
        account = Scope(lead(scope).tenant, member)
        await self._store.set_budget(account, None if dollars is None else Budget(money=Decimal(dollars)))

    async def bill(self, scope: AnyScope) -> Sequence[Json]:
        """Return what each user has spent. The cost leaves out *unknown* attempts until they are settled."""
        return [
            {"user": total.by[1], "cost": str(total.cost or 0), "attempts": total.attempts, "unknown": total.unknown}
            | {"prompt": total.tokens.prompt, "completion": total.tokens.completion, "estimated": total.estimated}
            for total in await self._store.usage_sums(scope, ["tenant", "user"])
        ]

    async def unsettled(self, scope: AnyScope, turn: str) -> Sequence[str]:
        """Return the attempts of a turn whose usage the provider did not report: a kill or a stop cut them."""
        return [record.id for record in await self._store.usage(scope, turn) if record.source != "measured"]

    async def settle(self, scope: AnyScope, turn: str, attempt: str, tokens: Sequence[int], dollars: str) -> None:
        """Book an attempt as the provider bills it: the tokens of prompt and completion, and the cost."""
        (found,) = [record for record in await self._store.usage(lead(scope), turn) if record.id == attempt]
        settled = replace(found, tokens=Tokens(*tokens), cost=Decimal(dollars), source="measured")
        await self._runtime.settle_usage(scope, settled)


# -- the program ---------------------------------------------------------------------------------------------------

ROUTES = {name: route for name, route in vars(Backend).items() if not name.startswith("_") and name != "open"}


def session(tenant: str, user: str) -> Scope | TenantScope:
    """Return the scope of a person. A web product reads both from its signed session, never from the request."""
    return TenantScope(tenant, by=user) if user in LEADS else Scope(tenant, user)


def lead(scope: AnyScope) -> TenantScope:
    """Return the scope of a lead. Raises `NotAllowedError` for other people."""
    if isinstance(scope, TenantScope):
        return scope
    raise NotAllowedError("only a lead may do this")


async def serve(backend: Backend, line: str) -> None:
    """Answer one request: lines of a stream, or one result, or an error."""
    id = None
    try:
        request: Json = json.loads(line)
        id = request.pop("id")
        route, scope = ROUTES[request.pop("do")], session(request.pop("tenant"), request.pop("user"))
        answered = route(backend, scope, **request)
        if isinstance(answered, AsyncIterator):
            async for item in answered:
                write(id, item)
            write(id, {"done": True})
        else:
            write(id, {"result": await answered})
    except Exception as error:  # noqa: BLE001 - a request that fails must not end the others
        write(id, {"error": type(error).__name__, "text": str(error)})


def write(id: Any, values: Json) -> None:
    print(json.dumps({"id": id, **values}), flush=True)


async def requests() -> AsyncIterator[str]:
    """Yield the lines of standard input."""
    lines: asyncio.Queue[str] = asyncio.Queue()
    loop = asyncio.get_running_loop()

    def read() -> None:
        for line in sys.stdin:
            loop.call_soon_threadsafe(lines.put_nowait, line)
        loop.call_soon_threadsafe(lines.put_nowait, "")

    threading.Thread(target=read, daemon=True).start()
    while line := await lines.get():
        yield line


async def main(path: Path) -> None:
    async with Backend.open(path) as backend, asyncio.TaskGroup() as tasks:
        async for line in requests():
            tasks.create_task(serve(backend, line))


if __name__ == "__main__":
    if len(sys.argv) == 2:
        asyncio.run(main(Path(sys.argv[1])))
    else:
        print(__doc__)
