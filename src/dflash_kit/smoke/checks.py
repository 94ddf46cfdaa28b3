"""Which checks a smoke run must answer, in the order in which they run.

A code without a record after the run is a FAIL: a missing check is not a pass. Whatever could end
the engine comes last, so that everything else has its answer by then.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Tier(StrEnum):
    """How much a run asks; each tier includes the ones before it.

    QUICK takes under a minute and follows every rollout, FULL takes minutes, SOAK as many hours as
    it is given.
    """

    QUICK = "quick"
    FULL = "full"
    SOAK = "soak"

    @property
    def included(self) -> tuple[Tier, ...]:
        """This tier and the ones before it."""
        tiers = tuple(Tier)
        return tiers[: tiers.index(self) + 1]


@dataclass(frozen=True)
class Asked:
    """What a check holds an engine to, and the least tier that asks it."""

    says: str
    tier: Tier = Tier.QUICK


CAN_GENERATE = "can-generate"

CHECKS: dict[str, Asked] = {
    "health": Asked("the engine says that it is healthy"),
    CAN_GENERATE: Asked("the engine generates a token for the user key"),
    "release": Asked("the engine is the release that was asked for"),
    "patches": Asked("the engine runs the patches of the release's lock, in order"),
    "tree": Asked("the engine's source tree is the one that the lock names"),
    "deployment": Asked("the engine runs the profile and the point that were asked for"),
    "models": Asked("the served model is listed"),
    "no-key": Asked("ordinary endpoints refuse a request without a key"),
    "wrong-key": Asked("ordinary endpoints refuse a wrong key"),
    "admin-refuses-user": Asked("administrative endpoints refuse the user key and no key"),
    "admin-accepts-admin": Asked("administrative endpoints accept the admin key"),
    "keys-hidden": Asked("no endpoint shows a key to a user"),
    "chat": Asked("a chat request is answered, with usage and a finish reason"),
    "stream": Asked("a streamed chat has chunks, one finish reason, usage and an end mark"),
    "known-answers": Asked("the known prompts get exactly the known answers"),
    "known-answers-stream": Asked("the same answers arrive when streamed"),
    "exact-c1": Asked("token ids equal the reference's, one request at a time"),
    "exact-c4": Asked("token ids equal the reference's, four requests at a time"),
    "dflash": Asked("DFlash is on at the point latency and off at the point throughput"),
    "accept-length": Asked(
        "token-weighted acceptance is at or above the pair's floor, and not perfect"
    ),
    "draft-graph": Asked("the draft's passes run in CUDA graphs"),
    "verify-graph": Asked("the target's passes run in CUDA graphs"),
    "metrics": Asked("the metrics that dashboards need are there"),
    "metrics-count": Asked("the token counter moves by what was generated"),
    "malformed": Asked("malformed requests are refused with 4xx"),
    "alive-after-malformed": Asked("the engine still answers exactly after malformed requests"),
}


def required(tier: Tier) -> list[str]:
    """The codes that a run of `tier` must answer, in order."""
    return [code for code, asked in CHECKS.items() if asked.tier in tier.included]
