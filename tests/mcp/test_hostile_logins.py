"""What hostile people and servers try with a login."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

import httpx2
import pytest
from starlette.responses import JSONResponse, RedirectResponse, Response

from concertino import Chat, MemoryStore, Scope
from concertino.errors import ConfigurationError
from concertino.server import create_app, login_routes
from concertino.storage import Vault
from concertino.testing import call
from concertino.tools.mcp import LoginError, McpOAuth, McpServer
from tests.server.kit import User, authenticate

from .conftest import ANN
from .guarded import GuardedServer, browse, serving
from .test_oauth import BOB, CALLBACK, KEY, fetch, product


@pytest.fixture
async def guarded() -> AsyncIterator[GuardedServer]:
    async with serving() as server:
        yield server


# -- the way back ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "change",
    [
        lambda query: query | {"state": query["state"][:-1]},
        lambda query: query | {"state": "notes."},
        lambda query: {"code": query["code"]},
        lambda query: query | {"iss": "https://evil.example"},
        lambda query: query | {"code": "guessed"},
        lambda query: {"state": query["state"], "error": "server_error"},
        lambda query: {"state": query["state"]},
    ],
)
async def test_an_answer_that_was_changed_is_refused(
    guarded: GuardedServer, change: Callable[[dict[str, str]], dict[str, str]]
) -> None:
    async with product(guarded, call("notes_log_in")) as shop:
        await shop.start()
        address, _, query = (await browse(await shop.url())).partition("?")
        changed = f"{address}?{urlencode(change(dict(parse_qsl(query))))}"
        with pytest.raises(LoginError):
            await shop.oauth.finish(shop.runtime, ANN, changed)
        assert not await shop.oauth.is_logged_in(shop.server, ANN)
        await shop.wait()  # it is still open


async def test_nobody_completes_the_login_of_another_user(guarded: GuardedServer) -> None:
    async with product(guarded, *[call("notes_log_in")] * 2) as shop:
        await shop.start()
        await shop.start(BOB)
        answer = await browse(await shop.url())
        for stranger in (BOB, Scope("globex", "ann"), Scope("acme"), Scope()):
            with pytest.raises(LoginError, match="no login of yours"):
                await shop.oauth.finish(shop.runtime, stranger, answer)
        await shop.wait()
        await shop.wait(BOB)
        assert not guarded.accounts.access


async def test_the_code_of_another_server_is_refused(guarded: GuardedServer) -> None:
    """A hostile server sends its user on to an honest one, with the state of its own login, to get that one's code."""
    async with serving() as honest, product(guarded) as shop:
        login = await shop.oauth.begin(shop.server, ANN)
        other = await shop.oauth.begin(McpServer(name="other", url=honest.url, oauth=shop.oauth), ANN)
        state = dict(parse_qsl(urlsplit(login).query))["state"]
        address, _, query = (await browse(other)).partition("?")
        forged = urlencode({key: value for key, value in parse_qsl(query) if key != "iss"} | {"state": state})
        with pytest.raises(LoginError, match="another authorization server"):
            await shop.oauth.finish(shop.runtime, ANN, f"{address}?{forged}")
        assert not guarded.accounts.access


@pytest.mark.parametrize("names_itself", [True, False])
async def test_a_metadata_document_needs_answers_that_name_their_server(
    guarded: GuardedServer, names_itself: bool
) -> None:
    """Its redirect address is that of other servers, too."""
    document, address = "https://chat.example/client.json", guarded.url.removesuffix("/mcp") + METADATA
    async with httpx2.AsyncClient(trust_env=False) as client:
        metadata = (await client.get(address)).json()
    metadata["client_id_metadata_document_supported"] = True
    metadata["authorization_response_iss_parameter_supported"] = names_itself
    guarded.replaced[METADATA] = JSONResponse(metadata)
    async with product(guarded) as shop:
        oauth = McpOAuth(Vault(shop.store, [KEY]), CALLBACK, client_metadata_url=document)
        query = dict(parse_qsl(urlsplit(await oauth.begin(shop.server, ANN)).query))
    assert (query["client_id"] == document, query["redirect_uri"] == CALLBACK) == (names_itself, names_itself)
    assert query["redirect_uri"].startswith(CALLBACK)


async def test_a_login_is_complete_once(guarded: GuardedServer) -> None:
    async with product(guarded) as shop:
        answer = await browse(await shop.oauth.begin(shop.server, ANN))
        await shop.oauth.finish(shop.runtime, ANN, answer)
        with pytest.raises(LoginError, match="it is complete"):
            await shop.oauth.finish(shop.runtime, ANN, answer)


async def test_the_route_of_the_server_completes_the_logins_of_its_own_user(guarded: GuardedServer) -> None:
    async with product(guarded, call("notes_log_in"), "Done.") as shop:
        app = create_app(shop.runtime, authenticate, routes={"/mcp": login_routes(shop.oauth)})
        run = await shop.start()
        path = (await browse(await shop.url())).removeprefix("https://chat.example")
        await User(app, "")("GET", path, 401)
        refused = await User(app, "acme/bob")("GET", path, 400)
        assert "no login of yours" in refused.text
        page = await User(app)("GET", path, 200)
        assert "You have logged in to notes." in page.text
        assert (await shop.end(run)).status == "completed"
        marked = await User(app)("GET", "/mcp/callback", 400, params={"state": "<script>.1"})
        assert "<script>" not in marked.text


# -- what servers state ------------------------------------------------------------------------------------------------

RESOURCE, METADATA = "/.well-known/oauth-protected-resource/mcp", "/.well-known/oauth-authorization-server"
EVIL = "http://10.0.0.1/x"


def resource(guarded: GuardedServer, **changes: Any) -> dict[str, Any]:
    return {"resource": guarded.url, "authorization_servers": [guarded.url.removesuffix("mcp")], **changes}


def metadata(guarded: GuardedServer, **changes: Any) -> dict[str, Any]:
    base = guarded.url.removesuffix("/mcp")
    return {
        "issuer": f"{base}/",
        "authorization_endpoint": f"{base}/authorize",
        "token_endpoint": f"{base}/token",
        "registration_endpoint": f"{base}/register",
        "response_types_supported": ["code"],
        "code_challenge_methods_supported": ["S256"],
        **changes,
    }


@pytest.mark.slow
@pytest.mark.parametrize(
    ("path", "make", "problem"),
    [
        (RESOURCE, lambda of: resource(of, resource="https://other.example/mcp"), "those of another server"),
        (RESOURCE, lambda of: resource(of, authorization_servers=["http://169.254.169.254/"]), "only https"),
        (RESOURCE, lambda of: Response(status_code=500), "status 500"),
        (METADATA, lambda of: metadata(of, issuer="https://other.example/"), "another issuer"),
        (METADATA, lambda of: metadata(of, code_challenge_methods_supported=["plain"]), "PKCE"),
        (METADATA, lambda of: metadata(of, code_challenge_methods_supported=None), "PKCE"),
        (METADATA, lambda of: metadata(of, authorization_endpoint=EVIL), "only https"),
        (METADATA, lambda of: metadata(of, token_endpoint=EVIL), "only https"),
        (METADATA, lambda of: metadata(of, registration_endpoint=EVIL), "only https"),
        (METADATA, lambda of: metadata(of, revocation_endpoint=EVIL), "only https"),
        (
            METADATA,
            lambda of: metadata(of, authorization_endpoint=f"https://login.example/{'x' * 9_000}"),
            "more than 8,000",
        ),
        (
            METADATA,
            lambda of: metadata(of, authorization_endpoint=f"https://login.example/{'x' * 7_900}"),
            "more than 8,000",
        ),
        (METADATA, lambda of: metadata(of, registration_endpoint=None), "registers no clients"),
        (METADATA, lambda of: RedirectResponse("http://127.0.0.1:1/"), "publishes no metadata"),
        (METADATA, lambda of: Response("{" + " " * 600_000), "more than 500,000 bytes"),
        ("/register", lambda of: Response("<b>secret</b>", 400), "refuses to register"),
    ],
)
async def test_metadata_that_cannot_be_trusted_are_an_error_of_the_call(
    guarded: GuardedServer, path: str, make: Callable[[GuardedServer], Any], problem: str
) -> None:
    guarded.replaced[path] = make(guarded)
    async with product(guarded) as shop:
        with pytest.raises(LoginError, match=problem) as raised:
            await shop.oauth.begin(shop.server, ANN)
    assert "secret" not in str(raised.value)


async def test_tokens_in_a_wrong_form_are_not_shown(guarded: GuardedServer) -> None:
    guarded.replaced["/token"] = {"access_token": "access-1", "expires_in": "never"}
    async with product(guarded) as shop:
        answer = await browse(await shop.oauth.begin(shop.server, ANN))
        with pytest.raises(LoginError, match="invalid tokens") as raised:
            await shop.oauth.finish(shop.runtime, ANN, answer)
    assert "access-1" not in str(raised.value)


async def test_tokens_go_to_the_server_that_they_are_for(guarded: GuardedServer) -> None:
    async with product(guarded) as shop:
        await shop.log_in()
        moved = McpServer(name="notes", url="https://other.example/mcp", oauth=shop.oauth)
        assert not await shop.oauth.is_logged_in(moved, ANN)
        assert await shop.oauth.is_logged_in(shop.server, ANN)


async def test_a_row_that_was_copied_to_another_user_is_not_opened(guarded: GuardedServer) -> None:
    async with product(guarded) as shop:
        await shop.log_in()
        stolen = await shop.store.secret(ANN, "mcp.grant.notes")
        assert stolen is not None
        await shop.store.put_secret(BOB, "mcp.grant.notes", stolen[0], version=None)
        assert not await shop.oauth.is_logged_in(shop.server, BOB)


@pytest.mark.slow
async def test_a_client_of_an_authorization_server_that_has_forgotten_it_is_replaced(guarded: GuardedServer) -> None:
    async with product(guarded) as shop:
        answer = await browse(await shop.oauth.begin(shop.server, ANN))
        forgotten = list(guarded.accounts.clients)
        guarded.accounts.clients.clear()
        with pytest.raises(LoginError):
            await shop.oauth.finish(shop.runtime, ANN, answer)
        await shop.log_in()
        again = list(guarded.accounts.clients)
        assert again != forgotten
        guarded.accounts.clients.clear()
        guarded.accounts.expire()
        assert await fetch(shop.oauth, shop.server) == 401  # the refresh has found out
        await shop.log_in()
    assert list(guarded.accounts.clients) != again


class Hangs:
    """An ASGI application that does not answer until it is *released*."""

    def __init__(self) -> None:
        self.released = asyncio.Event()
        self.requests = 0

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self.requests += 1
        await self.released.wait()
        await JSONResponse({}, 503)(scope, receive, send)


async def test_a_server_that_hangs_delays_one_start_of_a_run_and_a_little(
    guarded: GuardedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("concertino.tools.mcp.user_tools._PATIENCE", 0.1)
    guarded.replaced["/mcp"] = hangs = Hangs()
    async with product(guarded, "Hello.", "Hello.") as shop:
        await shop.log_in()
        for _ in range(2):
            live = await shop.runtime.start(Chat("Hi.", scope=ANN), "assistant")
            assert (await live.result()).text == "Hello."
            assert not hangs.released.is_set()
        while not hangs.requests:  # noqa: ASYNC110 - the server has no event for it
            await asyncio.sleep(0.01)
        assert hangs.requests == 1, "the second run has not asked again"


async def test_the_tools_known_from_before_serve_while_a_server_fails(guarded: GuardedServer) -> None:
    async with product(guarded) as shop:
        await shop.log_in()
        before = await shop.toolbox.tools_of(ANN)
        assert [each.name for each in before] == ["notes.note"]
        await shop.toolbox.refresh()
        guarded.replaced["/mcp"] = JSONResponse({}, 503)
        assert await shop.toolbox.tools_of(ANN) == before


# -- settings ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("keys", [[], KEY, ["short"]], ids=["none", "text", "short"])
async def test_an_invalid_key_is_named(keys: Any) -> None:
    async with MemoryStore() as store:
        with pytest.raises(ConfigurationError, match=r"Vault\(keys=...\): .*Fernet.generate_key"):
            Vault(store, keys)


@pytest.mark.parametrize("setting", ["redirect_uri", "client_metadata_url"])
async def test_an_address_without_tls_is_refused(setting: str) -> None:
    async with MemoryStore() as store:
        settings: dict[str, Any] = {"redirect_uri": CALLBACK, setting: "http://chat.example/"}
        with pytest.raises(ConfigurationError, match=f"{setting}='http://chat.example/'.: use an https address"):
            McpOAuth(Vault(store, [KEY]), **settings)


async def test_tokens_are_not_sent_in_the_open() -> None:
    async with MemoryStore() as store:
        oauth = McpOAuth(Vault(store, [KEY]), CALLBACK)
        with pytest.raises(ConfigurationError, match="because oauth sends tokens"):
            McpServer(name="notes", url="http://notes.example/mcp", oauth=oauth)
        with pytest.raises(ConfigurationError, match="either auth or oauth"):
            McpServer(name="notes", url="https://notes.example/mcp", oauth=oauth, auth=lambda scope: httpx2.Auth())
        with pytest.raises(ConfigurationError, match="no headers and no auth"):
            McpServer(name="notes", command=["notes"], oauth=oauth)
