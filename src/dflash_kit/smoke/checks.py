"""Which checks a smoke run must answer, in the order in which they run.

A code without a record after the run is a FAIL: a missing check is not a pass. The first ones are
a ladder: the port is open (or the suite does not begin), the key fits, the engine says that it is
healthy, generates, and generates right. Whatever could end the engine comes last, so that
everything else has its answer by then.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Tier(StrEnum):
    """How much a run asks; each tier includes the ones before it.

    QUICK takes under a minute and follows every rollout, FULL takes minutes, SOAK as many hours as
    it is given. BENCH stands apart: it asks only who the engine is and how fast, and needs it for
    itself, while the other tiers may run beside users.
    """

    QUICK = "quick"
    FULL = "full"
    SOAK = "soak"
    BENCH = "bench"

    @property
    def included(self) -> tuple[Tier, ...]:
        """This tier and the ones before it."""
        if self is Tier.BENCH:
            return (self,)
        tiers = tuple(Tier)
        return tiers[: tiers.index(self) + 1]


@dataclass(frozen=True)
class Asked:
    """What a check holds an engine to, and the least tier that asks it.

    One that is asked `anyway` also judges an engine that no longer answers.
    """

    says: str
    tier: Tier = Tier.QUICK
    anyway: bool = False


AUTH, CAN_GENERATE, FIRST_TOKEN = "auth", "can-generate", "first-token"
# Without these nothing above them can be judged: where one does not pass, the rest is not run.
RUNGS = (AUTH, CAN_GENERATE, FIRST_TOKEN)

CHECKS: dict[str, Asked] = {
    AUTH: Asked("the engine takes the user key"),
    "health": Asked("the engine says that it is healthy"),
    CAN_GENERATE: Asked("the engine generates a token for the user key"),
    FIRST_TOKEN: Asked("the first token comes soon"),
    "known-answers": Asked("the known prompts get exactly the known answers"),
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
    "known-answers-stream": Asked("the same answers arrive when streamed"),
    "exact-c1": Asked("token ids equal the reference's, one request at a time"),
    "exact-c4": Asked("token ids equal the reference's, four requests at a time"),
    "exact-c8": Asked("the same, eight at a time", Tier.FULL),
    "exact-c32": Asked("the same, 32 at a time, queued where fewer may run", Tier.FULL),
    "exact-mixed": Asked(
        "the same beside sampled requests, in batches that are padded, grow and shrink", Tier.FULL
    ),
    "prefix-cache": Asked("a prompt that is cached gets the same answer"),
    "near-context-limit": Asked(
        "a request that ends near the context's limit is answered and harms nothing", Tier.FULL
    ),
    "repetition": Asked("no answer is a loop or garbage, greedy or sampled"),
    "dflash": Asked("DFlash is on at the point latency and off at the point throughput"),
    "accept-length": Asked(
        "token-weighted acceptance is at or above the pair's floor, and not perfect"
    ),
    "draft-graph": Asked("the draft's passes run in CUDA graphs"),
    "verify-graph": Asked("the target's passes run in CUDA graphs"),
    "metrics": Asked("the metrics that dashboards need are there"),
    "metrics-count": Asked("the token counter moves by what was generated"),
    "metrics-fresh": Asked("counters and gauges move with what is asked"),
    "ranks": Asked("every rank of the profile has its process"),
    "stop-strings": Asked("an answer ends before its stop string, whole and streamed"),
    "usage": Asked("usage adds up and a finish reason is there, whole and streamed, cut or not"),
    "unicode": Asked("every script comes through unharmed, whole and streamed", Tier.FULL),
    "n-choices": Asked("a request for two choices gets two", Tier.FULL),
    "temperature": Asked("sampled answers differ from each other", Tier.FULL),
    "seed": Asked("the same seed gives the same sampled answer", Tier.FULL),
    "min-p": Asked("what is less probable than asked for is not sampled", Tier.FULL),
    "greedy-beside-sampled": Asked("greedy answers are the same beside sampled ones", Tier.FULL),
    "penalties": Asked("penalties change an answer, and it ends without a loop", Tier.FULL),
    "min-tokens": Asked("an answer with a least length still ends by itself", Tier.FULL),
    "logprobs": Asked("each token of an answer has its log probability", Tier.FULL),
    "json-schema": Asked("an answer under a JSON schema follows it", Tier.FULL),
    "tools": Asked("a tool is called when the question asks for it", Tier.FULL),
    "tools-required": Asked("a tool is called when the request demands one", Tier.FULL),
    "reasoning": Asked("reasoning is apart from the answer", Tier.FULL),
    "stream-disconnect": Asked("streams that their clients cut end in the engine too", Tier.FULL),
    "abort": Asked("aborted requests end, and the others are not hurt", Tier.FULL),
    "no-5xx": Asked("200 ordinary requests in a row are all answered", Tier.FULL),
    "memory": Asked("the engine's memory does not grow with its requests", Tier.FULL),
    "soak": Asked("hours of changing load bring nothing wrong, dead or creeping", Tier.SOAK),
    "speed-c1": Asked("one request at a time is as fast as it was", Tier.BENCH),
    "speed-c8": Asked("eight requests at a time are as fast as they were", Tier.BENCH),
    "speed-c32": Asked("32 requests at a time are as fast as they were", Tier.BENCH),
    "malformed": Asked("malformed requests are refused with 4xx"),
    "alive-after-malformed": Asked("the engine still answers exactly after malformed requests"),
    "slow-clients": Asked("clients that send or read slowly hold up nobody else", Tier.FULL),
    "bad-requests-200": Asked("200 bad requests in a row leave no trace", Tier.FULL),
    "oversized-body": Asked(
        "a body far beyond the context is refused, and harms nothing", Tier.FULL
    ),
    "alive-at-end": Asked("the engine still generates after all of this", anyway=True),
    "processes": Asked("no process of the engine has ended or begun anew", anyway=True),
    "log": Asked("the log has no forbidden line and every required one", anyway=True),
}

# A bench asks these too: figures of an engine that is not known are worth nothing.
KNOWN_ENGINE = (*RUNGS, "release", "patches", "tree", "deployment")


def table() -> str:
    """The checks as docs/smoke.md lists them, in the order in which they run."""
    rows = [f"| `{code}` | {asked.says} | {asked.tier} |" for code, asked in CHECKS.items()]
    return "\n".join(["| code | what it proves | tier |", "|---|---|---|", *rows]) + "\n"


def required(tier: Tier) -> list[str]:
    """The codes that a run of `tier` must answer, in order."""
    also = KNOWN_ENGINE if tier is Tier.BENCH else ()
    return [code for code, a in CHECKS.items() if a.tier in tier.included or code in also]
