"""What not every release can do: as declared, refused, or working after all."""

import pytest
import yaml
from fake_faults import Fault
from smoke_expected import BY_POINT, skipped
from smoke_faults_api import OF_FEATURES
from smoke_run import PROFILE, few_known_answers, not_passed, smoke  # noqa: F401

from dflash_kit import paths
from dflash_kit.errors import InputError
from dflash_kit.profiles.load import load_profile
from dflash_kit.releases import catalogue, engine_data
from dflash_kit.releases.engine_data import Feature
from dflash_kit.smoke import features
from dflash_kit.smoke.checks import Tier
from dflash_kit.verdicts import Verdict

RELEASE = catalogue.load(paths.RELEASES_FILE).default
RELEASES = catalogue.load(paths.RELEASES_FILE).releases
PARSERS = {"tool-call-parser": "kimi_k2", "reasoning-parser": "kimi_k2"}


@pytest.fixture
def every_feature(tmp_path, monkeypatch):
    """The profile of the CPU, as if it were for a GPU, with all that can be set up."""
    profile = yaml.safe_load((paths.PROFILES / f"{PROFILE}.yaml").read_text())
    profile["hardware"] |= {"accelerator": "Any GPU", "count": 1}
    profile["engine"]["arguments"] |= {"grammar-backend": "xgrammar", **PARSERS}
    (tmp_path / f"{PROFILE}.yaml").write_text(yaml.safe_dump(profile))
    monkeypatch.setattr(paths, "PROFILES", tmp_path)


def declare(monkeypatch, declared):
    """Nothing but these features, of the data of any release."""
    data = engine_data.load(RELEASE).model_copy(update={"features": declared})
    monkeypatch.setattr(engine_data, "load", lambda _: data)


def found(fault=Fault.NONE, point="throughput"):
    return not_passed(smoke(fault, point=point, tier=Tier.FULL))


def test_healthy_engine_with_every_feature(every_feature):
    assert found() == {"seed": "SKIP", "accept-length": "SKIP", "draft-graph": "SKIP"}


def test_healthy_engine_with_dflash_on_a_gpu(every_feature):
    missing = [*BY_POINT["latency"], "seed"]
    sampled = "temperature"  # the one that needs the GPU alone
    assert found(point="latency") == {code: "SKIP" for code in missing if code != sampled}


@pytest.mark.parametrize("fault", OF_FEATURES)
def test_fault_of_a_feature_gives_its_code(fault, every_feature):
    healthy = {"seed": "SKIP", "accept-length": "SKIP", "draft-graph": "SKIP"}
    assert found(fault) == {**healthy, **OF_FEATURES[fault].codes}


def test_what_works_though_it_is_declared_missing_is_a_warning():
    receipt = smoke(Fault.LOGPROBS_AFTER_ALL, tier=Tier.FULL)
    assert not_passed(receipt) == {**skipped(Tier.FULL), "logprobs": "WARN"}
    assert receipt.verdict is Verdict.PASS
    record = next(record for record in receipt.checks if record.code == "logprobs")
    assert "update the data" in record.next_step and RELEASE in record.next_step


def test_reason_says_whether_release_or_profile_lacks_it():
    records = smoke(point="latency", tier=Tier.FULL).checks
    why = {record.code: record.measured for record in records}
    assert why["logprobs"] == f"{RELEASE}: DFlash refuses requests for log probabilities"
    assert why["json-schema"] == f"profile {PROFILE}: grammar-backend is none"


def test_seed_that_is_declared_and_ignored(every_feature, monkeypatch):
    declare(monkeypatch, engine_data.load(RELEASE).features | {"seed": Feature(supported=True)})
    assert found()["seed"] == "FAIL"


@pytest.mark.parametrize(
    ("when", "gpu", "dflash", "missing"),
    [
        ("always", True, False, True),
        ("dflash", False, False, False),
        ("dflash", True, True, True),
        ("dflash-cpu", True, True, False),
        ("dflash-cpu", False, False, False),
        ("dflash-cpu", False, True, True),
    ],
)
def test_when_a_missing_feature_is_missing(when, gpu, dflash, missing, monkeypatch):
    declare(monkeypatch, {"x": Feature(supported=False, when=when, why="no")})
    profile = load_profile("h200-x1" if gpu else PROFILE)
    assert bool(features.support("x", "r", profile, dflash).why) == missing


@pytest.mark.parametrize("release", RELEASES)
def test_every_release_declares_what_the_suite_asks_for(release):
    asked = {"n", "sampling", "seed", "min-p", "penalties", "min-tokens"}
    asked |= {"logprobs", "json-schema", "tools", "tools-required", "reasoning"}
    assert engine_data.load(release).features.keys() == asked


@pytest.mark.parametrize(
    ("content", "wrong"),
    [
        ("features: {x: {supported: false}}", "got false without a why"),
        ("features: {x: {supported: true, when: dflash}}", "goes with supported: false"),
        ("features: {x: {supported: maybe}}", "features.x.supported: got 'maybe'"),
        ("features: [", "is not YAML"),
        (None, "cannot be read"),
    ],
)
def test_wrong_data_are_one_line(content, wrong, tmp_path, monkeypatch):
    monkeypatch.setattr(paths, "IMAGES", tmp_path)
    (tmp_path / wrong).mkdir()
    if content is not None:
        (tmp_path / wrong / "engine.yaml").write_text(content)
    with pytest.raises(InputError) as error:
        engine_data.load(wrong)
    assert wrong in str(error.value).removeprefix(str(tmp_path / wrong))
    assert "\n" not in str(error.value)


def test_feature_that_is_not_declared_is_a_mistake_of_the_data(monkeypatch):
    declare(monkeypatch, {})
    with pytest.raises(InputError, match="engine.yaml: features: lacks tools"):
        features.support("tools", RELEASE, load_profile(PROFILE), True)
