"""Faults of the engine itself: what it is, what it generates, what it counts and what it leaves."""

from dataclasses import replace

from fake_faults import Fault
from smoke_expected import Expected, full, quick, soak

from dflash_kit.smoke.checks import FIRST_TOKEN, RUNGS, Tier, required

AFTER_RUNGS = [code for code in required(Tier.QUICK) if code not in (*RUNGS, "health")]
# Judged whatever has become of the engine.
ANYWAY = ["alive-at-end", "processes", "log"]
UNASKED = [code for code in AFTER_RUNGS if code not in ANYWAY]
# These ask a known prompt again after what they do.
COMPARED = {"stream-disconnect", "abort", "slow-clients", "alive-after-malformed"} | {
    "bad-requests-200",
    "greedy-beside-sampled",
    "oversized-body",
}

FAULTS: dict[Fault, Expected] = {
    Fault.UNHEALTHY: quick("health"),
    Fault.FIRST_TOKEN_LATE: quick(FIRST_TOKEN, inconclusive=UNASKED),
    Fault.WRONG_TEXT: quick("known-answers", "known-answers-stream"),
    Fault.WRONG_IDS: quick("exact-c1", "exact-c4", "prefix-cache"),
    Fault.WRONG_IDS_TOGETHER: quick("exact-c4"),
    # Slow clients stay beside the requests of that check.
    # Both also ask eight at a time, and by chance all eight meet.
    Fault.WRONG_IDS_AT_8: replace(
        full("exact-c8", "exact-c32"), related={"slow-clients", "greedy-beside-sampled"}
    ),
    Fault.WRONG_IDS_AT_12: full("exact-c32"),
    Fault.WRONG_IDS_MIXED: full("exact-mixed"),
    Fault.WRONG_IDS_CACHED: quick("exact-c4", "prefix-cache", "alive-after-malformed"),
    Fault.NEVER_CACHED: quick("prefix-cache"),
    Fault.CUT_AT_CONTEXT_END: full("near-context-limit"),
    Fault.WRONG_AFTER_CONTEXT_END: replace(full("near-context-limit"), related=COMPARED),
    Fault.LOOPS: quick("repetition"),
    Fault.GARBAGE: quick("repetition"),
    Fault.SAME_TOKEN: quick("exact-c1", "exact-c4", "prefix-cache", "repetition"),
    Fault.PERFECT: quick("accept-length"),
    Fault.POOR: quick("accept-length"),
    Fault.DFLASH_OFF: quick("dflash", inconclusive=["accept-length"]),
    Fault.OTHER_RELEASE: quick("release"),
    Fault.OTHER_TREE: quick("tree"),
    Fault.OTHER_PATCHES: quick("patches"),
    Fault.NO_METRICS: quick(
        "metrics", "metrics-count", "metrics-fresh", inconclusive=["keys-hidden"]
    ),
    Fault.METRICS_LACKING: quick("metrics"),
    Fault.METRICS_FROZEN: quick("metrics-count", "metrics-fresh"),
    Fault.METRICS_STALE: quick("metrics-fresh"),
    Fault.METRICS_RENAMED: quick("metrics", "metrics-fresh"),
    Fault.GAUGE_STALE: quick("metrics-fresh"),
    Fault.PROCESS_DIES: quick("processes"),
    Fault.ZOMBIE: quick("processes"),
    Fault.RESTARTED: quick("processes"),
    Fault.RANK_MISSING: quick("ranks"),
    Fault.OTHER_TP: quick("ranks"),
    Fault.LOG_FORBIDDEN: quick("log"),
    Fault.LOG_LACKS: quick("log"),
    Fault.LOG_SHOWS_KEY: quick("log"),
    Fault.SOME_500: replace(full("no-5xx"), related=set(required(Tier.FULL))),
    Fault.CRASHES_AFTER_MANY: replace(quick("alive-at-end", "processes"), related=set(UNASKED)),
    Fault.MEMORY_CREEPS: full("memory"),
    Fault.MEMORY_CREEPS_SLOWLY: soak("soak"),
}
