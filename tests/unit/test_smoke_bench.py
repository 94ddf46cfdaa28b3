"""A bench of the fake engine: each fault of speed gives its code, and says what changed."""

import json
import re

import pytest
from fake_bench import FakeServing
from fake_engine import KEYS, FakeEngine, tiny_answers
from fake_engine_http import serving
from fake_faults import Fault
from smoke_faults_speed import FAULTS, SAID

from dflash_kit import paths
from dflash_kit.errors import InputError
from dflash_kit.profiles.load import load_pair
from dflash_kit.smoke import bench, runner
from dflash_kit.smoke.bench import Bench
from dflash_kit.smoke.checks import Tier, required
from dflash_kit.smoke.client import Engine
from dflash_kit.smoke.wanted import Wanted
from dflash_kit.verdicts import Verdict

SPEED = ["speed-c1", "speed-c8", "speed-c32"]


def run(fault=Fault.NONE, before=None, point="latency", seed=0):
    """The receipt of a bench of the fake."""
    with serving(FakeEngine(fault, point)) as fake:
        engine = Engine(fake.url, KEYS, "a test")
        with_fake = Bench(FakeServing(fake, seed), fake.url, before=before)
        return runner.run(engine, Wanted(fake.lock), lambda *_, **__: None, Tier.BENCH, with_fake)


def not_passed(receipt):
    return {r.code: str(r.verdict) for r in receipt.checks if r.verdict is not Verdict.PASS}


@pytest.fixture(scope="module")
def good():
    """The last good receipt."""
    return run(seed=1)


def test_first_bench_of_a_host_only_records(good):
    assert not_passed(good) == dict.fromkeys(SPEED, "SKIP")
    assert good.verdict is Verdict.PASS
    assert good.tier is Tier.BENCH
    assert [check.code for check in good.checks] == required(Tier.BENCH)
    assert [point.concurrency for point in good.speed] == [1, 8, 32]
    assert [point.prompts for point in good.speed] == [24, 24, 96]
    first = good.speed[0]
    assert first.step_ms == pytest.approx(10, rel=0.02)
    assert (first.accept_length, len(first.rounds)) == (7.0, 7)
    assert good.checks[-1].measured.startswith("no earlier receipt to compare with: ")


def test_equal_engine_passes(good):
    again = run(before=good, seed=2)
    assert not_passed(again) == {}
    assert all("as before within 20%" in c.measured for c in again.checks if c.code in SPEED)


@pytest.mark.parametrize("fault", FAULTS)
def test_fault_gives_its_code_and_the_cause(fault, good):
    receipt = run(fault, good)
    assert not_passed(receipt) == FAULTS[fault].codes
    measured, next_step = SAID[fault]
    for check in receipt.checks:
        if check.code in FAULTS[fault].codes:
            assert re.search(measured, check.measured), check.measured
            assert next_step in check.next_step


def test_queueing_is_told_by_how_long_requests_wait(good):
    said = run(Fault.QUEUEING, good).checks[-1].measured
    assert re.search(r"decode \d\d% of the time after \d\d%, wait \d+ ms after 0 ms$", said)


def test_noise_alone_is_no_fail():
    """Of many seeds: test_smoke_speed_gate.py."""
    noisy = run(Fault.NOISY, seed=4)
    assert "FAIL" not in not_passed(run(Fault.NOISY, noisy, seed=5)).values()


def test_without_a_draft_there_is_no_acceptance():
    plain = run(point="throughput")
    assert {point.accept_length for point in plain.speed} == {None}
    assert not_passed(run(point="throughput", before=plain, seed=3)) == {}


def test_earlier_receipt_of_the_other_point_is_no_measure(good):
    receipt = run(point="throughput", before=good)
    assert not_passed(receipt) == dict.fromkeys(SPEED, "INCONCLUSIVE")
    assert "the earlier receipt is of cpu-tiny latency" in receipt.checks[-1].measured
    assert receipt.speed == []


def test_earlier_receipt_of_another_host_is_no_measure(good, monkeypatch):
    monkeypatch.setenv("DFLASH_KIT_HOST", "another")
    assert not_passed(run(before=good)) == dict.fromkeys(SPEED, "INCONCLUSIVE")


def test_limit_of_the_profile(monkeypatch, tmp_path):
    text = (paths.PROFILES / "cpu-tiny.yaml").read_text()
    assert "latency: {dflash: true}" in text
    (tmp_path / "cpu-tiny.yaml").write_text(
        text.replace(
            "latency: {dflash: true}", "latency: {dflash: true, step_ms: {1: 9.0, 8: 11.0}}"
        )
    )
    monkeypatch.setattr(paths, "PROFILES", tmp_path)
    receipt = run()
    assert not_passed(receipt) == {"speed-c1": "FAIL", "speed-c32": "SKIP"}
    failed = next(check for check in receipt.checks if check.code == "speed-c1")
    assert failed.wanted == "a step of at most 9 ms"
    # Neither an earlier receipt as slow as this one makes it right.
    assert not_passed(run(before=receipt)) == {"speed-c1": "FAIL"}


def test_prompts_of_a_data_set(tmp_path):
    turns = [{"conversations": [{"from": "human", "value": f"Question {at}"}]} for at in range(3)]
    lines = tmp_path / "lines.jsonl"
    lines.write_text("\n".join(json.dumps(turn) for turn in turns))
    whole = tmp_path / "whole.json"
    whole.write_text(json.dumps([{"conversations": []}, *turns]))
    found = bench.load_dataset(lines)
    assert found == bench.load_dataset(whole)
    assert (found.texts[1], found.tokens, found.chat) == ("Question 1", 256, True)
    with serving(FakeEngine()) as fake:
        asked = Bench(FakeServing(fake), fake.url, found).asked(
            Engine(fake.url, KEYS, "a test"), load_pair("tiny"), 8
        )
    assert asked.prompts == found.texts * 8
    assert asked.tokenizer == "/where/the/engine/has/it"
    assert KEYS.user not in repr(asked)


def test_known_prompts_are_in_the_chat_template_already():
    known, exact = bench.known_prompts(load_pair("tiny")), tiny_answers().exact
    assert known.texts[0] == exact[0].prompt_text
    assert (known.tokens, known.chat) == (64, False)


@pytest.mark.parametrize("text", ["", "[]", "{}", "[1]", '{"conversations": 7}', "no json"])
def test_data_set_without_conversations_is_refused(tmp_path, text):
    (tmp_path / "file").write_text(text)
    with pytest.raises(InputError, match="^--dataset .*file: got no conversation"):
        bench.load_dataset(tmp_path / "file")


def test_missing_data_set_is_refused(tmp_path):
    with pytest.raises(InputError, match="cannot be read: No such file"):
        bench.load_dataset(tmp_path / "file")
