"""Faults of speed, which only a bench finds, by comparison with the last good receipt."""

from fake_faults import Fault
from smoke_expected import Expected, caught

from dflash_kit.smoke.checks import Tier

ALL = ("speed-c1", "speed-c8", "speed-c32")
TOGETHER = ALL[1:]

FAULTS: dict[Fault, Expected] = {
    Fault.SLOWER_STEPS: caught(Tier.BENCH, *ALL),
    Fault.HALF_ACCEPTANCE: caught(Tier.BENCH, *ALL),
    Fault.QUEUEING: caught(Tier.BENCH, *TOGETHER),
    Fault.SOME_REFUSED: caught(Tier.BENCH, *ALL),
    Fault.SOME_CUT: caught(Tier.BENCH, *ALL),
    Fault.BUSY: caught(Tier.BENCH, inconclusive=ALL),
}

# What a check of each says of the cause, and what it tells to do.
SAID: dict[Fault, tuple[str, str]] = {
    Fault.SLOWER_STEPS: ("0.7. of the earlier: step 14.", "steps take longer"),
    Fault.HALF_ACCEPTANCE: (
        "(0.9|1.0). of the earlier: acceptance 3.50 after 7.00; step [45].",
        "the draft drafts worse",
    ),
    Fault.QUEUEING: ("0.5. of the earlier: queueing: requests decode", "requests wait"),
    Fault.SOME_REFUSED: ("7 of .* requests failed: Service Unavailable: overloaded", "log"),
    Fault.SOME_CUT: ("7 of .* requests failed: 3 tokens instead of 64", "log"),
    Fault.BUSY: ("answers other requests: a bench needs it for itself", "log"),
}
