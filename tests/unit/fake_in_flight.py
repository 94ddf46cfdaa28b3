"""What the fake engine works on: requests that run for a while, end early, or never end."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from fake_engine import FakeEngine
from fake_faults import Fault

if TYPE_CHECKING:
    from fake_engine_http import Handler

LONG_TOKENS = 256
TOKEN_SECONDS = 0.005
KV_TOKENS = 64


@contextmanager
def running(engine: FakeEngine, sampled: bool) -> Iterator[bool]:
    """Counts one request while it runs; yields whether it is not alone."""
    with engine.guard:
        engine.running += 1
        engine.sampled += sampled
        together = engine.running > 1
    try:
        yield together
    finally:
        with engine.guard:
            engine.running -= 1
            engine.sampled -= sampled


def loads(engine: FakeEngine) -> dict[str, Any]:
    requests = engine.running + engine.leaked
    tokens = requests * KV_TOKENS + engine.held
    load = {"num_running_reqs": requests, "num_waiting_reqs": 0, "num_used_tokens": tokens}
    return {"loads": [load]}


def abort(engine: FakeEngine, rid: str) -> None:
    engine.aborted.add(rid)
    # The others in flight are wrong until the last of the long answers is over.
    engine.hurt |= engine.has(Fault.ABORT_HURTS_OTHERS)


def long_answer(engine: FakeEngine, tokens: int, rid: str) -> dict[str, Any]:
    """An answer that takes its time; how it ended is in its meta_info."""
    reason = "length"
    engine.long += 1
    for _ in range(tokens):
        if rid in engine.aborted and not engine.has(Fault.ABORT_IGNORED):
            reason = "abort"
            break
        if engine.ended.wait(TOKEN_SECONDS):
            raise ConnectionAbortedError
    engine.long -= 1
    engine.hurt &= engine.long > 0
    return {"output_ids": [], "meta_info": {"finish_reason": {"type": reason}}}


def long_stream(handler: Handler, tokens: int, event: dict[str, Any]) -> None:
    """`event` again and again until the client goes."""
    engine = handler.server.engine
    handler.send_response(200)
    handler.send_header("Content-Type", "text/event-stream")
    handler.end_headers()
    try:
        for _ in range(tokens):
            handler.wfile.write(f"data: {json.dumps(event)}\n\n".encode())
            if engine.ended.wait(TOKEN_SECONDS):
                break
    except OSError:
        engine.leaked += engine.has(Fault.DISCONNECT_KEEPS_RUNNING)
        engine.held += KV_TOKENS * engine.has(Fault.DISCONNECT_LEAKS)
        engine.corrupted |= engine.has(Fault.DISCONNECT_CORRUPTS)


def count_bad_request(engine: FakeEngine) -> None:
    """What a flood of bad requests does to an engine."""
    engine.bad += 1
    engine.held += engine.has(Fault.BAD_REQUESTS_LEAK)
    engine.corrupted |= engine.has(Fault.BAD_REQUESTS_CORRUPT) and engine.bad >= 100
    if engine.has(Fault.BAD_REQUESTS_KILL) and engine.bad >= 150:
        engine.end()
