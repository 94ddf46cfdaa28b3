"""Each way in which an engine can be wrong gives its own code, and no other."""

import sys
from types import ModuleType

import pytest
import smoke_faults_api
import smoke_faults_speed
import smoke_faults_state
import yaml
from fake_engine import default_lock
from fake_faults import Fault
from smoke_expected import skipped, table
from smoke_run import PROFILE, few_known_answers, not_passed, smoke  # noqa: F401

from dflash_kit import paths
from dflash_kit.smoke import suite
from dflash_kit.smoke.checks import CHECKS, FIRST_TOKEN, Tier, required
from dflash_kit.verdicts import Verdict

ON_CPU = skipped(Tier.QUICK)
OFF = skipped(Tier.QUICK, "throughput")
# Long enough for a busy machine, short enough to wait for.
PATIENCE = 2.0

FAULTS = smoke_faults_state.FAULTS | smoke_faults_api.FAULTS


@pytest.mark.parametrize("tier", Tier.SOAK.included)
@pytest.mark.parametrize("point", ["latency", "throughput"])
def test_good_engine_passes_everything(point, tier):
    receipt = smoke(point=point, asked={"profile": PROFILE, "point": point}, tier=tier)
    assert not_passed(receipt) == skipped(tier, point)
    assert receipt.verdict is Verdict.PASS
    assert [record.code for record in receipt.checks] == required(tier)


def test_receipt_says_what_ran_and_how_fast():
    receipt = smoke()
    assert (receipt.profile, receipt.point) == (PROFILE, "latency")
    assert receipt.identity["tree"] == default_lock().tree
    assert receipt.engine["speculative_algorithm"] == "DFLASH"
    assert receipt.figures["accept_length"] == pytest.approx(64 / 9, abs=0.001)
    assert receipt.figures["accept_rate"] == pytest.approx((64 - 9) / (9 * 7), abs=0.001)
    assert receipt.figures["tok_s_c1"] > 0 < receipt.figures["tok_s_c4"]


@pytest.mark.parametrize("fault", FAULTS)
def test_fault_gives_its_code(fault):
    expected = FAULTS[fault]
    receipt = smoke(fault, expected.seconds, tier=expected.tier)
    found, wanted = not_passed(receipt), {**skipped(expected.tier), **expected.codes}
    for code in set(expected.related) - wanted.keys():
        found.pop(code, None)
    assert found == wanted
    assert receipt.verdict is Verdict.FAIL
    assert all(r.next_step for r in receipt.checks if r.code in expected.codes)


@pytest.mark.parametrize("fault", [f for f, e in FAULTS.items() if e.tier is not Tier.QUICK])
def test_tier_below_does_not_catch_it(fault):
    """The tier in the table is the least one: whoever reads it picks a tier by it."""
    below = FAULTS[fault].tier.included[-2]
    assert not_passed(smoke(fault, tier=below)) == skipped(below)


def test_every_check_is_seen_to_fail():
    speed = smoke_faults_speed.FAULTS.values()  # test_smoke_bench.py
    table = [*FAULTS.values(), *smoke_faults_api.OF_FEATURES.values(), *speed]
    seen = {code for e in table for code, verdict in e.codes.items() if verdict == "FAIL"}
    below = {"can-generate", "deployment", "draft-graph", "verify-graph"}
    # test_smoke_features.py, test_smoke_bench.py
    elsewhere = {"seed", "speed-c1", "speed-c8", "speed-c32"}
    assert seen | below | elsewhere == set(CHECKS)


def test_draft_at_the_point_without_one():
    assert not_passed(smoke(Fault.DFLASH_ON, point="throughput")) == {**OFF, "dflash": "FAIL"}


@pytest.mark.parametrize("asked", [{"point": "throughput"}, {"profile": "b300-x8"}])
def test_other_deployment_than_asked_for(asked):
    assert not_passed(smoke(asked=asked))["deployment"] == "FAIL"


def test_engine_that_reports_nothing_of_itself():
    receipt = smoke(Fault.NO_IDENTITY)
    found = not_passed(receipt)
    reported = dict.fromkeys(["release", "patches", "tree", "deployment"], "FAIL")
    assert {code: verdict for code, verdict in found.items() if verdict == "FAIL"} == reported
    assert found["known-answers"] == found["dflash"] == "INCONCLUSIVE"


def test_hung_engine_is_asked_only_until_that_is_clear():
    receipt = smoke(Fault.HANGS, PATIENCE)
    found = not_passed(receipt)
    later = [*smoke_faults_state.UNASKED, FIRST_TOKEN, "alive-at-end"]
    assert found == {"can-generate": "FAIL", **dict.fromkeys(later, "INCONCLUSIVE")}
    assert receipt.verdict is Verdict.FAIL
    assert receipt.checks[3].measured == "not run: can-generate did not pass"


def test_run_is_not_longer_than_its_limit(monkeypatch):
    monkeypatch.setitem(suite.RUN_SECONDS, Tier.QUICK, 0.0)
    receipt = smoke()
    asked = [code for code in required(Tier.QUICK) if not CHECKS[code].anyway]
    assert not_passed(receipt) == dict.fromkeys([*asked, "alive-at-end"], "INCONCLUSIVE")
    assert receipt.checks[0].measured == "not run: the run took longer than 0 s"


def test_no_answer_in_time_is_neither_pass_nor_fail():
    receipt = smoke(Fault.CHAT_HANGS, PATIENCE)
    # The engine still generates, so that what does not need chat is judged.
    chats = smoke_faults_api.CHATS
    found = not_passed(receipt)
    assert found.pop("malformed") == "FAIL"
    assert found == {**ON_CPU, **dict.fromkeys(chats, "INCONCLUSIVE")}


def test_engine_that_dies_midway():
    receipt = smoke(Fault.DIES_MIDWAY)
    codes = required(Tier.QUICK)
    later = dict.fromkeys(codes[codes.index("exact-c1") : -1], "INCONCLUSIVE")
    assert not_passed(receipt) == later | {"alive-at-end": "FAIL", "processes": "FAIL"}
    found = {record.code: record for record in receipt.checks}
    assert found["malformed"].measured == "not run: the engine stopped answering during exact-c1"
    assert found["processes"].measured.startswith("the container is not running; ")


@pytest.mark.parametrize(("watched", "verdict"), [(True, "INCONCLUSIVE"), (False, "SKIP")])
def test_container_that_is_not_seen(watched, verdict):
    """That docker may not be asked is a gap; that it shall not be asked is a choice."""
    receipt = smoke(Fault.CONTAINER_HIDDEN, watched=watched)
    assert not_passed(receipt) == ON_CPU | dict.fromkeys(["processes", "ranks", "log"], verdict)
    steps = [r.next_step for r in receipt.checks if r.verdict is Verdict.INCONCLUSIVE]
    assert all("give --outside" in step for step in steps)


def test_log_without_its_beginning_proves_nothing_by_what_it_lacks():
    assert not_passed(smoke(Fault.LOG_CUT)) == ON_CPU | {"log": "INCONCLUSIVE"}


@pytest.fixture
def gpu_profile(tmp_path, monkeypatch):
    """The profile of the CPU, as if it were for one GPU."""
    profile = yaml.safe_load((paths.PROFILES / f"{PROFILE}.yaml").read_text())
    profile["hardware"] |= {"accelerator": "Any GPU", "count": 1}
    (tmp_path / f"{PROFILE}.yaml").write_text(yaml.safe_dump(profile))
    monkeypatch.setattr(paths, "PROFILES", tmp_path)


@pytest.mark.usefixtures("gpu_profile")
@pytest.mark.parametrize(
    ("fault", "found"),
    [
        (Fault.NONE, {}),
        (Fault.DRAFT_EAGER, {"draft-graph": "FAIL"}),
        (Fault.DRAFT_UNCOUNTED, {"draft-graph": "INCONCLUSIVE"}),
        (Fault.VERIFY_EAGER, {"verify-graph": "FAIL"}),
    ],
)
def test_graphs_are_proven_on_a_gpu(fault, found):
    assert not_passed(smoke(fault)) == found


def test_modules_of_the_same_names_are_not_taken_for_the_suites(monkeypatch):
    monkeypatch.setattr(paths, "ROOT", paths.SMOKE_TESTS.parent)
    for file in paths.SMOKE_TESTS.glob("*.py"):
        monkeypatch.setitem(sys.modules, file.stem, ModuleType(file.stem))
    assert not_passed(smoke()) == ON_CPU


def test_missing_check_is_not_a_pass(tmp_path, monkeypatch):
    for file in paths.SMOKE_TESTS.glob("*.*"):
        if file.name != "test_exact.py":
            (tmp_path / file.name).write_text(file.read_text())
    (tmp_path / "test_broken.py").write_text("import no_such_module\n")
    monkeypatch.setattr(paths, "SMOKE_TESTS", tmp_path)
    receipt = smoke()
    assert not_passed(receipt) == {**ON_CPU, "exact-c1": "FAIL", "exact-c4": "FAIL"}
    missing = next(record for record in receipt.checks if record.code == "exact-c1")
    assert missing.measured.startswith("no record; ")
    assert "no_such_module" in missing.measured


def test_the_matrix_in_the_docs_is_what_is_tested():
    shown = (paths.IMAGES.parent / "docs" / "smoke-faults.md").read_text()
    everything = FAULTS | smoke_faults_speed.FAULTS
    assert table(everything) in shown, f"docs/smoke-faults.md needs:\n{table(everything)}"
