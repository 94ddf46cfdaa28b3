"""Runs of the smoke suite against the pretended engine."""

import pytest
from fake_engine import KEYS, FakeEngine
from fake_engine_http import serving
from fake_faults import Fault
from fake_state import LATE_SECONDS, FakeContainer

from dflash_kit import paths
from dflash_kit.profiles.load import load_pair
from dflash_kit.smoke import beside, readiness, runner, soak
from dflash_kit.smoke.checks import Tier
from dflash_kit.smoke.client import REQUEST_SECONDS, Engine
from dflash_kit.smoke.wanted import Wanted, load_known_answers
from dflash_kit.verdicts import Verdict

PROFILE = "cpu-tiny"
SOAK_HOURS = 3 / 3600


@pytest.fixture(scope="module", autouse=True)
def few_known_answers(tmp_path_factory):
    """A few of the tiny pair's known answers, for the fake and for the suite: many runs follow."""
    pair, root = load_pair("tiny"), tmp_path_factory.mktemp("root")
    known = load_known_answers(pair)
    foreign = next(answer for answer in known.answers if not answer.answer.isascii())
    few = {"answers": [*known.answers[:3], foreign], "exact": known.exact[:6]}
    file = root / pair.known_answers
    file.parent.mkdir(parents=True)
    file.write_text(known.model_copy(update=few).model_dump_json())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(paths, "ROOT", root)
        # The fake sees at once that a client is gone.
        patch.setattr(beside, "END_SECONDS", 1.0)
        patch.setattr(readiness, "FIRST_TOKEN_SECONDS", LATE_SECONDS / 2)
        # Its soak is over in seconds.
        patch.setattr(soak, "PHASE_SECONDS", 0.2)
        patch.setattr(soak, "CREEP_MIB", 8.0)
        yield


def smoke(
    fault=Fault.NONE,
    seconds=REQUEST_SECONDS,
    point="latency",
    asked=None,
    tier=Tier.QUICK,
    watched=True,
):
    """The receipt of a run against a fake.

    `asked`: profile and point to hold it to. `watched`: whether its container is seen.
    """
    with serving(FakeEngine(fault, point, PROFILE)) as fake:
        engine = Engine(fake.url, KEYS, "a test", seconds)
        wanted = Wanted(fake.lock, **(asked or {}))
        container = FakeContainer(fake) if watched else None
        return runner.run(
            engine, wanted, lambda *_, **__: None, tier, container=container, hours=SOAK_HOURS
        )


def not_passed(receipt):
    return {r.code: str(r.verdict) for r in receipt.checks if r.verdict is not Verdict.PASS}
