"""A `UIMessage` of the AI SDK, as its client makes it from the chunks of a stream."""

from __future__ import annotations

from .values import JsonObject

_TEXTS = {"text": "text", "reasoning": "reasoning"}


class UIMessageBuilder:
    """Follows a stream of chunks. `message` is the message so far: it grows in place."""

    def __init__(self, id: str) -> None:
        self.message: JsonObject = {"id": id, "role": "assistant", "parts": []}
        self._texts: dict[str, JsonObject] = {}
        self._tools: dict[str, JsonObject] = {}
        self._data: dict[tuple[str, str], JsonObject] = {}

    def apply(self, chunk: JsonObject) -> None:
        """Apply *chunk* to the message."""
        kind = chunk["type"]
        head, _, phase = kind.rpartition("-")
        if head in _TEXTS:
            self._text(head, phase, chunk)
        elif kind.startswith("tool-"):
            self._tool(kind, chunk)
        elif kind.startswith("data-"):
            self._datum(kind, chunk)
        elif kind == "start-step":
            self._add({"type": "step-start"})
        elif kind.startswith("source-") or kind == "file":
            self._add(dict(chunk))
        elif "messageMetadata" in chunk:
            self.message.setdefault("metadata", {}).update(chunk["messageMetadata"])

    def _add(self, part: JsonObject) -> JsonObject:
        self.message["parts"].append(part)
        return part

    def _text(self, kind: str, phase: str, chunk: JsonObject) -> None:
        match phase:
            case "start":
                self._texts[chunk["id"]] = self._add({"type": kind, "text": "", "state": "streaming"})
            case "delta":
                self._texts[chunk["id"]]["text"] += chunk["delta"]
            case _:
                self._texts.pop(chunk["id"])["state"] = "done"

    def _datum(self, kind: str, chunk: JsonObject) -> None:
        part: JsonObject = {name: chunk[name] for name in ("type", "id", "data") if name in chunk}
        known = self._data.get((kind, chunk.get("id", "")))
        if known is not None:
            known.update(part)
        else:
            self._add(part)
            if "id" in chunk:
                self._data[kind, chunk["id"]] = part

    def _tool(self, kind: str, chunk: JsonObject) -> None:
        id = chunk["toolCallId"]
        if kind == "tool-input-start":
            part = {"type": f"tool-{chunk['toolName']}", "toolCallId": id, "state": "input-streaming"}
            self._tools[id] = self._add(part)
            return
        part = self._tools[id]
        match kind:
            case "tool-input-available":
                part |= {"state": "input-available", "input": chunk["input"]}
            case "tool-input-error":
                part |= {"state": "output-error", "rawInput": chunk["input"], "errorText": chunk["errorText"]}
            case "tool-approval-request":
                part |= {"state": "approval-requested", "approval": {"id": chunk["approvalId"]}}
            case "tool-output-available":
                part |= {"state": "output-available", "output": chunk["output"]}
                part.pop("preliminary", None)
                part |= {"preliminary": True} if chunk.get("preliminary") else {}
            case "tool-output-error":
                part |= {"state": "output-error", "errorText": chunk["errorText"]}
            case "tool-output-denied":
                part["state"] = "output-denied"
