"""How the fake engine answers a chat, whole or streamed."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import fake_in_flight
from fake_engine import FakeEngine
from fake_faults import Fault
from fake_options import Broken, Reply, reply_to
from fake_requests import Malformed, at_least_zero, fits, require

if TYPE_CHECKING:
    from fake_engine_http import Handler

EVENTS = "text/event-stream"


def chat(handler: Handler, request: dict[str, Any]) -> None:
    engine = handler.server.engine
    messages = require(request, "messages", list)
    if not all(message["role"] in ("system", "user", "assistant") for message in messages):
        raise Malformed("role")
    if not isinstance(request.get("temperature", 0), int | float):
        raise Malformed("temperature")
    at_least_zero({"max_tokens": 1} | request, "max_tokens")
    fits(messages[-1]["content"])
    if engine.has(Fault.CHAT_HANGS):
        engine.ended.wait()
    if engine.has(Fault.KEY_IN_ERROR):
        return handler.reply(500, {"error": f"cannot handle {handler.headers['Authorization']}"})
    if engine.has(Fault.CHAT_BREAKS):
        return handler.reply(503, {"error": "busy"})
    if request.get("ignore_eos") and request.get("stream"):
        with fake_in_flight.running(engine, sampled=False):
            event = {"choices": [choice("delta", {"content": "x"}, None)]}
            return fake_in_flight.long_stream(handler, request["max_tokens"], event)
    try:
        reply = reply_to(engine, request)
    except Broken as error:
        return handler.reply(500, {"error": str(error)})
    if request.get("stream"):
        return stream(handler, reply)
    return handler.reply(200, whole(engine, request, reply))


def whole(engine: FakeEngine, request: dict[str, Any], reply: Reply) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": reply.text or None}
    if reply.reasoning:
        message["reasoning_content"] = reply.reasoning
    if reply.call:
        message["tool_calls"] = [{"id": "0", "function": reply.call}]
    count = 1 if engine.has(Fault.N_IGNORED) else request.get("n", 1)
    choices = [choice("message", message, finish_reason(engine, reply), n) for n in range(count)]
    if request.get("logprobs") and not engine.has(Fault.LOGPROBS_MISSING):
        token = {"token": "x", "logprob": -0.5, "top_logprobs": [{"logprob": -0.5}]}
        choices[0]["logprobs"] = {"content": [token] * reply.tokens}
    answer: dict[str, Any] = {"choices": choices}
    if not engine.has(Fault.CHAT_WITHOUT_USAGE):
        answer["usage"] = usage(reply.tokens * count)
    return answer


def finish_reason(engine: FakeEngine, reply: Reply) -> str | None:
    if engine.has(Fault.CUT_WITHOUT_FINISH) and reply.finish == "length":
        return None
    return "length" if engine.has(Fault.CHAT_CUT) else reply.finish


def stream(handler: Handler, reply: Reply) -> None:
    engine = handler.server.engine
    parts = chunks(engine, reply.text)
    if engine.has(Fault.STREAM_CUT):
        parts = parts[:-1]
    deltas: list[dict[str, Any]] = [{"content": part} for part in parts]
    if reply.reasoning:
        deltas.insert(0, {"reasoning_content": reply.reasoning})
    if reply.call:
        function = reply.call | {"arguments": ""}
        deltas.append({"tool_calls": [{"index": 0, "function": function}]})
        function = {"name": None, "arguments": reply.call["arguments"]}
        deltas.append({"tool_calls": [{"index": 0, "function": function}]})
    events: list[Any] = [{"choices": [choice("delta", delta, None)]} for delta in deltas]
    if not engine.has(Fault.STREAM_WITHOUT_FINISH):
        events.append({"choices": [choice("delta", {}, reply.finish)]})
    if not engine.has(Fault.STREAM_WITHOUT_USAGE):
        counts_one = engine.has(Fault.STREAM_USAGE_OF_A_CHUNK)
        events.append({"choices": [], "usage": usage(1 if counts_one else reply.tokens)})
    lines = [f"data: {json.dumps(event)}\n\n" for event in events]
    if not engine.has(Fault.STREAM_WITHOUT_DONE):
        lines.append("data: [DONE]\n\n")
    handler.send(200, "".join(lines).encode(), EVENTS)


def chunks(engine: FakeEngine, text: str) -> list[str]:
    step = len(text) if engine.has(Fault.STREAM_AT_ONCE) else 6
    whole = text.encode() if engine.has(Fault.UNICODE_BROKEN_IN_STREAM) else text
    parts = [whole[at : at + step] for at in range(0, len(whole), step or 1)]
    return [part if isinstance(part, str) else part.decode(errors="replace") for part in parts]


def choice(
    kind: str, content: dict[str, Any], finish: str | None, index: int = 0
) -> dict[str, Any]:
    return {"index": index, kind: content, "finish_reason": finish}


def usage(tokens: int) -> dict[str, int]:
    return {"prompt_tokens": 9, "completion_tokens": tokens, "total_tokens": 9 + tokens}
