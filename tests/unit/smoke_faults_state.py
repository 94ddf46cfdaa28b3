"""Faults of the engine itself: what it is, what it generates, and what it counts."""

from fake_faults import Fault
from smoke_expected import Expected, quick

FAULTS: dict[Fault, Expected] = {
    Fault.UNHEALTHY: quick("health"),
    Fault.WRONG_TEXT: quick("known-answers", "known-answers-stream"),
    Fault.WRONG_IDS: quick("exact-c1", "exact-c4"),
    Fault.WRONG_IDS_TOGETHER: quick("exact-c4"),
    Fault.PERFECT: quick("accept-length"),
    Fault.POOR: quick("accept-length"),
    Fault.DFLASH_OFF: quick("dflash", inconclusive=["accept-length"]),
    Fault.OTHER_RELEASE: quick("release"),
    Fault.OTHER_TREE: quick("tree"),
    Fault.OTHER_PATCHES: quick("patches"),
    Fault.NO_METRICS: quick("metrics", "metrics-count", inconclusive=["keys-hidden"]),
    Fault.METRICS_LACKING: quick("metrics"),
    Fault.METRICS_FROZEN: quick("metrics-count"),
}
