"""`dflash-kit report diff`: what went in, what came of it, and what of that is noise."""

import json

import pytest
from report_receipts import PATCHES, receipt, speed
from typer.testing import CliRunner

from dflash_kit.cli import app
from dflash_kit.report.diff import compare
from dflash_kit.smoke.receipt import Host, to_json
from dflash_kit.smoke.speed_gate import LEAST_ROUNDS
from dflash_kit.verdicts import Verdict

OLD, NEW = "0.5.11-dflash.1", "0.5.11-dflash.2"
FAILED = {"exact-c1": (Verdict.FAIL, "5 of 6 equal", "compare weights")}
OPEN = {"exact-c1": (Verdict.INCONCLUSIVE, "not run", "run it again")}


def test_equal_receipts_differ_in_nothing():
    made = receipt(speed=speed(1))
    found = compare(made, made)
    assert (found.inputs, found.checks, found.patches_added, found.patches_removed) == (
        [], [], [], [],
    )  # fmt: skip
    assert {figure.meaning for figure in found.figures} == {"the same", "within noise"}
    assert found.verdict is Verdict.PASS


def test_inputs_that_differ():
    a = receipt(release=OLD)
    b = receipt(
        host=Host(name="gpu1", system="Linux-6.8.0-x86_64", cpus=128, inside_image=True),
        point="throughput",
        identity={"patches": [*PATCHES[1:], "new.patch"], "tree": "2" * 64},
        engine={"version": "0.5.11", "tp_size": 4, "ep_size": 1},
    )
    found = compare(a, b)
    changed = {each.name: (each.a, each.b) for each in found.inputs}
    assert changed["release"] == (OLD, NEW)
    assert changed["point"] == ("latency", "throughput")
    assert changed["host driver"] == ("580.65.06", "unknown")
    assert changed["host gpus"][1] == "none"
    assert changed["engine tp_size"] == ("8", "4")
    assert changed["engine ep_size"] == ("unknown", "1")
    assert "profile" not in changed and "engine version" not in changed
    assert (found.patches_added, found.patches_removed) == (["new.patch"], [PATCHES[0]])


@pytest.mark.parametrize(
    ("a", "b", "verdict"),
    [
        ({}, FAILED, Verdict.FAIL),
        (OPEN, FAILED, Verdict.FAIL),
        ({}, OPEN, Verdict.INCONCLUSIVE),
        (FAILED, {}, Verdict.PASS),
        (FAILED, FAILED, Verdict.PASS),
        (FAILED, OPEN, Verdict.PASS),
    ],
    ids=range(6),
)
def test_checks_that_differ(a, b, verdict):
    found = compare(receipt(wrong=a), receipt(wrong=b))
    assert found.verdict is verdict
    assert [check.code for check in found.checks] == ["exact-c1"] * (a is not b)


def test_a_check_that_is_gone_proves_nothing():
    whole = receipt()
    checks = [check for check in whole.checks if check.code != "exact-c1"]
    found = compare(whole, whole.model_copy(update={"checks": checks}))
    assert found.verdict is Verdict.INCONCLUSIVE
    assert found.checks[0].measured == "not asked"


def meaning(a, b, name: str = "C=8 tok/s") -> str:
    found = compare(receipt(speed=a), receipt(speed=b))
    return next(figure.meaning for figure in found.figures if figure.name == name)


@pytest.mark.parametrize(
    ("step_ms", "spread", "said"),
    [
        (28, 0.01, "worse"),
        (15, 0.01, "better"),
        (21, 0.01, "within noise"),  # less than two starts of one deployment may differ by
        (28, 0.5, "within noise"),
    ],
)
def test_speed_against_its_noise(step_ms, spread, said):
    a, b = speed(1, spread=spread), speed(2, step_ms=step_ms, spread=spread)
    assert meaning(a, b) == said
    assert meaning(a, b, "C=8 step ms") == said  # here less is better


def test_worse_acceptance_is_told_from_a_worse_step():
    a, b = speed(1, step_ms=20, accept=4.0), speed(2, step_ms=20, accept=2.0)
    assert meaning(a, b, "C=1 acceptance") == "worse"
    assert meaning(a, b, "C=1 step ms") == "within noise"


def test_speeds_that_cannot_be_compared_are_not():
    a = speed(1)
    assert meaning(a, speed(2, rounds=1)) == f"fewer than {LEAST_ROUNDS} rounds"
    assert meaning(a, []) == "not measured in B"
    others = [point.model_copy(update={"prompts": 99}) for point in speed(2, step_ms=40)]
    assert meaning(a, others) == "other prompts"
    assert compare(receipt(speed=a), receipt(speed=others)).verdict is Verdict.PASS


def test_single_figures_have_a_ratio_and_no_judgement():
    a, b = receipt(figures={"tok_s_c1": 100.0, "x": 1.0}), receipt(figures={"tok_s_c1": 40.0})
    found = {figure.name: figure for figure in compare(a, b).figures}
    assert (found["tok_s_c1"].ratio, found["tok_s_c1"].meaning) == (0.4, "noise not measured")
    assert (found["x"].b, found["x"].ratio, found["x"].meaning) == (None, None, "not measured in B")


@pytest.mark.parametrize(("wrong", "code"), [({}, 0), (FAILED, 1), (OPEN, 3)])
def test_command(wrong, code, tmp_path):
    files = [tmp_path / name for name in ("a.json", "b.json")]
    for file, made in zip(
        files, (receipt(release=OLD, speed=speed(1)), receipt(wrong=wrong)), strict=True
    ):
        file.write_text(to_json(made))
    done = CliRunner().invoke(app, ["report", "diff", *map(str, files)])
    assert done.exit_code == code
    assert f"{OLD}" in done.output and "not measured" in done.output
    told = CliRunner().invoke(app, ["report", "diff", "--json", *map(str, files)])
    plain = json.loads(told.output)
    assert (told.exit_code, plain["inputs"][0]["name"]) == (code, "release")
    assert plain["verdict"] == {0: "PASS", 1: "FAIL", 3: "INCONCLUSIVE"}[code]
