"""How the fake engine answers /generate."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fake_faults import Fault
from fake_requests import at_least_zero, fits, require

if TYPE_CHECKING:
    from fake_engine_http import Handler


def generate(handler: Handler, request: dict[str, Any]) -> None:
    engine = handler.server.engine
    text = require(request, "text", str)
    tokens = at_least_zero(request.get("sampling_params", {}), "max_new_tokens")
    fits(text)
    if engine.has(Fault.HANGS):
        engine.ended.wait()
    with engine.guard:
        engine.running += 1
        together = engine.running > 1
    # Long enough for the other requests of a test at concurrency 4 to arrive.
    engine.ended.wait(0.005)
    try:
        handler.reply(200, engine.generate(text, tokens, together))
    finally:
        with engine.guard:
            engine.running -= 1
