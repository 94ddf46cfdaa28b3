"""The gate of speed: what it takes for a slow-down, how often it is wrong, and what it says."""

import random
from statistics import NormalDist

import pytest

from dflash_kit.smoke.speed import Percentiles, Round, SpeedPoint
from dflash_kit.smoke.speed_gate import LEAST_ROUNDS, MOST_NOISE, change, judge
from dflash_kit.verdicts import Verdict

MARGIN = 0.08
CONCURRENCY, TOKENS, ACCEPT, STEP_MS, DECODING = 8, 1000, 6.0, 12.0, 0.9
RUNS = 1000


def a_point(speeds, accept=ACCEPT, decoding=DECODING, failed=0, queue_ms=None, tokens=TOKENS):
    """A run whose rounds have these speeds of a step, as a share of 1 / STEP_MS."""
    rounds = []
    for speed in speeds:
        tpot_ms = STEP_MS / speed / accept
        times = Percentiles(p50=tpot_ms, p90=tpot_ms, p99=tpot_ms)
        rounds.append(
            Round(
                tok_s=1000 * CONCURRENCY * decoding / tpot_ms,
                tpot_ms=tpot_ms,
                accept_length=None if accept == 1 else accept,
                ttft_ms=times,
                itl_ms=times,
                e2e_ms=times,
                failed=failed,
                input_tokens=tokens,
                output_tokens=tokens,
                queue_ms=queue_ms,
            )
        )
    return SpeedPoint(concurrency=CONCURRENCY, prompts=24, rounds=rounds)


BEFORE = a_point([1.0, 0.99, 1.01, 1.0, 1.02, 0.98, 1.01])


def verdict(now, before=BEFORE):
    return judge(now, before, None, MARGIN, "").verdict


def drawn(rng, kind, spread, factor=1.0):
    """The rounds of one run: `spread` is the half-width of a flat distribution, the standard
    deviation of a normal one, and of one that is normal but for one round in ten at half speed."""
    speeds = []
    for _ in range(LEAST_ROUNDS):
        if kind == "flat":
            drawn = 1 + rng.uniform(-spread, spread)
        else:
            drawn = max(0.1, NormalDist(1, spread).inv_cdf(rng.uniform(0.0001, 0.9999)))
        if kind == "hiccups" and rng.random() < 0.1:
            drawn /= 2
        speeds.append(factor * drawn)
    return a_point(speeds)


# Kind and size of the noise; of 1000 pairs of runs, how many FAIL and how many are INCONCLUSIVE:
# where both are equal, and where the later one is 30 % slower.
RATES = [
    ("flat", 0.02, (0, 0), (1000, 0)),
    ("flat", 0.10, (0, 36), (1000, 0)),
    ("flat", 0.20, (0, 479), (782, 217)),
    ("normal", 0.02, (0, 0), (1000, 0)),
    ("normal", 0.05, (0, 4), (1000, 0)),
    ("normal", 0.10, (0, 220), (831, 169)),
    ("normal", 0.20, (0, 846), (145, 847)),
    ("hiccups", 0.02, (0, 4), (452, 546)),
]


@pytest.mark.parametrize(("kind", "spread", "equal", "slower"), RATES)
def test_rates_of_false_alarms_and_of_slow_downs_found(kind, spread, equal, slower):
    rng = random.Random(20)
    verdicts = {"equal": [], "slower": []}
    for _ in range(RUNS):
        before = drawn(rng, kind, spread)
        verdicts["equal"].append(verdict(drawn(rng, kind, spread), before))
        verdicts["slower"].append(verdict(drawn(rng, kind, spread, 0.7), before))
    counted = {
        which: (found.count(Verdict.FAIL), found.count(Verdict.INCONCLUSIVE))
        for which, found in verdicts.items()
    }
    assert counted == {"equal": equal, "slower": slower}


@pytest.mark.parametrize("seed", range(20))
def test_ten_percent_of_jitter_is_no_fail(seed):
    rng = random.Random(seed)
    assert verdict(drawn(rng, "flat", 0.1), drawn(rng, "flat", 0.1)) is not Verdict.FAIL


def test_slow_down_by_less_than_two_starts_differ_is_no_fail():
    assert verdict(a_point([0.93] * LEAST_ROUNDS)) is Verdict.PASS
    assert verdict(a_point([0.91] * LEAST_ROUNDS)) is Verdict.FAIL


def test_slow_down_under_the_noise_is_no_fail():
    noisy = [0.7, 1.3, 1.0, 0.85, 1.1, 0.75, 1.2]
    assert verdict(a_point([0.8 * speed for speed in noisy]), a_point(noisy)) is not Verdict.FAIL


def test_one_round_as_fast_as_before_leaves_a_slow_down_open():
    assert verdict(a_point([0.7] * (LEAST_ROUNDS - 1) + [1.0])) is Verdict.INCONCLUSIVE


def test_noise_that_would_hide_a_slow_down_is_told():
    noisy = [0.6, 1.4, 1.0, 0.75, 1.2, 0.7, 1.3]
    found = judge(a_point(noisy), BEFORE, None, MARGIN, "")
    assert found.verdict is Verdict.INCONCLUSIVE
    assert "rounds vary by" in found.measured
    assert found.wanted == f"noise of at most {MOST_NOISE:.0%}"


@pytest.mark.parametrize(
    ("now", "says", "next_step"),
    [
        (
            a_point([0.7] * LEAST_ROUNDS),
            "0.70 of the earlier: step 17.14 ms after 12.00 ms",
            "steps take",
        ),
        (
            a_point([1] * LEAST_ROUNDS, accept=3),
            "0.50 of the earlier: acceptance 3.00 after 6.00",
            "drafts",
        ),
        (
            a_point([2] * LEAST_ROUNDS, accept=3),
            "1.00 of the earlier: acceptance 3.00 after 6.00; step 6.00 ms after 12.00 ms",
            "drafts",
        ),
        (
            a_point([0.7] * LEAST_ROUNDS, accept=8),
            "0.93 of the earlier: acceptance 8.00 after 6.00; step 17.14 ms after 12.00 ms",
            "steps take",
        ),
        (a_point([1] * LEAST_ROUNDS, accept=1), "acceptance 1.00 after 6.00", "drafts"),
        (
            a_point([1] * LEAST_ROUNDS, decoding=0.5),
            "0.56 of the earlier: queueing: requests decode 50% of the time after 90%",
            "requests wait",
        ),
    ],
)
def test_fail_says_what_changed(now, says, next_step):
    found = judge(now, BEFORE, None, MARGIN, "")
    assert found.verdict is Verdict.FAIL
    assert says in found.measured
    assert next_step in found.next_step


def test_faster_is_a_pass_and_says_why():
    found = judge(a_point([1.5] * LEAST_ROUNDS), BEFORE, None, MARGIN, "")
    assert found.verdict is Verdict.PASS
    assert found.measured.endswith("1.50 of the earlier: step 8.00 ms after 12.00 ms")


def test_failed_request_is_a_fail_without_an_earlier_receipt_too():
    found = judge(a_point([1] * LEAST_ROUNDS, failed=1), None, None, MARGIN, "refused")
    assert (found.verdict, found.measured) == (Verdict.FAIL, "7 of 168 requests failed: refused")


@pytest.mark.parametrize(
    ("now", "before"),
    [
        (a_point([0.5] * (LEAST_ROUNDS - 1)), BEFORE),
        (a_point([0.5] * LEAST_ROUNDS), a_point([1] * (LEAST_ROUNDS - 1))),
        (a_point([0.5] * LEAST_ROUNDS), a_point([1] * LEAST_ROUNDS, failed=1)),
        (a_point([0.5] * LEAST_ROUNDS, tokens=999), BEFORE),
    ],
)
def test_runs_that_cannot_be_compared(now, before):
    assert verdict(now, before) is Verdict.INCONCLUSIVE


def test_nothing_to_hold_it_to_is_a_record_only():
    found = judge(BEFORE, None, None, MARGIN, "")
    assert found.verdict is Verdict.SKIP
    assert "acceptance 6.00, a step of 12.00 ms" in found.measured


@pytest.mark.parametrize(("limit", "wanted"), [(11.5, Verdict.FAIL), (11.9, Verdict.PASS)])
def test_limit_fails_only_if_every_round_is_above_it(limit, wanted):
    assert judge(BEFORE, None, limit, MARGIN, "").verdict is wanted


def test_a_change_has_a_direction():
    worse, better = (
        change([7.0] * LEAST_ROUNDS, [10.0] * LEAST_ROUNDS, 0.1),
        change([10.0] * LEAST_ROUNDS, [7.0] * LEAST_ROUNDS, 0.1),
    )
    assert (worse.worse, worse.better) == (better.better, better.worse) == (True, False)
