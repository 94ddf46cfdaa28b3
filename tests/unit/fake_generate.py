"""How the fake engine answers /generate."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import fake_in_flight
import fake_state
from fake_engine import CONTEXT, FakeEngine, damaged
from fake_faults import Fault
from fake_requests import Malformed, at_least_zero, fits, require

if TYPE_CHECKING:
    from fake_engine_http import Handler


def generate(handler: Handler, request: dict[str, Any]) -> None:
    engine = handler.server.engine
    if "input_ids" in request:
        return handler.reply(200, at_context_end(engine, request))
    text = require(request, "text", str)
    sampling = request.get("sampling_params", {})
    tokens = at_least_zero(sampling, "max_new_tokens")
    fits(text)
    if engine.has(Fault.HANGS):
        engine.ended.wait()
    fake_state.begin(engine)
    sampled = sampling.get("temperature", 0) > 0
    with fake_in_flight.running(engine, sampled) as together:
        if request.get("stream"):
            return fake_in_flight.long_stream(handler, tokens, {"text": "x"})
        if tokens > fake_in_flight.LONG_TOKENS:
            answer = fake_in_flight.long_answer(engine, tokens, request.get("rid", ""))
            return handler.reply(200, answer)
        # Long enough for the other requests of a test at concurrency 4 to arrive.
        engine.ended.wait(fake_state.step_seconds(engine, tokens))
        answer = engine.generate(text, tokens, together)
        if text in engine.known_prompts and fake_state.wrong_ids(engine, text, tokens):
            answer["output_ids"] = damaged(answer["output_ids"])
        if engine.has(Fault.SAME_TOKEN) or (sampled and engine.has(Fault.LOOPS)):
            answer["output_ids"] = [7] * tokens
        answer["meta_info"] |= fake_state.meta(engine, text)
        if sampled and (ids := engine.sample(tokens, sampling.get("min_p", 0))):
            answer["output_ids"] = ids
        return handler.reply(200, answer)


def at_context_end(engine: FakeEngine, request: dict[str, Any]) -> dict[str, Any]:
    """The answer to a prompt of token ids, which only checks of the context's end send."""
    tokens = at_least_zero(request["sampling_params"], "max_new_tokens")
    if len(request["input_ids"]) + tokens > CONTEXT:
        raise Malformed("too long")
    engine.context_ended = True
    out = [1] * (tokens - 5 * engine.has(Fault.CUT_AT_CONTEXT_END))
    return {"output_ids": out, "meta_info": {"completion_tokens": len(out)}}
