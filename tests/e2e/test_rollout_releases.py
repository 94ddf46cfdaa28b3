"""Across sglang versions and back on one host, and away from a release that is withdrawn."""

import itertools
import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from dflash_kit import paths
from dflash_kit.releases import catalogue, lockfile
from dflash_kit.report import diff
from dflash_kit.smoke import receipt as receipts
from tests.e2e.fleet.fleet import Fleet
from tests.e2e.fleet.play import Play
from tests.e2e.fleet.releases import offer, offer_broken
from tests.e2e.node import ROOT
from tests.e2e.rollout import Rollout, is_proved, row

pytestmark = pytest.mark.other_release
OFFERED = catalogue.load(paths.RELEASES_FILE).offered
# The last release on each sglang; from the oldest to the newest, and back.
LAST = list({entry.sglang: name for name, entry in OFFERED.items()}.values())
STEPS = [*itertools.pairwise(LAST), *itertools.pairwise(LAST[::-1])]
OLDEST, NEWEST = LAST[0], LAST[-1]
EXACT = ("known-answers", "known-answers-stream", "exact-c1", "exact-c4")
# What a release is; all else that goes in is the same.
OF_A_RELEASE = {"release", "image", "deployment", "identity release", "identity sglang"}
OF_A_RELEASE |= {"identity tree"}
WHY = "its text is wrong"
ALLOWED = {"dflash_kit_allow_withdrawn": True}


@pytest.fixture(scope="module")
def rollout(fleet: Fleet, tmp_path_factory: pytest.TempPathFactory) -> Rollout:
    """The first host on the oldest of them."""
    made = Rollout(fleet, tmp_path_factory.mktemp("releases"))
    for release in LAST:
        offer(fleet.registry, release)
    made.one.bare(images=False)
    done = put(made, OLDEST)
    assert done.rc == 0, done.out
    return made


@pytest.fixture(scope="module")
def withdrawn(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A root like the repository, in which the oldest release is withdrawn."""
    root = tmp_path_factory.mktemp("root")
    images = root / "images"
    images.mkdir()
    for each in [*ROOT.iterdir(), *paths.IMAGES.iterdir()]:
        link = (images if each.parent == paths.IMAGES else root) / each.name
        if each not in (paths.IMAGES, paths.RELEASES_FILE):
            link.symlink_to(each)
    content = yaml.safe_load(paths.RELEASES_FILE.read_text())
    content["default"] = NEWEST
    # Whatever else is on its sglang is no better.
    for name, entry in content["releases"].items():
        if entry["sglang"] == OFFERED[OLDEST].sglang:
            since = {"since": entry["cutoff"], "why": WHY}
            content["releases"][name] = entry | {"withdrawn": since}
    (images / paths.RELEASES_FILE.name).write_text(yaml.safe_dump(content))
    return root


def put(rollout: Rollout, release: str, **variables: object) -> Play:
    return rollout.deploy(release, "--limit", "host1", **variables)


def back(rollout: Rollout, **variables: object) -> Play:
    return rollout.play("rollback", "--limit", "host1", **variables)


def exactness(receipt: dict[str, Any]) -> dict[str, tuple[str, str]]:
    """Verdict and count of each check on the text."""
    checks = {check["code"]: check for check in receipt["checks"]}
    return {code: (checks[code]["verdict"], checks[code]["measured"]) for code in EXACT}


def patches(release: str) -> set[str]:
    return {patch.name for patch in lockfile.read(paths.IMAGES / release).patches}


@pytest.mark.parametrize(("before", "after"), STEPS, ids=[f"{a}-to-{b}" for a, b in STEPS])
def test_another_sglang_answers_the_same(rollout: Rollout, before: str, after: str) -> None:
    assert is_proved(rollout.one, before)
    old = rollout.one.receipt()
    done = put(rollout, after)
    assert done.rc == 0, done.out
    assert is_proved(rollout.one, after)
    _, left, came, result, *_ = row(done, "host1")
    assert (left.startswith(before), came.startswith(after), result) == (True, True, "proved")
    new = rollout.one.receipt()
    found = diff.compare(*(receipts.load(json.dumps(each), "receipt") for each in (old, new)))
    differ = {each.name for each in found.inputs if not each.name.startswith(("engine ", "host "))}
    assert differ == OF_A_RELEASE
    assert set(found.patches_added) == patches(after) - patches(before)
    assert set(found.patches_removed) == patches(before) - patches(after)
    assert exactness(new) == exactness(old)
    assert {verdict for verdict, _ in exactness(new).values()} == {"PASS"}
    assert not [check for check in found.checks if check.worse or check.lost], found.checks


def test_a_host_leaves_a_withdrawn_release_and_does_not_come_back(
    rollout: Rollout, withdrawn: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = rollout.one
    assert is_proved(host, OLDEST)
    name, before = host.current(), host.listing()
    monkeypatch.setenv("DFLASH_KIT_ROOT", str(withdrawn))
    line = f"{OLDEST} is withdrawn since {OFFERED[OLDEST].cutoff}: {WHY}; next: take {NEWEST}"

    shown = rollout.play("status", "--limit", "host1")
    assert shown.rc == 0 and f"host1: {line}" in shown.out, shown.out
    refused = put(rollout, OLDEST)
    assert refused.rc != 0 and f"release: {line}" in refused.out, refused.out
    assert host.listing() == before

    done = back(rollout)
    assert done.rc == 0, done.out
    assert not (host.current() or "").startswith(OLDEST) and host.last_good() == host.current()

    refused = back(rollout, dflash_kit_to=name)
    assert refused.rc != 0 and f"{name}: {line}" in " ".join(refused.out.split()), refused.out
    done = back(rollout, dflash_kit_to=name, **ALLOWED)
    assert done.rc == 0, done.out
    assert is_proved(host, OLDEST) and host.current() == name

    done = put(rollout, NEWEST)
    assert done.rc == 0, done.out
    assert is_proved(host, NEWEST)


def test_after_a_bad_release_nothing_withdrawn_is_put_back(
    rollout: Rollout, withdrawn: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = rollout.one
    host.bare(images=False)
    assert put(rollout, OLDEST).rc == 0
    good = host.current()
    monkeypatch.setenv("DFLASH_KIT_ROOT", str(withdrawn))
    repository = offer_broken(rollout.fleet.registry, "never_serves", NEWEST)

    done = put(rollout, NEWEST, image_registry=repository)
    assert done.rc != 0
    said = " ".join(done.out.split())
    assert "no other deployment was ever good here, so the engine is stopped" in said
    assert f"{good} was, but {OLDEST} is withdrawn since" in said, done.out
    assert host.container() is None and host.current() is None

    done = back(rollout, **ALLOWED)
    assert done.rc == 0, done.out
    assert is_proved(host, OLDEST) and host.current() == good
