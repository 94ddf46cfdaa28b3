"""What a run of the smoke suite must say of a faulty engine: the tier, and each code's verdict."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from dflash_kit.smoke.checks import Tier, required
from dflash_kit.smoke.client import REQUEST_SECONDS

FAIL, INCONCLUSIVE, SKIP = "FAIL", "INCONCLUSIVE", "SKIP"


@dataclass(frozen=True)
class Expected:
    """The least tier that catches a fault, and the codes that do not pass then.

    `seconds`: the deadline of each request, less where a fault is that there is no answer.
    `related` may fail or go unjudged as well, by chance or for the same reason.
    """

    tier: Tier
    codes: dict[str, str]
    seconds: float = REQUEST_SECONDS
    related: Collection[str] = ()


def caught(tier: Tier, *failed: str, inconclusive: Iterable[str] = ()) -> Expected:
    """`failed` say FAIL in a run of `tier`; `inconclusive` can no longer be judged."""
    return Expected(tier, dict.fromkeys(inconclusive, INCONCLUSIVE) | dict.fromkeys(failed, FAIL))


def quick(*failed: str, inconclusive: Iterable[str] = ()) -> Expected:
    return caught(Tier.QUICK, *failed, inconclusive=inconclusive)


def full(*failed: str, inconclusive: Iterable[str] = ()) -> Expected:
    return caught(Tier.FULL, *failed, inconclusive=inconclusive)


def soak(*failed: str, inconclusive: Iterable[str] = ()) -> Expected:
    return caught(Tier.SOAK, *failed, inconclusive=inconclusive)


# What a healthy engine skips: the tiny pair on a CPU, and DFlash 0.5.17 at the point latency.
ALWAYS = ["draft-graph", "verify-graph", "seed", "json-schema"]
PARSERS = ["tools", "tools-required", "reasoning"]
BY_POINT = {
    "latency": ["temperature", "min-p", "penalties", "logprobs"],
    "throughput": ["accept-length"],
}


def skipped(tier: Tier, point: str = "latency") -> dict[str, str]:
    """The codes that a healthy engine without a GPU skips in a run of `tier`."""
    codes = [*ALWAYS, *PARSERS, *BY_POINT[point]]
    return {code: SKIP for code in codes if code in required(tier)}


def table(faults: dict[str, Expected]) -> str:
    """The matrix of docs/smoke-faults.md: each fault, the tier that catches it, the codes."""
    rows = []
    for fault, expected in faults.items():
        failed = [f"`{code}`" for code, verdict in expected.codes.items() if verdict == FAIL]
        others = [f"`{code}`" for code in expected.codes if f"`{code}`" not in failed]
        named = ", ".join(others) if len(others) < 5 else f"{len(others)} codes after it"
        unjudged = f"; cannot be judged: {named}" if others else ""
        rows.append(f"| {fault} | {expected.tier} | {', '.join(failed)}{unjudged} |")
    return "\n".join(["| the engine | tier | fails |", "|---|---|---|", *rows]) + "\n"
