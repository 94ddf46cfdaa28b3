"""The pure parts of the smoke test: figures, verdicts, metrics."""

import pytest

from dflash_kit.smoke.client import parse_metrics, total
from dflash_kit.smoke.exact import ExactRun, Generated
from dflash_kit.smoke.receipt import Record, Verdict, overall


def generated(tokens, passes):
    return Generated([1] * tokens, [1] * tokens, passes)


def test_acceptance_weighs_tokens_not_requests():
    run = ExactRun([generated(80, 10), generated(20, 20)], 1.0)
    assert run.accept_length == pytest.approx(100 / 30)  # not the mean of 8 and 1


@pytest.mark.parametrize(("tokens", "passes"), [(1, 0), (2, 1), (9, 1), (10, 2), (64, 8), (65, 8)])
def test_least_passes_with_a_block_of_8(tokens, passes):
    assert ExactRun([generated(tokens, 1)], 1.0).least_passes(8) == passes


@pytest.mark.parametrize(
    ("got", "at"), [([1, 2, 3], None), ([1, 9, 3], 1), ([1, 2], 2), ([1, 2, 3, 4], 3), ([], 0)]
)
def test_first_difference(got, at):
    assert Generated([1, 2, 3], got, 0).difference == at


@pytest.mark.parametrize(
    ("verdicts", "result"),
    [
        ("PASS SKIP WARN", "PASS"),
        ("PASS INCONCLUSIVE", "INCONCLUSIVE"),
        ("INCONCLUSIVE FAIL PASS", "FAIL"),
    ],
)
def test_overall(verdicts, result):
    records = [
        Record(code="x", verdict=Verdict(verdict), measured="", wanted="")
        for verdict in verdicts.split()
    ]
    assert overall(records) == result


METRICS = """# HELP sglang:generation_tokens_total Number of generation tokens processed.
# TYPE sglang:generation_tokens_total counter
sglang:generation_tokens_total{model_name="tiny",tp_rank="0"} 120.0
sglang:generation_tokens_total{model_name="a b",tp_rank="1"} 3.0
sglang:generation_tokens_histogram_bucket{le="+Inf"} 7.0
sglang:bare 1e3
"""


def test_metrics_are_summed_over_labels_of_one_name():
    samples = parse_metrics(METRICS)
    assert total(samples, "sglang:generation_tokens_total") == 123.0
    assert total(samples, "sglang:bare") == 1000.0
    assert total(samples, "sglang:generation_tokens") == 0.0
