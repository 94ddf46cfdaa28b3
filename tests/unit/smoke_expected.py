"""What a run of the smoke suite must say of a faulty engine: the tier, and each code's verdict."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from dflash_kit.smoke.checks import Tier

FAIL, INCONCLUSIVE = "FAIL", "INCONCLUSIVE"


@dataclass(frozen=True)
class Expected:
    """The least tier that catches a fault, and the codes that do not pass then."""

    tier: Tier
    codes: dict[str, str]


def caught(tier: Tier, *failed: str, inconclusive: Iterable[str] = ()) -> Expected:
    """`failed` say FAIL in a run of `tier`; `inconclusive` can no longer be judged."""
    return Expected(tier, dict.fromkeys(inconclusive, INCONCLUSIVE) | dict.fromkeys(failed, FAIL))


def quick(*failed: str, inconclusive: Iterable[str] = ()) -> Expected:
    return caught(Tier.QUICK, *failed, inconclusive=inconclusive)


def full(*failed: str, inconclusive: Iterable[str] = ()) -> Expected:
    return caught(Tier.FULL, *failed, inconclusive=inconclusive)


def soak(*failed: str, inconclusive: Iterable[str] = ()) -> Expected:
    return caught(Tier.SOAK, *failed, inconclusive=inconclusive)
