"""What an engine's log says of it, judged by the data of each release."""

import re

import engine_logs
import pytest
from fake_engine import KEYS

from dflash_kit import paths
from dflash_kit.errors import InputError
from dflash_kit.releases import catalogue, engine_data
from dflash_kit.smoke import engine_log

RELEASES = catalogue.load(paths.RELEASES_FILE).releases
NEWEST = list(RELEASES)[-1]
SIGNS = [(release, sign) for release in RELEASES for sign in engine_logs.of(release)["signs"]]
CPU = engine_logs.of(NEWEST)["sound"]["cpu"]


def judge(lines, release=NEWEST, dflash=True, gpu=False):
    return engine_log.judge(lines, engine_data.load(release).log, KEYS, dflash=dflash, gpu=gpu)


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize(
    ("where", "dflash", "gpu"),
    [("cpu", True, False), ("gpu", True, True), ("gpu-plain", False, True)],
)
def test_log_of_a_sound_engine(release, where, dflash, gpu):
    found = judge(engine_logs.of(release)["sound"][where], release, dflash, gpu)
    assert (found.wrong, found.lacking, found.cut) == ([], [], False)


@pytest.mark.parametrize("release", RELEASES)
def test_log_of_an_engine_without_dflash_does_not_do_for_one_with_it(release):
    found = judge(engine_logs.of(release)["sound"]["gpu-plain"], release, gpu=True)
    assert found.wrong == [] and len(found.lacking) >= 3


@pytest.mark.parametrize("release", RELEASES)
def test_the_cpus_log_does_not_do_on_a_gpu(release):
    found = judge(engine_logs.of(release)["sound"]["cpu"], release, gpu=True)
    assert any("every pass runs eagerly" in problem for problem in found.wrong)
    assert any("captured" in line for line in found.lacking)


@pytest.mark.parametrize("release", RELEASES)
def test_each_line_that_is_required_is_missed(release):
    lines = engine_logs.of(release)["sound"]["gpu"]
    for required in engine_data.load(release).log.required:
        of_it = [line for line in lines if re.search(required.pattern, line)]
        too_few = of_it[: required.times - 1]
        left = [line for line in lines if line not in of_it] + too_few
        missed = f"{required.pattern!r} ({required.means})"
        assert missed in judge(left, release, gpu=True).lacking
        assert missed not in judge(left + [of_it[-1]], release, gpu=True).lacking


@pytest.mark.parametrize(("release", "sign"), SIGNS)
def test_sign_of_a_broken_engine(release, sign):
    found = judge([*engine_logs.of(release)["sound"]["gpu"], sign, sign], release, gpu=True)
    assert len(found.wrong) == len(found.next_steps) == 1
    assert ", 2 times: " in found.wrong[0] and repr(sign[:60])[1:-1] in found.wrong[0]


@pytest.mark.parametrize("release", RELEASES)
def test_every_forbidden_line_is_among_the_signs(release):
    for line in engine_data.load(release).log.forbidden:
        found = [sign for sign in engine_logs.of(release)["signs"] if re.search(line.pattern, sign)]
        assert found, f"{release}: {line.pattern} is never seen to match"


def test_no_more_of_a_line_is_shown_than_a_receipt_should_hold():
    found = judge([*CPU, "Scheduler hit an exception: " + "what a user wrote " * 100])
    assert len(found.wrong[0]) < 300


@pytest.mark.parametrize("key", [KEYS.user, KEYS.admin])
def test_key_in_the_log(key):
    found = judge([*CPU, f"ServerArgs(api_key='{key}')"])
    assert found.wrong == ["a key is in the log"]


def test_log_without_its_beginning():
    assert judge(CPU[5:]).cut
    assert judge(CPU[5:]).lacking


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("pattern: watchdog timeout", "pattern: '['"), "is no regular expression"),
        (("kernel_tools:", "#"), "kernel_tools: got none"),
        (("when: dflash-gpu\n      means", "when: tuesday\n      means"), "log.forbidden"),
    ],
)
def test_data_that_is_wrong_is_one_line(tmp_path, monkeypatch, change, said):
    text = (paths.IMAGES / NEWEST / "engine.yaml").read_text()
    assert change[0] in text
    (tmp_path / "r").mkdir()
    (tmp_path / "r" / "engine.yaml").write_text(text.replace(*change))
    monkeypatch.setattr(paths, "IMAGES", tmp_path)
    engine_data.load.cache_clear()
    try:
        with pytest.raises(InputError, match=said) as caught:
            engine_data.load("r")
    finally:
        engine_data.load.cache_clear()
    assert "engine.yaml" in str(caught.value) and "\n" not in str(caught.value)
