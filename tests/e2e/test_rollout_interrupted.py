"""Rollouts that are cut off by network, controller or another rollout: the next one converges."""

import json
import time

import pytest

from tests.e2e.fleet.fleet import Fleet
from tests.e2e.fleet.host import Host
from tests.e2e.fleet.play import RunningPlay
from tests.e2e.fleet.releases import offer
from tests.e2e.rollout import FIRST, SECOND, Rollout, is_proved, row


@pytest.fixture(scope="module")
def rollout(fleet: Fleet, tmp_path_factory: pytest.TempPathFactory) -> Rollout:
    for release in (FIRST, SECOND):
        offer(fleet.registry, release)
    return Rollout(fleet, tmp_path_factory.mktemp("interrupted"))


@pytest.fixture(autouse=True)
def mended(rollout: Rollout) -> object:
    yield
    for host in (rollout.one, rollout.two):
        host.mend()


def test_host_that_is_away_before_the_rollout_stops_it_before_any_switch(
    rollout: Rollout,
) -> None:
    rollout.has(FIRST)
    before = rollout.one.container()
    rollout.two.cut()
    done = rollout.deploy(SECOND)
    rollout.two.mend()
    assert done.rc != 0 and done.unreachable["host2"] == 1
    assert row(done, "host2")[3] == "unreachable"
    after = rollout.one.container()
    assert before and after and before["Id"] == after["Id"]
    assert is_proved(rollout.one, FIRST)


def test_network_cut_after_the_switch_began_then_a_second_run_converges(
    rollout: Rollout,
) -> None:
    rollout.has(FIRST)
    running = rollout.start("deploy", dflash_kit_release=SECOND)
    running.wait_for(lambda: switched(rollout.one, SECOND))
    rollout.one.cut()
    done = running.wait()
    rollout.one.mend()
    assert done.rc != 0
    assert row(done, "host1")[3] == "unreachable" and row(done, "host2")[3] == "not begun"
    assert is_proved(rollout.two, FIRST)
    again = rollout.deploy(SECOND)
    assert again.rc == 0, again.out
    assert is_proved(rollout.one, SECOND) and is_proved(rollout.two, SECOND)


def test_controller_killed_at_each_stage_and_run_again(rollout: Rollout) -> None:
    """Each run gets further than the one before it: it converges on what that one left."""
    one = rollout.one
    rollout.has(FIRST, one)
    good = one.current()
    one.run(
        "docker images --quiet --filter label=io.dflash-kit.release="
        + SECOND
        + " | sort -u | xargs -r docker rmi --force"
    )
    stages = {
        "delivery": lambda: SECOND in one.run("ls /opt/dflash-kit/delivery 2>/dev/null; ps ax"),
        "render": lambda: SECOND in one.run("ls /opt/dflash-kit/deployments"),
        "stop": lambda: (one.current() or "").startswith(SECOND),
        "start": lambda: switched(one, SECOND) and bool(one.container()),
        "smoke": lambda: "smoke" in one.run("docker ps --format '{{.Names}}' --all"),
    }
    for stage, reached in stages.items():
        running = rollout.start("deploy", "--limit", "host1", dflash_kit_release=SECOND)
        wait_for(running, reached, stage)
        running.kill9()
        current = one.current()  # never dangling
        assert current and (current == good or current.startswith(SECOND)), stage
        assert one.last_good() == good, stage
    done = rollout.deploy(SECOND, "--limit", "host1")
    assert done.rc == 0, done.out
    assert "breaking the lock of" in done.out
    assert is_proved(one, SECOND)
    again = rollout.deploy(SECOND, "--limit", "host1")
    assert again.changed == {"host1": 0}


def test_second_rollout_at_once_is_refused_and_a_stale_lock_can_be_broken(
    rollout: Rollout,
) -> None:
    rollout.has(SECOND)
    running = rollout.start("rollback", "--limit", "host1")
    running.wait_for(lambda: bool(lock(rollout.one)))
    second = rollout.deploy(FIRST)
    assert second.rc != 0
    assert "host1: lock: another rollout runs: root@" in second.out, second.out
    assert ", for 0 min " in second.out
    first = running.wait()
    assert first.rc == 0, first.out
    # Of a controller that nobody can ask: only its id breaks it.
    foreign = json.loads(refused_lock(rollout)) | {"machine": "elsewhere", "id": "0badf00d"}
    rollout.one.run(f"echo '{json.dumps(foreign)}' > /opt/dflash-kit/lock")
    refused = rollout.play("rollback", "--limit", "host1")
    assert refused.rc != 0 and "-e dflash_kit_break_lock=0badf00d" in refused.out, refused.out
    broken = rollout.play(
        "deploy", "--limit", "host1", dflash_kit_release=FIRST, dflash_kit_break_lock="0badf00d"
    )
    assert broken.rc == 0, broken.out
    assert lock(rollout.one) == "" and is_proved(rollout.one, FIRST)


def refused_lock(rollout: Rollout) -> str:
    """A lock as this controller writes it."""
    running = rollout.start("rollback", "--limit", "host2")
    running.wait_for(lambda: bool(lock(rollout.two)))
    running.kill9()
    return lock(rollout.two)


def lock(host: Host) -> str:
    return host.run("cat /opt/dflash-kit/lock 2>/dev/null || true")


def switched(host: Host, release: str) -> bool:
    """Whether the engine's container of a release is there."""
    names = host.run("docker ps --all --format '{{.Image}} {{.Names}}'")
    return f"dflash-kit/engine:{release}-cpu" in names


def wait_for(running: RunningPlay, reached: object, stage: str) -> None:
    end = time.monotonic() + 120
    while not reached():  # type: ignore[operator]
        assert time.monotonic() < end, f"stage {stage} was not reached:\n{running.out}"
        time.sleep(0.05)
