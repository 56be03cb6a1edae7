"""`python login_program.py DATABASE URL KEY`: a run that waits for a login; the process kills itself while it does."""

import asyncio
import os
import signal
import sys
from pathlib import Path

from concertino import Chat, Resources, Runtime, SqliteStore
from concertino.storage import Vault
from concertino.testing import ScriptedModel, call
from concertino.tools.mcp import McpOAuth, McpServer, McpToolbox
from tests.mcp.conftest import ANN, agent


async def main(database: Path, url: str, key: str) -> None:
    store = await SqliteStore.open(database)
    oauth = McpOAuth(Vault(store, [key]), "https://chat.example/mcp/callback")
    async with McpToolbox(McpServer(name="notes", url=url, oauth=oauth)) as box:
        model = ScriptedModel(call("notes_log_in"))
        async with Runtime([agent(box)], Resources(model=model), store=store) as runtime:
            live = await runtime.start(Chat("Go.", scope=ANN), "assistant")
            assert (await live.result()).status == "suspended"
            print(live.id, flush=True)
            os.kill(os.getpid(), signal.SIGKILL)


asyncio.run(main(Path(sys.argv[1]), sys.argv[2], sys.argv[3]))
