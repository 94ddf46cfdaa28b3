"""What the fake engine makes of a chat's options: stops, penalties, JSON, tools, reasoning."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Any

import fake_state
from fake_engine import FakeEngine
from fake_faults import Fault
from fake_requests import Malformed

CALL = {"name": "get_weather", "arguments": json.dumps({"city": "Paris"})}
THOUGHT = "17 and 25 make 42."
PENALTIES = ("frequency_penalty", "presence_penalty", "repetition_penalty")


class Broken(Exception):
    """An option that the engine answers with 500."""


@dataclass(frozen=True)
class Reply:
    """One choice: each character is a token."""

    text: str
    finish: str = "stop"
    reasoning: str = ""
    call: dict[str, str] | None = None
    tokens: int = 0


def reply_to(engine: FakeEngine, request: dict[str, Any]) -> Reply:
    refuse(engine, request)
    reply = Reply(engine.answer(request["messages"][-1]["content"]))
    if request.get("temperature") and engine.has(Fault.LOOPS, Fault.GARBAGE):
        reply = Reply(fake_state.LOOP if engine.has(Fault.LOOPS) else fake_state.GARBAGE)
    if "response_format" in request and not engine.has(Fault.SCHEMA_IGNORED):
        reply = Reply(json.dumps({"colour": "red", "warm": True}))
    if "tools" in request and "tool-call-parser" in engine.arguments:
        reply = called(engine)
    if any(name in request for name in PENALTIES):
        reply = penalized(engine, reply, request)
    if "min_tokens" in request and engine.has(Fault.MIN_TOKENS_ENDLESS):
        reply = Reply(reply.text + " and so on" * 100)
    if "stop" in request and not engine.has(Fault.STOP_IGNORED):
        reply = replace(reply, text=reply.text.partition(request["stop"])[0])
    return thoughtful(engine, cut(reply, request.get("max_tokens", 16)))


def refuse(engine: FakeEngine, request: dict[str, Any]) -> None:
    """As the release does with DFlash on, and a profile without a grammar backend."""
    grammar = "response_format" in request or request.get("tool_choice") == "required"
    if request.get("logprobs"):
        refused = engine.drafting and not engine.has(Fault.LOGPROBS_AFTER_ALL)
        if refused or engine.has(Fault.LOGPROBS_REFUSED):
            raise Malformed("no logprobs")
    if grammar:
        none = engine.arguments.get("grammar-backend") == "none"
        if none or engine.has(Fault.SCHEMA_REFUSED):
            raise Malformed("no grammar")


def called(engine: FakeEngine) -> Reply:
    if engine.has(Fault.TOOL_CALL_LOST):
        return Reply(f"<|tool_call_begin|>{CALL}<|tool_call_end|>")
    return Reply("", "tool_calls", call=CALL)


def penalized(engine: FakeEngine, reply: Reply, request: dict[str, Any]) -> Reply:
    if engine.has(Fault.PENALTIES_BREAK):
        raise Broken("no penalties")
    if engine.has(Fault.PENALTIES_LOOP):
        return Reply("and so on " * 100)
    without_effect = engine.drafting or engine.has(Fault.PENALTIES_IGNORED)
    mild = "frequency_penalty" not in request
    return reply if mild or without_effect else Reply("In other words.")


def cut(reply: Reply, limit: int) -> Reply:
    """The end-of-text token counts too."""
    whole = len(reply.text) + 1
    if whole <= limit:
        return replace(reply, tokens=whole)
    return replace(reply, text=reply.text[:limit], tokens=limit, finish="length")


def thoughtful(engine: FakeEngine, reply: Reply) -> Reply:
    if "reasoning-parser" not in engine.arguments:
        return reply
    if engine.has(Fault.REASONING_MIXED) and reply.text == engine.answer(""):
        return replace(reply, text=f"{THOUGHT}</think>{reply.text}")
    return replace(reply, reasoning=THOUGHT)
