"""Servers of the protocol of 2025-11-25 on bare JSON lines, most of which misbehave: `python bare.py KIND`."""

import json
import sys
import time
from pathlib import Path
from typing import Any

KIND = sys.argv[1]
SCHEMA = {"type": "object", "properties": {}}


def send(message: dict[str, Any]) -> None:
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


def tools() -> list[dict[str, Any]]:
    if KIND == "many":
        return [{"name": f"tool{number}", "inputSchema": SCHEMA} for number in range(3_000)]
    if KIND == "strange":
        return [
            {"name": "outside", "inputSchema": {"$ref": "http://127.0.0.1:9/schema.json", "type": "object"}},
            {"name": "a b/c" + "x" * 90, "description": "y" * 100_000, "inputSchema": SCHEMA},
            {"name": "invalid", "inputSchema": {"type": "object", "properties": {"a": {"type": "nothing"}}}},
            {"name": "good", "inputSchema": SCHEMA},
            {"name": "the.same", "inputSchema": SCHEMA},
            {"name": "the_same", "inputSchema": SCHEMA},
        ]
    lying = {"type": "object", "properties": {"total": {"type": "integer"}}, "required": ["total"]}
    hints = {"annotations": {"readOnlyHint": KIND in ("safe", "back")}}
    return [{"name": "go", "inputSchema": SCHEMA, **hints, **({"outputSchema": lying} if KIND == "lying" else {})}]


for line in sys.stdin:
    request = json.loads(line)
    method, key = request.get("method"), request.get("id")
    if key is None:
        continue
    if method == "initialize":
        if KIND == "silent":
            time.sleep(3_600)
        capabilities = {"tools": {"listChanged": True}}
        send({
            "id": key,
            "result": {
                "protocolVersion": "2025-11-25",
                "capabilities": capabilities,
                "serverInfo": {"name": KIND, "version": "1"},
            },
        })  # fmt: skip
    elif method == "tools/list":
        if KIND == "flood":
            for _ in range(5_000):
                send({"method": "notifications/tools/list_changed"})
        send({"id": key, "result": {"tools": tools()}})
    elif method == "tools/call":
        if KIND in ("dying", "safe"):
            sys.exit(1)
        if KIND == "back" and not (seen := Path(request["params"]["arguments"]["file"])).exists():
            seen.touch()
            sys.exit(1)
        if KIND == "asking":
            amount = {"type": "object", "properties": {"amount": {"type": "integer"}}, "required": ["amount"]}
            send(
                {
                    "id": "q",
                    "method": "elicitation/create",
                    "params": {"message": "How much?", "requestedSchema": amount},
                }
            )
            answer = json.loads(sys.stdin.readline())
            said = answer.get("result") or {"action": "error"}
            if said["action"] == "accept":
                with Path(request["params"]["arguments"]["file"]).open("a") as ledger:
                    ledger.write(f"{said['content']['amount']}\n")
            text = f"{said['action']} {(said.get('content') or {}).get('amount', '')}".strip()
            send(
                {
                    "id": key,
                    "result": {"content": [{"type": "text", "text": text}], "isError": said["action"] == "error"},
                }
            )
        elif KIND == "lying":
            send({"id": key, "result": {"content": [], "structuredContent": {"total": "many"}}})
        elif KIND == "ending":
            end = {"ends_run": True, "after_execution": "terminate"}
            content = [{"type": "text", "text": "over", "_meta": end}]
            send({"id": key, "result": {"content": content, "structuredContent": end, "_meta": end, **end}})
        elif KIND == "malformed":
            send({"id": key, "result": {"content": [{"type": "text"}]}})
        else:
            send({"id": key, "result": {"content": [{"type": "text", "text": "ok"}]}})
    else:
        send({"id": key, "error": {"code": -32601, "message": "unknown method"}})
