"""Rollouts of releases that are no good: each is seen, taken back, and stays on its host."""

from pathlib import Path

import pytest

from tests.e2e.fleet.build import run
from tests.e2e.fleet.fleet import Fleet
from tests.e2e.fleet.releases import offer_broken
from tests.e2e.node import ROOT
from tests.e2e.rollout import ANSIBLE, FIRST, SECOND, Rollout, is_proved, release_of, row

# What stands in the refusal: the gate, what was measured, what was wanted.
FAULTS = {
    "never_serves": "the engine was not ready after",
    "wrong_text": "known-answers: FAIL: measured",
    "without_dflash": "dflash: FAIL: measured off, 0 verify passes, wanted DFLASH, verify passes",
    "ends_after_requests": "FAIL: measured",
}


@pytest.fixture(scope="module")
def rollout(fleet: Fleet, tmp_path_factory: pytest.TempPathFactory) -> Rollout:
    return Rollout(fleet, tmp_path_factory.mktemp("failures"))


@pytest.mark.parametrize("fault", FAULTS)
def test_upgrade_to_a_bad_release_goes_back(rollout: Rollout, fault: str) -> None:
    rollout.settle()
    good, untouched = rollout.one.current(), in_service(rollout.two.listing())
    repository = offer_broken(rollout.fleet.registry, fault, SECOND)
    done = rollout.deploy(SECOND, image_registry=repository)
    assert done.rc != 0
    assert FAULTS[fault] in done.out, done.out
    assert f"host1: {good} is back in service and proved" in done.out
    assert rollout.one.current() == good
    assert is_proved(rollout.one, release_of(rollout.one))
    assert row(done, "host1")[1:4] == [good, good, "rolled back"]
    assert row(done, "host2")[3] == "not begun"
    log = done.out.partition("log of the failed engine: ")[2].split()[0]
    assert f"dflash-kit: release: {SECOND}" in rollout.one.run(f"cat {log}")
    # The second host has the image and the files ready, and runs on.
    assert in_service(rollout.two.listing()) == untouched


def test_first_deploy_of_a_bad_release_leaves_the_host_clean(rollout: Rollout) -> None:
    rollout.one.bare(images=False)
    repository = offer_broken(rollout.fleet.registry, "without_dflash", SECOND)
    done = rollout.deploy(SECOND, "--limit", "host1", image_registry=repository)
    assert done.rc != 0
    assert "no other deployment was ever good here, so the engine is stopped" in done.out
    assert rollout.one.container() is None
    assert rollout.one.current() is None and rollout.one.last_good() is None
    assert row(done, "host1")[1:4] == ["-", "-", "stopped"]
    assert rollout.one.run("ls /opt/dflash-kit") == "deployments\nlogs"


def test_archive_delivery_to_a_host_without_a_registry(rollout: Rollout, tmp_path: Path) -> None:
    archive = tmp_path / "engine.tar.zst"
    run(str(ROOT / "scripts" / "publish"), "save", "cpu", FIRST, str(archive))
    rollout.one.bare()
    done = rollout.deploy(FIRST, "--limit", "host1", image_registry="", image_archive=str(archive))
    assert done.rc == 0, done.out
    assert is_proved(rollout.one, FIRST)


def test_wrong_inputs_are_all_named_and_no_host_is_touched(
    rollout: Rollout, tmp_path: Path
) -> None:
    hosts = (rollout.one, rollout.two)
    before = [host.listing() for host in hosts]
    inventory = tmp_path / "hosts.yml"
    inventory.touch(mode=0o600)
    inventory.write_text(rollout.inventory.read_text().replace("_profile:", "_profil:"))
    given = {"dflash_kit_release": "0.5.11-dflash.99", "host_checks_demoted": "clock"}
    done = rollout.fleet.play(ANSIBLE / "deploy.yml", inventory, **given)
    assert done.rc != 0
    for part in (
        "hosts.yml:",
        "dflash_kit_profil: got a variable of no role",
        "did you mean dflash_kit_profile?",
        "host_checks_demoted: got 'clock', wanted a list",
        "dflash_kit_release: got 0.5.11-dflash.99, wanted one of: 0.5.11-dflash.1",
        "dflash_kit_profile: got none: the host host1 is in no hardware group",
    ):
        assert part in done.out, f"{part} is not in:\n{done.out}"
    missing = rollout.deploy(SECOND, image_registry=f"{rollout.fleet.registry.host}/nowhere")
    assert missing.rc != 0 and "nowhere" in missing.out, missing.out
    assert [host.listing() for host in hosts] == before


def in_service(listing: str) -> list[str]:
    """What of a listing says which containers run since when, and where the links point."""
    return [
        line
        for line in listing.splitlines()
        if " running " in line or "/current " in line or "/last_good " in line
    ]
