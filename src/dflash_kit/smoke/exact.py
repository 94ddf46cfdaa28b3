"""Greedy generation of the pair's exact prompts: token ids, acceptance, passes, speed."""

from __future__ import annotations

import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any

from dflash_kit.smoke.client import Engine
from dflash_kit.smoke.wanted import Exact

# In a request's meta_info: releases have one of them or both, and may leave it empty.
ACCEPTED = ("spec_accept_histogram", "spec_correct_drafts_histogram")
# Where the engine names no graphs: no power of two, and small enough for every profile.
PADDED = 5


def padded_size(info: dict[str, Any], path: list[str]) -> int:
    """A batch that is larger than a graph and smaller than the next, of the sizes that /server_info
    has under `path`, key below key."""
    found: Any = info
    for key in path:
        found = found.get(key) if isinstance(found, dict) else None
    graphs = found if isinstance(found, list) else []
    most = info.get("max_running_requests") or PADDED
    sizes = [size + 1 for size in graphs if size + 1 not in graphs and size + 1 <= most]
    return max(sizes, default=min(PADDED, most))


@dataclass(frozen=True)
class Generated:
    """One answer: its token ids and in how many verify passes it was made (0: no draft).

    accepted: at n, the verify passes that accepted n draft tokens; empty where not reported.
    """

    wanted: list[int]
    got: list[int]
    verify_passes: int
    accepted: list[int] = field(default_factory=list)

    @property
    def difference(self) -> int | None:
        """The first position at which the ids differ from the reference; None if equal."""
        if self.got == self.wanted:
            return None
        pairs = zip(self.got, self.wanted, strict=False)
        short = min(len(self.got), len(self.wanted))
        return next((at for at, (got, wanted) in enumerate(pairs) if got != wanted), short)


@dataclass(frozen=True)
class ExactRun:
    """All exact prompts at one concurrency; `seconds` is the wall time of the whole."""

    results: list[Generated]
    seconds: float

    @property
    def tokens(self) -> int:
        return sum(len(result.got) for result in self.results)

    @property
    def verify_passes(self) -> int:
        return sum(result.verify_passes for result in self.results)

    @property
    def accept_length(self) -> float:
        """Tokens per verify pass over all prompts together, so that each token weighs the same."""
        return self.tokens / self.verify_passes

    @property
    def accept_by_position(self) -> list[float]:
        """Of each draft position, the share of verify passes that accepted it; empty where the
        release does not report it."""
        longest = max((len(result.accepted) for result in self.results), default=0)
        passes = [
            sum(result.accepted[count] for result in self.results if count < len(result.accepted))
            for count in range(longest)
        ]
        reached = list(accumulate(reversed(passes)))[::-1]
        return [round(count / reached[0], 4) for count in reached[1:]] if any(passes) else []

    def least_passes(self, block_size: int) -> int:
        """Verify passes if no draft token were ever rejected; a prefill gives each first token."""
        return sum(-(-(len(result.got) - 1) // block_size) for result in self.results)


def run(engine: Engine, prompts: Iterable[Exact], concurrency: int) -> ExactRun:
    """Generate every prompt's reference length, `concurrency` requests at a time."""

    def one(prompt: Exact) -> Generated:
        answer: dict[str, Any] = engine.generate(prompt.prompt_text, len(prompt.output_ids))
        said = answer["meta_info"]
        accepted: list[int] = next((said[name] for name in ACCEPTED if said.get(name)), [])
        passes = said.get("spec_verify_ct", 0)
        return Generated(prompt.output_ids, answer["output_ids"], passes, accepted)

    started = time.monotonic()
    with ThreadPoolExecutor(concurrency) as pool:
        results = list(pool.map(one, prompts))
    return ExactRun(results, time.monotonic() - started)
