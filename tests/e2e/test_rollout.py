"""Rollouts that go well, and what they leave alone."""

import json
from collections import Counter
from pathlib import Path

import pytest

from tests.e2e.fleet.build import run
from tests.e2e.fleet.fleet import Fleet
from tests.e2e.fleet.releases import offer
from tests.e2e.node import ROOT
from tests.e2e.rollout import FIRST, SECOND, Client, Rollout, is_proved, row


@pytest.fixture(scope="module")
def rollout(fleet: Fleet, tmp_path_factory: pytest.TempPathFactory) -> Rollout:
    for release in (FIRST, SECOND):
        offer(fleet.registry, release)
    return Rollout(fleet, tmp_path_factory.mktemp("rollout"))


def test_first_deploy_by_digest_then_nothing_to_do(rollout: Rollout) -> None:
    rollout.one.bare()
    rollout.two.bare()
    done = rollout.deploy(FIRST)
    assert done.rc == 0, done.out
    for host in (rollout.one, rollout.two):
        assert is_proved(host, FIRST)
        receipt = host.receipt()
        assert receipt["verdict"] == "PASS"
        kept = list((rollout.receipts / host.name).glob(f"{host.current()}-*.json"))
        assert [json.loads(file.read_text()) for file in kept] == [receipt]
        _, before, after, result, acceptance, tok_s = row(done, host.name)
        assert (before, after, result) == ("-", host.current(), "proved")
        assert float(acceptance) == pytest.approx(receipt["figures"]["accept_length"], abs=0.01)
        assert float(tok_s) > 0
    before_again = [host.listing() for host in (rollout.one, rollout.two)]
    again = rollout.deploy(FIRST)
    assert again.rc == 0, again.out
    assert again.changed == {"host1": 0, "host2": 0}
    assert "nothing to do: 2 hosts run what was asked for, proved" in again.out
    assert [host.listing() for host in (rollout.one, rollout.two)] == before_again


def test_check_mode_touches_nothing(rollout: Rollout) -> None:
    rollout.has(FIRST)
    before = [host.listing() for host in (rollout.one, rollout.two)]
    done = rollout.deploy(SECOND, "--check", "--diff")
    assert done.rc == 0, done.out
    assert f"+DFLASH_KIT_RELEASE={SECOND}" in done.out
    assert row(done, "host1")[3] == "would change"
    assert [host.listing() for host in (rollout.one, rollout.two)] == before


def test_upgrade_while_users_ask(rollout: Rollout) -> None:
    rollout.has(FIRST)
    with Client(rollout.one) as client:
        done = rollout.deploy(SECOND)
    assert done.rc == 0, done.out
    assert is_proved(rollout.one, SECOND) and is_proved(rollout.two, SECOND)
    ends = Counter(client.ends)
    assert ends["answered"] > 0
    assert [end for end in ends if end.startswith("broken")] == [], ends
    # It is there again for those who have waited.
    assert client.ends[-1] == "answered", client.ends[-20:]


def test_rollback_closes_the_door_and_lets_requests_end(rollout: Rollout) -> None:
    rollout.has(FIRST)
    rollout.has(SECOND)
    running = Client(rollout.one)
    with running:
        done = rollout.play("rollback", "--limit", "host1")
    assert done.rc == 0, done.out
    assert is_proved(rollout.one, FIRST), done.out
    assert is_proved(rollout.two, SECOND)
    ends = Counter(running.ends)
    assert ends["503"] > 0, ends
    assert [end for end in ends if end.startswith("broken")] == [], ends


def test_status_shows_what_a_hand_changed_and_a_deploy_mends_it(rollout: Rollout) -> None:
    rollout.has(SECOND)
    container = rollout.one.container()
    assert container
    rollout.one.run(f"docker update --memory 5g --memory-swap 5g {container['Id']}")
    shown = rollout.play("status")
    assert "host1: changed by hand: HostConfig.Memory: got 5368709120, deployed 4294967296" in (
        shown.out
    )
    assert "host2: changed by hand" not in shown.out
    assert "redact-keys.patch" in shown.out
    assert shown.changed == {"host1": 0, "host2": 0}
    mended = rollout.deploy(SECOND)
    assert (row(mended, "host1")[3], row(mended, "host2")[3]) == ("proved", "unchanged")
    assert "changed by hand" not in rollout.play("status").out


def test_smoke_playbook_proves_and_keeps_a_receipt(rollout: Rollout) -> None:
    rollout.has(SECOND)
    before = rollout.one.receipt()["id"]
    done = rollout.play("smoke", "--limit", "host1")
    assert done.rc == 0, done.out
    assert row(done, "host1")[3] == "proved"
    after = rollout.one.receipt()
    assert after["id"] != before and after["verdict"] == "PASS"


def test_archive_delivery_to_a_host_without_a_registry(rollout: Rollout, tmp_path: Path) -> None:
    archive = tmp_path / "engine.tar.zst"
    run(str(ROOT / "scripts" / "publish"), "save", "cpu", FIRST, str(archive))
    rollout.one.bare()
    done = rollout.deploy(FIRST, "--limit", "host1", image_registry="", image_archive=str(archive))
    assert done.rc == 0, done.out
    assert is_proved(rollout.one, FIRST)
