"""What an engine must outlive: slow clients, a flood of bad requests, a body of any size."""

import time
from contextlib import ExitStack
from itertools import cycle, islice

import pytest
import requests

from dflash_kit.smoke import exact, slow
from dflash_kit.smoke.beside import repeating
from dflash_kit.smoke.client import CHAT, generate_body
from dflash_kit.smoke.suite import describe, status_of

SENDERS, READERS, CONCURRENCY = 8, 4, 4
BAD_REQUESTS = 200
BAD = (
    (CHAT, b'{"messages": ['),
    (CHAT, b'{"messages": "Hello"}'),
    (CHAT, b'{"messages": [{"role": "user", "content": "Hello"}], "temperature": "hot"}'),
    ("/generate", b"{"),
    ("/generate", b'{"text": 7}'),
    ("/generate", b'{"text": "Hello", "sampling_params": {"max_new_tokens": -1}}'),
)
# No token of any tokenizer has so many bytes on average.
BYTES_A_TOKEN, LEAST_BYTES = 16, 1 << 20
LOG = "see the engine's log"


@pytest.mark.check("slow-clients")
def test_slow_clients(check, engine, known, long_tokens, exact_run, after_load):
    alone, before = [result.got for result in exact_run(1).results], engine.load()
    stream = generate_body(known.exact[0].prompt_text, long_tokens) | {"stream": True}
    with ExitStack() as stack:
        senders = [stack.enter_context(slow.sender(engine, "/generate")) for _ in range(SENDERS)]
        for _ in range(READERS):
            stack.enter_context(slow.reader(engine, "/generate", stream))
        try:
            with repeating(lambda: dribble(senders), 1):
                got = [r.got for r in exact.run(engine, known.exact, CONCURRENCY).results]
            problem = "" if got == alone else "others got another answer"
        except requests.RequestException as error:
            problem = f"others: {describe(error, engine)}"
    problem = problem or after_load(before)
    check(
        ok=not problem,
        measured=problem or f"{len(alone)} others served, nothing left",
        wanted=f"others served beside {SENDERS} slow senders and {READERS} that never read",
        next_step=LOG,
    )


def dribble(senders):
    for sender in senders:
        slow.drop(sender)
    time.sleep(0.05)


@pytest.mark.check("bad-requests-200")
def test_bad_requests_200(check, engine, after_load):
    before = engine.load()
    sent, problem = 0, ""
    for path, raw in islice(cycle(BAD), BAD_REQUESTS):
        status = status_of(engine, path, raw)
        if not isinstance(status, int):
            problem = f"number {sent + 1}: {status}"
            break
        sent += 1
        if not 400 <= status < 500:
            problem = f"number {sent}: {status} for {raw!r}"
            break
    problem = problem or after_load(before)
    check(
        ok=not problem,
        measured=problem or f"{sent} refused, nothing left, the same answer",
        wanted=f"{BAD_REQUESTS} refused with 4xx, nothing left, the same answer",
        next_step=LOG,
    )


@pytest.mark.check("oversized-body")
def test_oversized_body(check, engine, unlike_before):
    context = engine.context_tokens()
    text = "word " * (max(BYTES_A_TOKEN * context, LEAST_BYTES) // len("word "))
    messages = [{"role": "user", "content": text}]
    bodies = {CHAT: {"model": "default", "messages": messages}, "/generate": {"text": text}}
    problems = []
    for path, body in bodies.items():
        try:
            status = engine.request("POST", path, key=engine.keys.user, body=body).status_code
        except requests.ConnectionError:
            continue  # closed before all was sent: refused as well, if the engine is still there
        if not 400 <= status < 500:
            problems.append(f"{path}: {status}")
    if problem := unlike_before():
        problems.append(f"afterwards: {problem}")
    check(
        ok=not problems,
        measured="; ".join(problems) or f"{len(text) >> 10} KiB refused, the same answer",
        wanted="refused, the same answer afterwards",
        next_step="bound the size of a request before the engine (proxy), or see the engine's log",
    )
