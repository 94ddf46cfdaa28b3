"""The soak: greedy and sampled requests at changing concurrency, for hours, judged as they come.

It stops at the first wrong answer, at an engine that no longer answers or has restarted, and when
memory creeps.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import timedelta
from random import Random
from statistics import linear_regression

import requests

from dflash_kit.errors import KitError, Undetermined
from dflash_kit.releases import engine_data
from dflash_kit.smoke import degenerate, watch
from dflash_kit.smoke.suite import Suite, describe
from dflash_kit.smoke.wanted import Exact, KnownAnswers

# One concurrency after the other, so that batches grow and shrink.
CONCURRENCY = (1, 4, 8, 2, 16, 3)
PHASE_SECONDS = 30.0
LEAST_STEPS_S = 5.0
# Over all of the soak but its first quarter, in which caches fill.
CREEP_MIB, LEAST_SAMPLES = 128.0, 8
SAMPLED = {"temperature": 1.0, "top_p": 0.95}
SAMPLED_SHARE = 0.5


@dataclass
class Soak:
    """What a soak has seen; `problem` ends it."""

    seconds: float = 0.0
    requests: int = 0
    steps: int = 0
    problem: str = ""
    interrupted: bool = False
    memory: dict[str, list[tuple[float, float]]] = field(default_factory=dict)
    guard: threading.Lock = field(default_factory=threading.Lock)

    @property
    def shown(self) -> str:
        return str(timedelta(seconds=round(self.seconds)))

    def count(self, steps: int, problem: str) -> None:
        with self.guard:
            self.requests += 1
            self.steps += steps
            self.problem = self.problem or problem


def run(suite: Suite, known: KnownAnswers) -> Soak:
    """Churn for the suite's hours; KeyboardInterrupt ends it with what was seen until then."""
    soak, started = Soak(), time.monotonic()
    until = started + suite.hours * 3600
    look = watcher(suite, soak, started)
    phase = 0
    try:
        while (now := time.monotonic()) < until and not soak.problem:
            concurrency = CONCURRENCY[phase % len(CONCURRENCY)]
            soak.seconds = now - started
            suite.say(
                f"soak {soak.shown} of {suite.hours:g} h, {concurrency} at a time, "
                f"{soak.requests} requests, {soak.steps} steps"
            )
            churn(suite, known, soak, concurrency, min(until, now + PHASE_SECONDS), phase)
            soak.problem = soak.problem or look()
            phase += 1
    except KeyboardInterrupt:
        soak.interrupted = True
    soak.seconds = time.monotonic() - started
    return soak


def churn(
    suite: Suite, known: KnownAnswers, soak: Soak, concurrency: int, until: float, phase: int
) -> None:
    """Requests from `concurrency` clients until the phase is over, or something is wrong."""
    over = threading.Event()

    def client(number: int) -> None:
        random = Random(f"{phase}-{number}")
        while not over.is_set() and time.monotonic() < until and not soak.problem:
            ask(suite, random.choice(known.exact), soak, random)

    with ThreadPoolExecutor(concurrency) as pool:
        try:
            clients = [pool.submit(client, number) for number in range(concurrency)]
            for one in clients:
                one.result()
        except KeyboardInterrupt:
            over.set()  # the answers that are on their way are waited for, with their deadline
            raise


def ask(suite: Suite, prompt: Exact, soak: Soak, random: Random) -> None:
    """One request, counted and judged."""
    sampled = random.random() < SAMPLED_SHARE
    # Of all lengths, so that a batch shrinks one by one.
    tokens = random.randint(1, len(prompt.output_ids))
    try:
        options = SAMPLED if sampled else {}
        answer = suite.engine.generate(prompt.prompt_text, tokens, **options)
        got = answer["output_ids"]
        steps = answer["meta_info"].get("spec_verify_ct") or len(got) - 1
        problem = degenerate.token_problem(got)
        if not problem and not sampled and got != prompt.output_ids[:tokens]:
            problem = "a greedy answer is not the reference's"
        elif not problem and len(got) != tokens:
            problem = f"{len(got)} tokens, wanted {tokens}"
    except (requests.RequestException, KitError) as error:
        steps = 0
        known = isinstance(error, KitError)
        problem = str(error) if known else describe(error, suite.engine)
    soak.count(steps, problem)


def watcher(suite: Suite, soak: Soak, started: float) -> Callable[[], str]:
    """Function: what has become of the container since the soak's start; empty if all is well."""
    container = suite.container
    if container is None:
        return lambda: ""
    try:
        before, pattern = container.look(), engine_data.load(suite.wanted.release).processes
    except Undetermined:
        return lambda: ""  # the checks `processes` and `memory` say so

    def look() -> str:
        problems, now = watch.differences(before, container.look, pattern)
        if problems:
            return problems[0]
        at = time.monotonic() - started
        shown = {"resident": now.resident_mib, "GPU": now.gpu_mib}
        for kind, mib in shown.items():
            if mib is not None:
                soak.memory.setdefault(kind, []).append((at, float(mib)))
        found = (
            f"{kind} memory {problem}" for kind, s in soak.memory.items() if (problem := creep(s))
        )
        return next(found, "")

    return look


def creep(samples: list[tuple[float, float]]) -> str:
    """By how much memory creeps, from (seconds, MiB); empty where it does not."""
    steady = samples[len(samples) // 4 :]
    if len(samples) < LEAST_SAMPLES:
        return ""
    slope = linear_regression(*zip(*steady, strict=True)).slope
    grown = slope * (steady[-1][0] - steady[0][0])
    if grown <= CREEP_MIB:
        return ""
    return (
        f"grew by {grown:.0f} MiB, {slope * 3600:.0f} MiB an hour; wanted at most {CREEP_MIB:.0f}"
    )
