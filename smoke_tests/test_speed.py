"""How fast the engine is beside an earlier receipt and the profile's limits: `dflash-kit bench`."""

import pytest

from dflash_kit.errors import Undetermined
from dflash_kit.smoke import bench, speed_gate
from dflash_kit.verdicts import Verdict


@pytest.mark.check("speed-c1")
def test_speed_c1(check, judged):
    give(check, judged(1))


@pytest.mark.check("speed-c8")
def test_speed_c8(check, judged):
    give(check, judged(8))


@pytest.mark.check("speed-c32")
def test_speed_c32(check, judged):
    give(check, judged(32))


@pytest.fixture
def judged(suite, engine, profile, pair, dflash_wanted):
    """Function: concurrency -> the speed there, judged; it is in the receipt before that."""

    def judge(concurrency):
        if suite.bench is None:
            raise Undetermined("no bench_serving: run `dflash-kit bench`")
        earlier = suite.bench.earlier(suite.profile, suite.point, concurrency)
        asked = suite.bench.asked(engine, pair, concurrency)
        now, error = bench.measure(suite.bench.run, engine, asked)
        suite.speed.append(now)
        limit = profile.points[suite.point].step_ms.get(concurrency)
        return speed_gate.judge(now, earlier, limit, profile.start_noise, error)

    return judge


def give(check, judged):
    if judged.verdict is Verdict.SKIP:
        check.skip(judged.measured)
    if judged.verdict is Verdict.INCONCLUSIVE:
        check.undetermined(judged.measured, judged.wanted, judged.next_step)
    check(
        ok=judged.verdict is Verdict.PASS,
        measured=judged.measured,
        wanted=judged.wanted,
        next_step=judged.next_step,
    )
