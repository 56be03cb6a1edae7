"""A server that hangs, lies, floods or dies harms only its own calls."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from concertino.errors import ConcertinoError
from concertino.messages import ToolMessage
from concertino.testing import call
from concertino.tools.mcp import McpServer, McpToolbox

from .conftest import ANN, bare, friendly, run

Open = Callable[..., McpToolbox]
pytestmark = pytest.mark.slow  # each test starts servers


async def test_servers_that_cannot_be_reached_are_reported_and_the_others_work(
    opened: Open, reports: list[str]
) -> None:
    silent = bare("silent", connect_seconds=1)
    absent = McpServer(name="absent", command=["no-such-program"])
    refused = McpServer(name="refused", url="http://127.0.0.1:9/mcp")
    async with opened(silent, absent, refused, friendly()) as box:
        result = await run(box, call("own_add", a=1, b=2), "Done.")
    assert result.data["own.add"] == {"total": 3}
    assert {"silent", "absent", "refused"} == set(box.problems)
    assert len(reports) == 3
    assert any("within 1 s" in report for report in reports)
    assert any("'absent' cannot be reached: FileNotFoundError" in report for report in reports)


async def test_tools_that_cannot_be_used_are_reported_and_left_out(opened: Open, reports: list[str]) -> None:
    async with opened(bare("strange")) as box:
        names = [tool.name for tool in box.tools]
        assert all(len(tool.description) <= 8_000 for tool in box.tools)
        result = await run(box, call("strange_good"), "Done.")
    assert names[1:] == ["strange.good", "strange.the.same"]
    assert len(names[0]) <= 64
    assert names[0].startswith("strange.a_b_c")
    assert [report.split("'")[3] for report in reports] == ["strange.outside", "strange.invalid", "strange.the_same"]
    assert result.messages[2].content == "ok"


async def test_a_server_offers_two_thousand_tools_at_most(opened: Open) -> None:
    async with opened(bare("many")) as box:
        assert len(box.tools) == 2_000


async def test_a_flood_of_changes_is_one_listing(opened: Open) -> None:
    async with opened(bare("flood")) as box:
        result = await run(box, call("flood_go"), "Done.")
    assert result.messages[2].content == "ok"


async def test_a_server_cannot_end_the_run(opened: Open) -> None:
    async with opened(bare("ending")) as box:
        result = await run(box, call("ending_go"), "Done.")
    assert result.messages[2].content == "over"
    assert result.text == "Done."


@pytest.mark.parametrize("kind", ["lying", "malformed"])
async def test_an_invalid_result_is_an_error_that_the_model_reads(opened: Open, kind: str) -> None:
    async with opened(bare(kind)) as box:
        result = await run(box, call(f"{kind}_go"), "Done.")
    message = result.messages[2]
    assert isinstance(message, ToolMessage)
    assert message.is_error
    assert "invalid result" in message.content


@pytest.mark.parametrize(("kind", "text"), [("dying", "whether the call took effect is unknown"), ("safe", "closed")])
async def test_a_server_that_dies_in_a_call_leaves_the_effect_open(opened: Open, kind: str, text: str) -> None:
    async with opened(bare(kind), friendly()) as box:
        result = await run(box, [call(f"{kind}_go"), call("own_add", a=1, b=2)], call(f"{kind}_go"), "Done.")
    assert text in result.messages[2].content
    assert result.data["own.add"] == {"total": 3}
    assert result.status == "completed"


async def test_a_call_that_hangs_ends_at_its_time_limit(opened: Open, tmp_path: object) -> None:
    async with opened(friendly(timeout=2.5)) as box:
        turn = [call("own_wait", file=f"{tmp_path}/note"), call("own_add", a=1, b=2)]
        result = await run(box, turn, call("own_add", a=2, b=2), "Done.")
    assert "2.5" in result.messages[2].content
    assert result.data["own.add"] == {"total": 4}


async def test_all_calls_that_wait_for_a_connection_get_an_error(opened: Open) -> None:
    async with opened() as box:
        silent = box.connection(bare("silent", connect_seconds=1), ANN)
        found = await asyncio.gather(*[silent.client() for _ in range(3)], return_exceptions=True)
        assert [type(each).__name__ for each in found] == ["McpConnectionError"] * 3
    async with opened() as box:
        silent = box.connection(bare("silent"), ANN)
        waiting = asyncio.ensure_future(silent.client())
        await asyncio.sleep(0)
        await silent.close()
        with pytest.raises(ConcertinoError, match="was closed"):
            await waiting


async def test_a_call_that_may_be_repeated_is_sent_to_the_server_that_comes_back(opened: Open, tmp_path: Path) -> None:
    async with opened(bare("back")) as box:
        result = await run(box, [call("back_go", file=str(tmp_path / "seen"))] * 3, "Done.")
    assert [message.content for message in result.messages[2:5]] == ["ok"] * 3  # type: ignore[union-attr]
