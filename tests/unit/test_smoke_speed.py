"""Speed points: what the rounds of one concurrency agree on."""

import pytest
from pydantic import ValidationError

from dflash_kit.smoke.speed import Percentiles, Round, SpeedPoint, noise

NONE = Percentiles(p50=0, p90=0, p99=0)


def a_round(tok_s: float, accept: float | None = 6.0, tpot: float = 2.0, **more: object) -> Round:
    return Round(
        tok_s=tok_s, tpot_ms=tpot, accept_length=accept, ttft_ms=NONE, itl_ms=NONE, e2e_ms=NONE,
        input_tokens=100, output_tokens=640, **more,
    )  # fmt: skip


def point(*rounds: Round) -> SpeedPoint:
    return SpeedPoint(concurrency=8, prompts=32, rounds=list(rounds))


def test_the_median_of_the_rounds_speaks():
    speed = point(a_round(100), a_round(400, failed=2), a_round(110, accept=5.0, queue_ms=7.0))
    assert (speed.tok_s, speed.accept_length, speed.failed, speed.queue_ms) == (110, 6.0, 2, 7.0)


def test_a_step_is_what_a_request_waits_for_the_tokens_of_one_pass():
    assert a_round(100, accept=6.0, tpot=2.0).step_ms == 12.0
    assert point(a_round(1, 4, 2), a_round(1, 5, 2), a_round(1, 8, 2)).step_ms == 10.0


def test_without_a_draft_a_step_is_a_token():
    plain = point(a_round(100, accept=None, tpot=2.5))
    assert (plain.accept_length, plain.step_ms, plain.queue_ms) == (None, 2.5, None)


def test_noise_is_relative_and_no_single_round_makes_it():
    quiet = [a_round(value) for value in (100, 101, 99, 102, 98)]
    assert point(*quiet).noise == pytest.approx(1.4826 * 0.01)
    assert point(*quiet[:4], a_round(20)).noise < 0.02
    assert point(*(a_round(10 * value.tok_s) for value in quiet)).noise == point(*quiet).noise


def test_noise_of_one_round_or_of_rounds_that_failed_is_none():
    assert (noise([100.0]), noise([0.0, 0.0])) == (0.0, 0.0)


@pytest.mark.parametrize("wrong", [{"tok_s": -1}, {"tok_s": float("nan")}, {"accept": 0.5}])
def test_impossible_figures_are_refused(wrong):
    with pytest.raises(ValidationError):
        a_round(**({"tok_s": 1.0} | wrong))


def test_a_point_survives_json():
    speed = point(a_round(100.5, queue_ms=1.5))
    assert SpeedPoint.model_validate_json(speed.model_dump_json()) == speed
