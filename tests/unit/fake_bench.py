"""bench_serving over the fake engine, computed instead of waited for: a round is a formula.

Requests come in waves of `concurrency`; each waits for its prefill, and where the engine takes only
half of them at a time for the others, and then decodes in steps of `step_ms`, whose jitter comes
from a seed.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field

from fake_engine import FakeEngine
from fake_faults import Fault

from dflash_kit.smoke.bench_serving import Asked, Found

PREFILL_S = 0.02
QUIET, NOISY = 0.01, 0.1


@dataclass
class FakeServing:
    """A function: Asked -> Found, as bench_serving would find the engine with its fault."""

    engine: FakeEngine
    seed: int = 0
    step_ms: float = 10.0
    jitter: float = QUIET
    rng: random.Random = field(init=False)

    def __post_init__(self) -> None:
        self.rng = random.Random(self.seed)
        fault = self.engine.fault
        if fault is Fault.SLOWER_STEPS:
            self.step_ms /= 0.7
        if fault is Fault.HALF_ACCEPTANCE:
            self.step_ms /= 2
        if fault is Fault.NOISY:
            self.jitter = NOISY

    def __call__(self, asked: Asked) -> Found:
        step_s = self.step_ms / 1000 * (1 + self.rng.uniform(-self.jitter, self.jitter))
        token_s = step_s / self.engine.accept_length
        decode_s = (asked.tokens - 1) * token_s
        waits = self.engine.has(Fault.QUEUEING) and asked.concurrency > 1
        wait_s = decode_s + PREFILL_S if waits else 0.0
        count = len(asked.prompts)
        self.engine.waits += count
        self.engine.waited_s += count * wait_s / 2
        ttfts = [PREFILL_S + wait_s * (at % 2) for at in range(count)]
        found = Found(
            duration=-(-count // asked.concurrency) * (PREFILL_S + decode_s + wait_s),
            input_lens=[20] * count,
            output_lens=[asked.tokens] * count,
            ttfts=ttfts,
            itls=[[token_s] * (asked.tokens - 1)] * count,
            errors=[""] * count,
        )
        return BROKEN.get(self.engine.fault, lambda good: good)(found)


def _one_fails(found: Found) -> Found:
    """A refused request has no tokens and takes no time."""
    return found.model_copy(
        update={
            "output_lens": [0, *found.output_lens[1:]],
            "itls": [[], *found.itls[1:]],
            "ttfts": [0.0, *found.ttfts[1:]],
            "errors": ["Service Unavailable: overloaded", *found.errors[1:]],
        }
    )


def _one_is_cut(found: Found) -> Found:
    lens, itls = found.output_lens, found.itls
    return found.model_copy(
        update={"output_lens": [3, *lens[1:]], "itls": [itls[0][:2], *itls[1:]]}
    )


BROKEN: dict[Fault, Callable[[Found], Found]] = {
    Fault.SOME_REFUSED: _one_fails,
    Fault.SOME_CUT: _one_is_cut,
}
