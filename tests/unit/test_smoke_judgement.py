"""The pure parts of the smoke test: figures, verdicts, metrics."""

import json

import pytest
import requests
from fake_engine import KEYS

from dflash_kit import paths
from dflash_kit.errors import InputError
from dflash_kit.smoke.checks import table
from dflash_kit.smoke.client import Engine, parse_metrics, total
from dflash_kit.smoke.exact import ExactRun, Generated
from dflash_kit.smoke.receipt import Receipt, redacted, to_json, write
from dflash_kit.smoke.suite import Suite
from dflash_kit.verdicts import Record, Verdict, overall


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


@pytest.mark.parametrize("secret", ["e", "PASS", 'quoted"key', "0"])
def test_key_that_is_part_of_the_receipt_itself(secret):
    receipt = Receipt(
        url="u",
        release="r",
        profile=None,
        point=None,
        identity={"hi": [f"<{secret}>"], f"x{secret}": {"y": secret}},
        engine={},
        seconds=1.0,
        figures={"tok_s_c1": 0.5},
        checks=[Record(code="c", verdict=Verdict.PASS, measured=f"a {secret} b", wanted="")],
        verdict=Verdict.PASS,
    )
    clean = Receipt.model_validate_json(to_json(redacted(receipt, [secret])))
    assert clean.verdict is clean.checks[0].verdict is Verdict.PASS
    assert clean.identity == {"hi": ["<<key>>"], "x<key>": {"y": "<key>"}}
    assert clean.checks[0].measured == "a <key> b"
    assert clean.seconds == 1.0


def test_receipt_is_replaced_in_one_step(tmp_path, monkeypatch):
    file = tmp_path / "receipt.json"
    write(file, "old")
    write(file, "new")
    assert file.read_text() == "new"
    monkeypatch.setattr("os.replace", lambda *_: (_ for _ in ()).throw(OSError(28, "full")))
    with pytest.raises(InputError, match="cannot be written .full.; give --receipt another"):
        write(file, "never")
    assert file.read_text() == "new"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["receipt.json"]


@pytest.mark.parametrize("kind", [requests.JSONDecodeError, json.JSONDecodeError])
def test_answer_that_is_no_json_is_wrong(kind):
    suite = Suite(Engine("http://nowhere.invalid", KEYS, ""), wanted=None)
    suite.record_error("code", "an answer", kind("Expecting value", "<html>", 0))
    record = suite.records["code"]
    assert (record.verdict, record.measured) == (Verdict.FAIL, "the answer is not JSON")


def test_the_docs_have_every_check():
    """After a change of CHECKS: put checks.table() into docs/smoke.md."""
    assert (paths.ROOT / "docs" / "smoke.md").read_text().endswith("-->\n" + table())
