"""Requests that end before their answer does: cut by their client, or aborted."""

import time
from concurrent.futures import ThreadPoolExecutor
from uuid import uuid4

import pytest
import requests

from dflash_kit.smoke import exact
from dflash_kit.smoke.beside import END_SECONDS, wait_for
from dflash_kit.smoke.client import CHAT, chat_body, generate_body
from dflash_kit.smoke.suite import describe

STREAMS, VICTIMS = 4, 3
LOG = "see the engine's log"


@pytest.mark.check("stream-disconnect")
def test_stream_disconnect(check, engine, known, long_tokens, after_load):
    wanted = f"{STREAMS} cut, nothing left, the same answer"
    generate = generate_body(known.exact[0].prompt_text, long_tokens) | {"stream": True}
    chat = chat_body(known.longest.prompt, long_tokens, ignore_eos=True, stream=True)
    before = engine.load()
    streams = []
    for path, body in [("/generate", generate), (CHAT, chat)] * (STREAMS // 2):
        streams.append(engine.opened(path, body))
        next(engine.events(streams[-1]))
    seen = engine.load().requests - before.requests
    for stream in streams:
        stream.close()
    problem = after_load(before)
    if seen < 1 and not problem:
        check.undetermined("the streams were over before they were cut", wanted, LOG)
    check(
        ok=not problem,
        measured=f"{STREAMS} cut, {problem or 'nothing left, the same answer'}",
        wanted=wanted,
        next_step=f"requests without a client hold memory and slow down others: {LOG}",
    )


def victim(engine, known, tokens, rid):
    """How a long request ended: the type of its finish reason, or why there is no answer."""
    body = generate_body(known.exact[0].prompt_text, tokens) | {"rid": rid}
    try:
        return engine.post("/generate", body)["meta_info"]["finish_reason"]["type"]
    except requests.RequestException as error:
        return describe(error, engine)


def abort(engine, rids):
    """The statuses of aborting one after the other, while others work."""
    statuses = []
    for rid in rids:
        path, key = "/abort_request", engine.keys.admin
        statuses.append(engine.request("POST", path, key=key, body={"rid": rid}).status_code)
        time.sleep(0.1)
    return statuses


@pytest.mark.check("abort")
def test_abort(check, engine, known, long_tokens, exact_run, after_load):
    alone = [result.got for result in exact_run(1).results]
    before = engine.load()
    rids = [uuid4().hex for _ in range(VICTIMS)]
    with ThreadPoolExecutor(VICTIMS + 1) as pool:
        victims = [pool.submit(victim, engine, known, long_tokens, rid) for rid in rids]
        wait_for(lambda: engine.load().requests >= before.requests + VICTIMS, END_SECONDS)
        aborting = pool.submit(abort, engine, rids)
        others = exact.run(engine, known.exact, VICTIMS)
        statuses, ends = aborting.result(), [future.result() for future in victims]
    got = [result.got for result in others.results]
    hurt = sum(one != other for one, other in zip(alone, got, strict=True))
    problems = [f"/abort_request answered {status}" for status in statuses if status != 200]
    if ends != ["abort"] * VICTIMS:
        problems.append(f"the aborted ended by {', '.join(map(str, ends))}")
    if hurt:
        problems.append(f"{hurt} of {len(alone)} others got another answer")
    if left := after_load(before):
        problems.append(left)
    check(
        ok=not problems,
        measured="; ".join(problems) or f"{VICTIMS} aborted, {len(alone)} others equal",
        wanted=f"{VICTIMS} aborted, nothing left of them, the others equal",
        next_step=LOG,
    )
