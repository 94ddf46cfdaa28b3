"""Rollouts that are cut off by network, controller or another rollout: the next one converges."""

import json
from collections.abc import Callable, Iterator

import pytest

from tests.e2e.fleet.fleet import Fleet
from tests.e2e.fleet.host import Host
from tests.e2e.rollout import Rollout, is_proved, other, release_of, row


@pytest.fixture(scope="module")
def rollout(fleet: Fleet, tmp_path_factory: pytest.TempPathFactory) -> Rollout:
    return Rollout(fleet, tmp_path_factory.mktemp("interrupted"))


@pytest.fixture(autouse=True)
def _settled(rollout: Rollout) -> Iterator[None]:
    rollout.settle()
    yield
    for host in (rollout.one, rollout.two):
        host.mend()


def test_host_that_is_away_stops_a_rollout_before_any_switch(rollout: Rollout) -> None:
    before = rollout.one.container()
    rollout.two.cut()
    done = rollout.deploy(other(rollout.one))
    assert done.rc != 0 and done.unreachable["host2"] == 1
    assert row(done, "host2")[3] == "unreachable"
    after = rollout.one.container()
    assert before and after and before["Id"] == after["Id"]
    assert is_proved(rollout.one, release_of(rollout.one))


def test_network_cut_after_the_switch_began_then_a_second_run_converges(
    rollout: Rollout,
) -> None:
    wanted, kept = other(rollout.one), rollout.two.current()
    running = rollout.start("deploy", dflash_kit_release=wanted)
    running.wait_for(lambda: has_container(rollout.one, wanted))
    rollout.one.cut()
    done = running.wait()
    rollout.one.mend()
    assert done.rc != 0
    assert row(done, "host1")[3] == "unreachable" and row(done, "host2")[3] == "not begun"
    assert rollout.two.current() == kept
    again = rollout.deploy(wanted)
    assert again.rc == 0, again.out
    assert is_proved(rollout.one, wanted) and is_proved(rollout.two, wanted)


def test_controller_killed_at_each_stage_and_run_again(rollout: Rollout) -> None:
    """Each run gets further than the one before it: it converges on what that one left."""
    one, wanted = rollout.one, other(rollout.one)
    good = one.current()
    held = f"docker images --quiet --filter label=io.dflash-kit.release={wanted} | sort -u"
    one.run(f"rm -rf /opt/dflash-kit/deployments/{wanted}-*; {held} | xargs -r docker rmi --force")
    stages: dict[str, Callable[[], bool]] = {
        "delivery": lambda: one.run("ls -d /opt/dflash-kit/delivery 2>/dev/null || true") != "",
        "render": lambda: wanted in one.run("ls /opt/dflash-kit/deployments"),
        "stop": lambda: release_of(one) == wanted,
        "start": lambda: has_container(one, wanted),
        "smoke": lambda: "smoke" in one.run("docker ps --all --format '{{.Names}}'"),
    }
    for stage, reached in stages.items():
        running = rollout.start("deploy", "--limit", "host1", dflash_kit_release=wanted)
        running.wait_for(reached)
        running.kill9()
        current = one.current()  # it fails where the link dangles
        assert current and (current == good or current.startswith(wanted)), stage
        assert one.last_good() == good, stage
    done = rollout.deploy(wanted, "--limit", "host1")
    assert done.rc == 0, done.out
    assert "host1: breaking the lock of " in done.out
    assert is_proved(one, wanted)
    assert rollout.deploy(wanted, "--limit", "host1").changed == {"host1": 0}


def test_second_rollout_at_once_is_refused_and_a_stale_lock_can_be_broken(
    rollout: Rollout,
) -> None:
    runs = release_of(rollout.one)
    running = rollout.start("deploy", "--limit", "host1", dflash_kit_release=other(rollout.one))
    running.wait_for(lambda: lock(rollout.one) != "")
    second = rollout.deploy(runs, "--limit", "host1")
    assert second.rc != 0
    assert "host1: lock: another rollout runs: " in second.out, second.out
    assert ", for 0 min " in second.out
    running.kill9()
    assert is_proved(rollout.one, runs)
    # Of a controller that cannot be asked whether it is over: only its id breaks it.
    foreign = json.loads(lock(rollout.one)) | {"machine": "elsewhere", "id": "0badf00d"}
    rollout.one.run(f"echo '{json.dumps(foreign)}' > /opt/dflash-kit/lock")
    refused = rollout.deploy(runs, "--limit", "host1")
    assert refused.rc != 0 and "-e dflash_kit_break_lock=0badf00d" in refused.out, refused.out
    broken = rollout.deploy(runs, "--limit", "host1", dflash_kit_break_lock="0badf00d")
    assert broken.rc == 0, broken.out
    assert lock(rollout.one) == ""


def lock(host: Host) -> str:
    return host.run("cat /opt/dflash-kit/lock 2>/dev/null || true")


def has_container(host: Host, release: str) -> bool:
    """Whether there is an engine's container of a release."""
    engines = "docker ps --all --filter label=com.docker.compose.service=engine"
    return f"dflash-kit/engine:{release}-cpu" in host.run(engines + " --format '{{.Image}}'")
