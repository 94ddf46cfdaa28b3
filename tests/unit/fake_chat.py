"""How the fake engine answers a chat, whole or streamed."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from fake_engine import FakeEngine
from fake_faults import Fault
from fake_requests import Malformed, at_least_zero, fits, require

if TYPE_CHECKING:
    from fake_engine_http import Handler

EVENTS = "text/event-stream"


def chat(handler: Handler, request: dict[str, Any]) -> None:
    engine = handler.server.engine
    messages = require(request, "messages", list)
    if not all(message["role"] in ("system", "user", "assistant") for message in messages):
        raise Malformed("role")
    require({"temperature": 0} | request, "temperature", int)
    at_least_zero({"max_tokens": 1} | request, "max_tokens")
    prompt = messages[-1]["content"]
    fits(prompt)
    if engine.has(Fault.CHAT_HANGS):
        engine.ended.wait()
    if engine.has(Fault.KEY_IN_ERROR):
        return handler.reply(500, {"error": f"cannot handle {handler.headers['Authorization']}"})
    text = engine.answer(prompt)
    if request.get("stream"):
        return stream(handler, text)
    answer: dict[str, Any] = {"choices": [choice("message", text, finish_reason(engine))]}
    if not engine.has(Fault.CHAT_WITHOUT_USAGE):
        answer["usage"] = usage(text)
    return handler.reply(200, answer)


def finish_reason(engine: FakeEngine) -> str:
    return "length" if engine.has(Fault.CHAT_CUT) else "stop"


def stream(handler: Handler, text: str) -> None:
    engine = handler.server.engine
    step = len(text) if engine.has(Fault.STREAM_AT_ONCE) else 6
    parts = [text[at : at + step] for at in range(0, len(text), step)]
    if engine.has(Fault.STREAM_CUT):
        parts = parts[:-1]
    events: list[Any] = [{"choices": [choice("delta", part, None)]} for part in parts]
    if not engine.has(Fault.STREAM_WITHOUT_FINISH):
        events.append({"choices": [choice("delta", "", "stop")]})
    if not engine.has(Fault.STREAM_WITHOUT_USAGE):
        events.append({"choices": [], "usage": usage(text)})
    lines = [f"data: {json.dumps(event)}\n\n" for event in events]
    if not engine.has(Fault.STREAM_WITHOUT_DONE):
        lines.append("data: [DONE]\n\n")
    handler.send(200, "".join(lines).encode(), EVENTS)


def choice(kind: str, text: str, finish: str | None) -> dict[str, Any]:
    return {"index": 0, kind: {"role": "assistant", "content": text}, "finish_reason": finish}


def usage(text: str) -> dict[str, int]:
    return {"prompt_tokens": 9, "completion_tokens": len(text), "total_tokens": 9 + len(text)}
