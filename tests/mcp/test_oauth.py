"""Logins of users to a server that wants them: the wait, the tokens, and what hostile people and servers try."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import httpx2
import pytest
from cryptography.fernet import Fernet
from mcp.shared.auth import OAuthClientInformationFull
from pydantic import AnyUrl
from starlette.responses import JSONResponse

from concertino import AgentConfig, Chat, MemoryStore, Resources, Runtime, Scope, SqliteStore, ToolContext, tool
from concertino.agents import ASK_PERSON, ask_person
from concertino.errors import RunEndedError
from concertino.storage import Vault
from concertino.testing import ScriptedModel, call
from concertino.tools.mcp import McpOAuth, McpServer, McpToolbox, OAuthClient
from concertino.waits import Wait

from .conftest import ANN, agent
from .guarded import GuardedServer, browse, serving
from .test_servers import results

BOB = Scope("acme", "bob")
CALLBACK = "https://chat.example/mcp/callback"
KEY = Fernet.generate_key()


@pytest.fixture
async def guarded() -> AsyncIterator[GuardedServer]:
    async with serving() as server:
        yield server


@tool(effect="idempotent")
async def wonder(context: ToolContext) -> str:
    """Ask."""
    return str(await ask_person(context, "Why?"))


class Wonders(AgentConfig[None]):
    name = "wonders"
    tools = (wonder,)


class Product:
    """A product with one agent, whose tools are those of a guarded server."""

    def __init__(self, guarded: GuardedServer, store: SqliteStore | MemoryStore, model: ScriptedModel) -> None:
        self.store = store
        self.oauth = McpOAuth(Vault(store, [KEY]), CALLBACK)
        self.server = McpServer(name="notes", url=guarded.url, oauth=self.oauth)
        self.toolbox = McpToolbox(self.server)
        self.runtime = Runtime([agent(self.toolbox), Wonders()], Resources(model=model), store=store)

    async def start(self, scope: Scope = ANN) -> str:
        """Start a run until it waits."""
        live = await self.runtime.start(Chat("Go.", scope=scope), "assistant")
        assert (await live.result()).status == "suspended"
        return live.id

    async def wait(self, scope: Scope = ANN) -> Wait:
        """Return the only wait."""
        (wait,) = await self.store.waits(scope, open=True)
        return wait

    async def url(self, scope: Scope = ANN) -> str:
        """Return the address in the only wait."""
        found: str = json.loads((await self.wait(scope)).arguments)["url"]
        return found

    async def log_in(self, scope: Scope = ANN) -> None:
        """Log in, without a run."""
        answer = await browse(await self.oauth.begin(self.server, scope))
        assert (await self.oauth.finish(self.runtime, scope, answer)).accepted

    async def end(self, run_id: str, scope: Scope = ANN) -> Any:
        """Return the result of a run that has its answers."""
        with suppress(RunEndedError):  # the runtime has continued it
            await self.runtime.resume(scope, run_id)
        return await self.runtime.result(scope, run_id)


@asynccontextmanager
async def product(guarded: GuardedServer, *script: Any, store: SqliteStore | None = None) -> AsyncIterator[Product]:
    with ScriptedModel(*script) as model:
        made = Product(guarded, MemoryStore() if store is None else store, model)
        async with made.toolbox, made.runtime:
            yield made


NOTE = call("notes_note", text="hello")


async def test_a_user_logs_in_and_uses_the_tools_in_one_run(guarded: GuardedServer) -> None:
    async with product(guarded, call("notes_log_in"), NOTE, "Done.") as shop:
        run = await shop.start()
        wait = await shop.wait()
        asked = json.loads(wait.arguments)
        assert (wait.tool, asked["login"], asked["message"]) == (ASK_PERSON, "notes", "Log in to notes to continue.")
        outcome = await shop.oauth.finish(shop.runtime, ANN, await browse(asked["url"]))
        result = await shop.end(run)
    assert (outcome.server, outcome.accepted) == ("notes", True)
    assert results(result.messages) == [
        "The user has logged in. Tools of notes:\nnotes_note: Write a note.",
        "hello by Ann",
    ]
    assert guarded.accounts.resources == [guarded.url]


async def test_the_tools_of_a_user_are_there_from_the_start_and_those_of_others_are_not(guarded: GuardedServer) -> None:
    async with product(guarded, NOTE, "Done.", NOTE, "Done.") as shop:
        await shop.log_in()
        of_ann = await (await shop.runtime.start(Chat("Go.", scope=ANN), "assistant")).result()
        of_bob = await (await shop.runtime.start(Chat("Go.", scope=BOB), "assistant")).result()
    assert results(of_ann.messages) == ["hello by Ann"]
    assert "there is no tool of this name" in results(of_bob.messages)[0]
    assert guarded.calls == ["Ann"]


async def test_one_login_answers_all_runs_of_the_user_that_wait_for_it(guarded: GuardedServer) -> None:
    steps = [call("notes_log_in")] * 3 + ["Done."] * 2
    async with product(guarded, *steps) as shop:
        runs = [await shop.start(), await shop.start()]
        other = await shop.start(BOB)
        urls = {json.loads(wait.arguments)["url"] for wait in await shop.store.waits(ANN, open=True)}
        assert len(urls) == 1
        await shop.oauth.finish(shop.runtime, ANN, await browse(urls.pop()))
        assert [(await shop.end(run)).status for run in runs] == ["completed", "completed"]
        assert (await shop.wait(BOB)).root_id == other
    assert len(guarded.accounts.clients) == 1, "the tenant has one client"


async def test_a_login_answers_no_other_question(guarded: GuardedServer) -> None:
    async with product(guarded, call("wonder")) as shop:
        live = await shop.runtime.start(Chat("Go.", scope=ANN), "wonders")
        assert (await live.result()).status == "suspended"
        await shop.log_in()
        assert json.loads((await shop.wait()).arguments)["message"] == "Why?"


async def test_a_login_that_is_denied_is_an_error_of_the_call(guarded: GuardedServer) -> None:
    guarded.accounts.denies = True
    async with product(guarded, call("notes_log_in"), "Never mind.") as shop:
        run = await shop.start()
        outcome = await shop.oauth.finish(shop.runtime, ANN, await browse(await shop.url()))
        result = await shop.end(run)
        assert not await shop.oauth.is_logged_in(shop.server, ANN)
    assert not outcome.accepted
    assert (result.status, result.text) == ("completed", "Never mind.")
    assert results(result.messages) == ["the user has not logged in to notes"]


# -- tokens ------------------------------------------------------------------------------------------------------------


async def test_a_token_that_expires_in_the_course_of_a_run_is_refreshed(guarded: GuardedServer) -> None:
    async with product(guarded, NOTE, NOTE, "Done.") as shop:
        await shop.log_in()
        await shop.toolbox.tools_of(ANN)
        guarded.accounts.expire()  # earlier than it had said
        live = await shop.runtime.start(Chat("Go.", scope=ANN), "assistant")
        result = await live.result()
    assert results(result.messages) == ["hello by Ann"] * 2
    assert guarded.accounts.refreshed == 1


@pytest.mark.slow
async def test_a_token_is_refreshed_before_it_expires(guarded: GuardedServer) -> None:
    guarded.accounts.expires_in = 10
    async with product(guarded, NOTE, "Done.") as shop:
        await shop.log_in()
        guarded.accounts.expires_in = 3600
        live = await shop.runtime.start(Chat("Go.", scope=ANN), "assistant")
        assert results((await live.result()).messages) == ["hello by Ann"]
    assert guarded.accounts.refreshed == 1


async def test_of_several_processes_one_refreshes(guarded: GuardedServer, tmp_path: Path) -> None:
    async with product(guarded) as shop, await SqliteStore.open(tmp_path / "a.db") as store:
        others = [McpOAuth(Vault(store, [KEY]), CALLBACK) for _ in range(4)]
        answer = await browse(await others[0].begin(shop.server, ANN))
        await others[0].finish(shop.runtime, ANN, answer)
        guarded.accounts.expire()
        guarded.accounts.refreshes = asyncio.Event()
        sent = [asyncio.create_task(fetch(each, shop.server)) for each in others]
        while not guarded.accounts.refreshed:  # noqa: ASYNC110 - the server has no event for it
            await asyncio.sleep(0.01)
        guarded.accounts.refreshes.set()
        assert await asyncio.gather(*sent) == [406] * 4, "authorized; the server wants another kind of request"
    assert guarded.accounts.refreshed == 1


async def fetch(oauth: McpOAuth, server: McpServer) -> int:
    """Return the status of a bare request of Ann."""
    async with httpx2.AsyncClient(auth=oauth.auth(server, ANN), trust_env=False) as client:
        return (await client.post(server.url, json={}, headers={"Accept": "text/plain"})).status_code


async def test_a_refresh_token_that_a_crash_has_lost_leads_to_another_login(
    guarded: GuardedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("concertino.tools.mcp.oauth.grants._CLAIM_SECONDS", 0.2)
    async with product(guarded, NOTE, "Done.") as shop:
        await shop.log_in()
        await shop.toolbox.tools_of(ANN)
        guarded.accounts.expire()
        guarded.accounts.refreshes = asyncio.Event()
        process = asyncio.create_task(fetch(shop.oauth, shop.server))
        while not guarded.accounts.refreshed:  # noqa: ASYNC110 - the server has no event for it
            await asyncio.sleep(0.01)
        process.cancel()  # the server has replaced the refresh token, and nobody has stored the new one
        guarded.accounts.refreshes.set()
        guarded.accounts.expire()
        run = await shop.start()
        await shop.oauth.finish(shop.runtime, ANN, await browse(await shop.url()))
        assert results((await shop.end(run)).messages) == ["hello by Ann"]
    assert guarded.accounts.refreshed == 1


@pytest.mark.slow
async def test_a_server_that_cannot_refresh_now_costs_the_call_and_not_the_login(guarded: GuardedServer) -> None:
    async with product(guarded, NOTE, NOTE, "Done.") as shop:
        await shop.log_in()
        await shop.toolbox.tools_of(ANN)
        guarded.accounts.expire()
        guarded.replaced["/token"] = JSONResponse({"error": "temporarily_unavailable"}, 503)
        live = await shop.runtime.start(Chat("Go.", scope=ANN), "assistant")
        failed = await live.result()
        assert await shop.oauth.is_logged_in(shop.server, ANN)
        del guarded.replaced["/token"]
        assert await fetch(shop.oauth, shop.server) == 406
    assert "temporarily_unavailable" in results(failed.messages)[0]


async def test_a_revoked_token_leads_to_another_login(guarded: GuardedServer) -> None:
    async with product(guarded, NOTE, "Done.") as shop:
        await shop.log_in()
        await shop.toolbox.tools_of(ANN)
        guarded.accounts.revoke_all()
        run = await shop.start()
        assert not await shop.oauth.is_logged_in(shop.server, ANN), "the dead tokens are erased"
        await shop.oauth.finish(shop.runtime, ANN, await browse(await shop.url()))
        assert results((await shop.end(run)).messages) == ["hello by Ann"]
    assert guarded.calls == ["Ann"], "the call that was refused had no effect, and was repeated once"


@pytest.mark.slow
async def test_a_server_that_asks_for_more_scopes_gets_a_login_with_all_of_them(guarded: GuardedServer) -> None:
    async with product(guarded, NOTE, "Done.") as shop:
        await shop.log_in()
        await shop.toolbox.tools_of(ANN)
        for token in guarded.accounts.access.values():
            token.scopes = []
        run = await shop.start()
        url = await shop.url()
        await shop.oauth.finish(shop.runtime, ANN, await browse(url))
        assert results((await shop.end(run)).messages) == ["hello by Ann"]
    assert "notes" in dict(parse_qsl(urlsplit(url).query))["scope"].split()


async def test_a_user_logs_out(guarded: GuardedServer) -> None:
    async with product(guarded) as shop:
        await shop.log_in()
        assert await shop.oauth.log_out(shop.server, ANN)
        assert not guarded.accounts.refresh, "they are revoked on the server"
        assert not await shop.oauth.is_logged_in(shop.server, ANN)
        assert not await shop.oauth.log_out(shop.server, ANN)
        await shop.log_in()
        guarded.replaced["/revoke"] = JSONResponse({}, 503)
        assert not await shop.oauth.log_out(shop.server, ANN)
        assert not await shop.oauth.is_logged_in(shop.server, ANN), "they are erased in any case"


async def test_the_tokens_of_an_erased_user_are_gone(guarded: GuardedServer) -> None:
    async with product(guarded) as shop:
        await shop.log_in()
        await shop.store.erase(ANN)
        assert not await shop.oauth.is_logged_in(shop.server, ANN)


def everything_in(folder: Path) -> str:
    return "".join(each.read_bytes().decode("latin-1") for each in folder.iterdir())


async def test_tokens_are_nowhere_in_plain_text(
    guarded: GuardedServer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    path = tmp_path / "a.db"
    async with (
        await SqliteStore.open(path) as store,
        product(guarded, call("notes_log_in"), NOTE, "Done.", store=store) as shop,
    ):
        run = await shop.start()
        await shop.oauth.finish(shop.runtime, ANN, await browse(await shop.url()))
        await shop.end(run)
        seen = [caplog.text, str([item async for item in shop.runtime.events(ANN, run)]), repr(vars(shop.oauth))]
    stored = everything_in(tmp_path)
    assert "hello by Ann" in stored
    for token in (*guarded.accounts.access, *guarded.accounts.refresh):
        assert token not in stored
        assert not any(token in text for text in seen)


@pytest.mark.slow
async def test_keys_are_replaced_and_a_lost_key_costs_a_login(guarded: GuardedServer) -> None:
    newer = Fernet.generate_key()
    async with product(guarded) as shop:
        await shop.log_in()
        both = McpOAuth(Vault(shop.store, [newer, KEY]), CALLBACK)
        assert await both.is_logged_in(shop.server, ANN)
        guarded.accounts.expire()
        assert await fetch(both, shop.server) == 406  # the refresh has stored them with the newer key
        only = McpOAuth(Vault(shop.store, [newer]), CALLBACK)
        assert await only.is_logged_in(shop.server, ANN)
        assert not await shop.oauth.is_logged_in(shop.server, ANN)
        await shop.log_in()
        assert await shop.oauth.is_logged_in(shop.server, ANN)


@pytest.mark.slow
async def test_a_client_that_was_registered_by_hand(guarded: GuardedServer) -> None:
    issuer = guarded.url.removesuffix("/mcp")
    known = OAuthClientInformationFull(
        client_id="own",
        client_secret="hidden",
        token_endpoint_auth_method="client_secret_post",
        redirect_uris=[AnyUrl(CALLBACK)],
        scope="notes more",
    )
    guarded.accounts.clients["own"] = known
    async with product(guarded) as shop:
        client = OAuthClient(issuer=issuer, client_id="own", client_secret="hidden")
        oauth = McpOAuth(Vault(shop.store, [KEY]), CALLBACK, clients=[client])
        answer = await browse(await oauth.begin(shop.server, ANN))
        assert (await oauth.finish(shop.runtime, ANN, answer)).accepted
        guarded.accounts.expire()
        assert await fetch(oauth, shop.server) == 406
        assert await oauth.log_out(shop.server, ANN)
    assert list(guarded.accounts.clients) == ["own"]
    assert "hidden" not in repr(client)


async def test_a_call_that_waits_still_waits_in_another_process_without_tokens(
    guarded: GuardedServer, tmp_path: Path
) -> None:
    async with await SqliteStore.open(tmp_path / "a.db") as store:
        run, wait = await waiting_call(guarded, store)
        async with product(guarded, NOTE, "Done.", store=store) as shop:
            await shop.runtime.resolve(ANN, wait.key, "")  # a client claims that the user has logged in
            while not (waits := await store.waits(ANN, open=True)):
                assert (await shop.runtime.result(ANN, run)).status == "suspended"
                await asyncio.sleep(0.01)
            await shop.oauth.finish(shop.runtime, ANN, await browse(json.loads(waits[0].arguments)["url"]))
            result = await shop.end(run)
    assert results(result.messages) == ["hello by Ann"] * 2
    assert guarded.calls == ["Ann"] * 2


async def test_a_call_that_waits_hears_that_its_server_has_failed(guarded: GuardedServer, tmp_path: Path) -> None:
    async with await SqliteStore.open(tmp_path / "a.db") as store:
        run, _ = await waiting_call(guarded, store)
        async with product(guarded, "Done.", store=store) as shop:
            answer = await browse(await shop.url())
            guarded.replaced["/mcp"] = JSONResponse({}, 503)
            await shop.oauth.finish(shop.runtime, ANN, answer)
            result = await shop.end(run)
    assert "notes: its tools cannot be listed" in results(result.messages)[0]


async def waiting_call(guarded: GuardedServer, store: SqliteStore) -> tuple[str, Wait]:
    """Return a run with a call that waits for a login, because the tokens were revoked; its process has ended."""
    async with product(guarded, NOTE, store=store) as shop:
        await shop.log_in()
        await shop.toolbox.tools_of(ANN)
        guarded.accounts.revoke_all()
        return await shop.start(), await shop.wait()


# -- crashes -----------------------------------------------------------------------------------------------------------


async def test_a_process_that_dies_before_it_answers_the_runs_is_followed_by_another(guarded: GuardedServer) -> None:
    class Dies:
        store = property(lambda self: shop.store)

        async def resolve(self, *args: Any, **settings: Any) -> None:
            raise KeyboardInterrupt

    async with product(guarded, call("notes_log_in"), "Done.") as shop:
        run = await shop.start()
        answer = await browse(await shop.url())
        with pytest.raises(KeyboardInterrupt):
            await shop.oauth.finish(Dies(), ANN, answer)
        await shop.oauth.finish(shop.runtime, ANN, answer)  # the browser loads the page again
        assert (await shop.end(run)).status == "completed"


@pytest.mark.slow
async def test_a_wait_for_a_login_survives_a_kill_and_is_answered_elsewhere(
    guarded: GuardedServer, tmp_path: Path
) -> None:
    path = tmp_path / "runs.db"
    process = await asyncio.create_subprocess_exec(
        *[sys.executable, "-m", "tests.mcp.login_program", str(path), guarded.url, KEY.decode()],
        cwd=Path(__file__).parents[2],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(["src", *sys.path])},
        stdout=subprocess.PIPE,
    )
    printed, _ = await process.communicate()
    assert process.returncode == -signal.SIGKILL
    async with (
        await SqliteStore.open(path) as store,
        product(guarded, NOTE, "Done.", store=store) as shop,
    ):
        await shop.oauth.finish(shop.runtime, ANN, await browse(await shop.url()))
        result = await shop.end(printed.decode().strip())
    assert results(result.messages)[1:] == ["hello by Ann"]
