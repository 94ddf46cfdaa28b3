"""What a receipt is bound to, and that nobody believes one that says more than its checks."""

import json

import pytest
from host_documents import gpu_answer

from dflash_kit.errors import InputError
from dflash_kit.smoke import counters, receipt
from dflash_kit.smoke.exact import ExactRun, Generated
from dflash_kit.smoke.receipt import Host, Receipt
from dflash_kit.verdicts import Record, Verdict


def make(**changes) -> str:
    checks = [
        Record(code="health", verdict=Verdict.PASS, measured="200", wanted="200"),
        Record(code="exact-c1", verdict=Verdict.PASS, measured="6 of 6", wanted="6 of 6"),
        Record(code="draft-graph", verdict=Verdict.SKIP, measured="no GPU", wanted="-"),
    ]
    made = Receipt(
        url="http://127.0.0.1:30000",
        release="0.5.11-dflash.2",
        profile="cpu-tiny",
        point="latency",
        deployment="0.5.11-dflash.2-cpu-tiny-latency-0123456789",
        image="sha256:" + "a" * 64,
        required=[check.code for check in checks],
        identity={"tree": "abc"},
        engine={"version": "0.5.11"},
        host=Host(name="one", driver="580.65.06", gpus=["NVIDIA H200"]),
        seconds=20.5,
        figures={"tok_s_c1": 100.0},
        metrics={'sglang:prompt_tokens_total{model_name="m"}': 12.0},
        accept_by_position=[0.9, 0.5],
        checks=checks,
        verdict=Verdict.PASS,
    )
    return json.dumps(json.loads(receipt.to_json(made)) | changes)


def test_what_is_written_is_read_again():
    text = make()
    assert json.loads(receipt.to_json(receipt.load(text, "r.json"))) == json.loads(text)


def test_the_gpus_are_those_that_the_engine_names():
    told = {"gpus": ["NVIDIA B300"] * 8, "driver": "590.48"}
    host = receipt.this_host(told)
    assert (host.gpus, host.driver) == (["NVIDIA B300"] * 8, "590.48")


@pytest.mark.parametrize("told", [{}, {"gpus": []}, {"gpus": "8 of them"}])
def test_gpus_of_here_where_the_engine_names_none(told, tmp_path, monkeypatch):
    smi = tmp_path / "nvidia-smi"
    smi.write_text(f"#!/bin/sh\ncat {tmp_path}/said\n")
    smi.chmod(0o755)
    (tmp_path / "said").write_text(gpu_answer("Testcard 9", 1)["stdout"])
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    assert receipt.this_host(told).gpus == ["Testcard 9"]


def checks_of(text: str, **verdicts: str | None) -> list[dict]:
    """The checks with other verdicts (underscores for hyphens); None leaves one out."""
    changed = {code.replace("_", "-"): verdict for code, verdict in verdicts.items()}
    checks = json.loads(text)["checks"]
    return [
        check | {"verdict": changed.get(check["code"], check["verdict"])}
        for check in checks
        if changed.get(check["code"], "") is not None
    ]


SKIPPED = {"health": "SKIP", "exact_c1": "SKIP"}


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        (
            {"checks": checks_of(make(), exact_c1=None)},
            "checks: exact-c1: required and missing: a missing check is not a pass",
        ),
        (
            {"checks": checks_of(make(), exact_c1="FAIL")},
            "verdict: got PASS, its checks come to FAIL",
        ),
        (
            {"checks": checks_of(make(), exact_c1="INCONCLUSIVE")},
            "verdict: got PASS, its checks come to INCONCLUSIVE",
        ),
        ({"verdict": "FAIL"}, "verdict: got FAIL, its checks come to PASS"),
        ({"checks": checks_of(make(), **SKIPPED)}, "verdict: got PASS, and no check passed"),
        ({"checks": checks_of(make()) * 2}, "draft-graph, exact-c1, health: more than once"),
        ({"required": []}, "required: got no check, wanted those of its tier"),
        ({"checks": [], "required": []}, "checks: got none: nothing was proved"),
    ],
    ids=range(8),
)
def test_verdict_that_the_checks_do_not_bear(changes, line):
    with pytest.raises(InputError) as told:
        receipt.load(make(**changes), "r.json")
    assert str(told.value).startswith("receipt r.json: ")
    assert line in str(told.value)
    assert str(told.value).endswith("; run the smoke test again")


@pytest.mark.parametrize("version", [0, 3, "2.1", None])
def test_unknown_schema_version(version):
    with pytest.raises(InputError, match="schema_version: got .*, wanted 1 to 2: read it with"):
        receipt.load(make(schema_version=version), "r.json")


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("", "receipt r.json: it: Invalid JSON"),
        ("[]", "receipt r.json: it: Input should be an object"),
        (make(figures={"tok_s_c1": "fast"}), "receipt r.json: figures.tok_s_c1: "),
        (make(accept_by_position=[1.5]), "receipt r.json: accept_by_position.0: "),
        (make(figures={"x": float("nan")}), "receipt r.json: figures.x: "),
    ],
    ids=["empty", "list", "text", "share", "nan"],
)
def test_what_is_no_receipt_gets_one_line(text, line):
    with pytest.raises(InputError) as told:
        receipt.load(text, "r.json")
    assert str(told.value).startswith(line)
    assert "\n" not in str(told.value)


def test_receipt_of_schema_1_is_read_and_held_to_the_checks_it_has():
    old = json.loads(make(schema_version=1))
    new = ("deployment", "image", "required", "tier", "speed", "accept_by_position", "metrics")
    for name in new:
        del old[name]
    read = receipt.load(json.dumps(old), "r.json")
    assert (read.schema_version, read.required, read.image) == (1, [], None)
    with pytest.raises(InputError, match="its checks come to FAIL"):
        failed = old | {"checks": checks_of(make(), health="FAIL")}
        receipt.load(json.dumps(failed), "r.json")


METRICS = """\
# HELP sglang:prompt_tokens_total Number of prefill tokens processed.
# TYPE sglang:prompt_tokens_total counter
sglang:prompt_tokens_total{model_name="m"} %d
# TYPE sglang:num_running_reqs gauge
sglang:num_running_reqs{model_name="m"} %d
# TYPE sglang:time_to_first_token_seconds histogram
sglang:time_to_first_token_seconds_sum{model_name="m"} %.1f
sglang:time_to_first_token_seconds_bucket{le="0.1",model_name="m"} %d
sglang:time_to_first_token_seconds_count{model_name="m"} 7
# TYPE sglang:broken_total counter
sglang:broken_total NaN
undeclared_total 5
"""


def test_counters_that_moved():
    before = counters.counters(METRICS % (10, 1, 0.5, 0))
    after = counters.counters(METRICS % (25, 3, 1.75, 4) + '# TYPE new counter\nnew_total{a="b"} 2')
    assert counters.moved(before, after) == {
        'sglang:prompt_tokens_total{model_name="m"}': 15,
        'sglang:time_to_first_token_seconds_sum{model_name="m"}': 1.3,
        'sglang:time_to_first_token_seconds_bucket{le="0.1",model_name="m"}': 4,
        'new_total{a="b"}': 2,
    }


def test_counters_of_an_engine_that_began_anew_go_back():
    assert counters.moved({"a": 5.0}, {"a": 2.0}) == {"a": -3}


def test_counters_that_could_not_be_read_are_none():
    assert counters.moved(None, {"a": 1.0}) == counters.moved({"a": 1.0}, None) == {}


def ran(*histograms: list[int]) -> ExactRun:
    return ExactRun([Generated([], [], sum(h), h) for h in histograms], 1.0)


def test_acceptance_by_position_is_of_all_passes_together():
    # 4 passes accepted none, 3 one, 1 two, 2 three.
    assert ran([3, 1, 0, 2], [1, 2, 1]).accept_by_position == [0.6, 0.3, 0.2]


@pytest.mark.parametrize("histograms", [[], [[]], [[0, 0]]])
def test_acceptance_by_position_is_empty_where_not_reported(histograms):
    assert ran(*histograms).accept_by_position == []
