"""Rollouts that go well, and what they leave alone. In order: each takes the hosts as they are."""

import base64
import json
import subprocess
import time
from collections import Counter

import pytest

from tests.e2e.fleet.fleet import Fleet
from tests.e2e.rollout import FIRST, SECOND, Client, Rollout, is_proved, key, other, row


@pytest.fixture(scope="module")
def rollout(fleet: Fleet, tmp_path_factory: pytest.TempPathFactory) -> Rollout:
    return Rollout(fleet, tmp_path_factory.mktemp("rollout"))


def test_first_deploy_by_digest_then_nothing_to_do(rollout: Rollout) -> None:
    hosts = (rollout.one, rollout.two)
    for host in hosts:
        host.bare()
    done = rollout.deploy(FIRST)
    assert done.rc == 0, done.out
    for host in hosts:
        assert is_proved(host, FIRST)
        receipt = host.receipt()
        assert receipt["verdict"] == "PASS"
        kept = list((rollout.receipts / host.name).glob(f"{host.current()}-*.json"))
        assert [json.loads(file.read_text()) for file in kept] == [receipt]
        _, before, after, result, acceptance, tok_s = row(done, host.name)
        assert (before, after, result) == ("-", host.current(), "proved")
        assert float(acceptance) == pytest.approx(receipt["figures"]["accept_length"], abs=0.01)
        assert float(tok_s) > 0
    listings = [host.listing() for host in hosts]
    again = rollout.deploy(FIRST)
    assert again.rc == 0, again.out
    assert again.changed == {"host1": 0, "host2": 0}
    assert "nothing to do: 2 hosts run what was asked for, proved" in again.out
    assert [host.listing() for host in hosts] == listings


def test_check_mode_touches_nothing(rollout: Rollout) -> None:
    rollout.settle()
    before = [host.listing() for host in (rollout.one, rollout.two)]
    wanted = other(rollout.one)
    done = rollout.deploy(wanted, "--check", "--diff")
    assert done.rc == 0, done.out
    assert f"+DFLASH_KIT_RELEASE={wanted}" in done.out
    assert row(done, "host1")[3] == "would change"
    assert [host.listing() for host in (rollout.one, rollout.two)] == before


def test_status_shows_what_a_hand_changed(rollout: Rollout) -> None:
    rollout.settle()
    container = rollout.one.container()
    assert container
    rollout.one.run(f"docker update --memory 5g --memory-swap 5g {container['Id']}")
    shown = rollout.play("status")
    assert shown.rc == 0
    drift = "host1: changed by hand: HostConfig.Memory: got 5368709120, deployed 4294967296"
    assert drift in shown.out
    assert "host2: changed by hand" not in shown.out
    assert "redact-keys.patch" in shown.out
    assert shown.changed == {"host1": 0, "host2": 0}


def test_upgrade_while_users_ask_and_no_secret_is_seen(rollout: Rollout) -> None:
    rollout.settle()
    wanted, login = other(rollout.one), next(iter(rollout.fleet.registry.logins.items()))
    running = rollout.start("deploy", "--diff", "-vvv", dflash_kit_release=wanted)
    processes = set()
    with Client(rollout.one) as client:
        # The hosts are containers of this machine: their processes are seen as well.
        while running.is_running:
            shown = subprocess.run(["ps", "axeww", "-o", "args"], capture_output=True, text=True)
            # The registry knows its passwords.
            processes |= {x for x in shown.stdout.splitlines() if "HOSTNAME=registry" not in x}
            time.sleep(0.2)
    done = running.wait()
    assert done.rc == 0, done.out
    assert is_proved(rollout.one, wanted) and is_proved(rollout.two, wanted)
    ends = Counter(client.ends)
    assert ends["answered"] > 0
    assert [end for end in ends if end.startswith("broken")] == [], ends
    # It is there again for those who have waited.
    assert client.ends[-1] == "answered", client.ends[-20:]
    secrets = {
        "registry password": login[1],
        "registry login": base64.b64encode(":".join(login).encode()).decode(),
        "user key": key(rollout.one),
        "admin key": key(rollout.one, "admin"),
    }
    kept = "\n".join(file.read_text() for file in rollout.receipts.rglob("*.json"))
    for name, secret in secrets.items():
        assert len(secret) >= 16
        assert secret not in done.out, f"{name} is in the output"
        assert not [line for line in processes if secret in line], f"{name} is in ps"
        assert secret not in kept, f"{name} is in a receipt"
        looked = "grep --recursive --files-with-matches --fixed-strings"
        found = rollout.one.run(f"{looked} {secret} /opt /etc /root /tmp /run /var/log || true")
        assert found == "", f"{name} is in {found}"


def test_rollback_closes_the_door_first(rollout: Rollout) -> None:
    rollout.settle()
    if not is_proved(rollout.one, SECOND):
        assert rollout.deploy(SECOND, "--limit", "host1").rc == 0
    with Client(rollout.one) as client:
        done = rollout.play("rollback", "--limit", "host1")
    assert done.rc == 0, done.out
    assert is_proved(rollout.one, FIRST), done.out
    ends = Counter(client.ends)
    assert ends["503"] > 0 and ends["answered"] > 0, ends
    assert [end for end in ends if end.startswith("broken")] == [], ends


def test_smoke_playbook_proves_and_keeps_a_receipt(rollout: Rollout) -> None:
    rollout.settle()
    before = rollout.one.receipt()["id"]
    done = rollout.play("smoke", "--limit", "host1")
    assert done.rc == 0, done.out
    assert row(done, "host1")[3] == "proved"
    after = rollout.one.receipt()
    assert after["id"] != before and after["verdict"] == "PASS"
