"""Many ordinary requests: every one is answered, and they leave no memory behind."""

from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest

from dflash_kit.errors import Undetermined
from dflash_kit.smoke import watch
from dflash_kit.smoke.client import generate_body
from dflash_kit.smoke.suite import status_of

REQUESTS, CONCURRENCY, TOKENS = 200, 4, 4
# A cache page or a Python arena more is no leak; one MiB a request is.
GROWTH_MIB = 128
LOADED = {"temperature": 1.0, "top_k": 8}


def statuses(engine, prompts, count, **sampling):
    """How many of `count` short requests were answered with which status."""

    def one(at):
        body = generate_body(prompts[at % len(prompts)].prompt_text, TOKENS, **sampling)
        return status_of(engine, "/generate", body)

    with ThreadPoolExecutor(CONCURRENCY) as pool:
        return Counter(pool.map(one, range(count)))


@pytest.mark.check("no-5xx")
def test_no_5xx(check, engine, known):
    found = statuses(engine, known.exact, REQUESTS)
    check(
        ok=found[200] == REQUESTS,
        measured=", ".join(
            f"{status}: {count}" for status, count in sorted(found.items(), key=str)
        ),
        wanted=f"200: {REQUESTS}",
        next_step="see the engine's log for the requests that were not answered",
    )


@pytest.mark.check("memory")
def test_memory(check, suite, engine, known, container):
    wanted = f"at most {GROWTH_MIB} MiB more after {REQUESTS} requests"
    # What an engine keeps after its first requests is no leak.
    statuses(engine, known.exact, REQUESTS // 4, **LOADED)
    try:
        before = container.look()
        statuses(engine, known.exact, REQUESTS, **LOADED)
        grown = watch.growth_mib(before, container.look())
    except Undetermined as error:
        check.undetermined("not seen", wanted, str(error))
    if not before.processes:
        check.undetermined("no process seen", wanted, "let the smoke test see the host's /proc")
    suite.figures["memory_growth_mib"] = grown["resident"]
    check(
        ok=max(grown.values()) <= GROWTH_MIB,
        measured=", ".join(f"{kind} {mib:+d} MiB" for kind, mib in grown.items()),
        wanted=wanted,
        next_step="something leaks: run the tier soak, and compare with the last good release",
    )
