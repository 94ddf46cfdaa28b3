"""A host whose GPUs are pretended: what a rollout refuses, the engine's start, the setup role."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.fleet.fleet import ANSIBLE, Fleet
from tests.e2e.fleet.gpu.machine import NAME, REPOSITORY, SETUP, Machine
from tests.e2e.fleet.gpu.release import offer_pretended
from tests.e2e.fleet.host import PROJECT, ROOT
from tests.e2e.fleet.play import Play
from tests.unit.host_documents import RTX, Document, changed, gpu_answer, rtx_box

PROFILE = "rtx-pro-6000-x8"
FULL = "/mnt/full"
PERSISTED = "nvidia-smi -pm 1"
# An engine in service as far as a rollout looks at it before its switch.
_OLD_ENGINE = f"""
docker run --detach --restart always --label com.docker.compose.project={PROJECT} \
  --label com.docker.compose.oneoff=False --label com.docker.compose.service=engine-gpu \
  sleeper sleep infinity
"""
# It, and a disk without space.
_SETUP = f"""
set -e
tar --create --dereference /bin/sleep $(ldd /bin/sleep | grep -o '/[^ ]*') | docker import - sleeper
{_OLD_ENGINE}
mkdir -p {ROOT}/deployments/old {FULL}
touch {ROOT}/deployments/old/compose.yaml
ln -s deployments/old {ROOT}/current
ln -s deployments/old {ROOT}/last_good
mount -t tmpfs -o size=1m tmpfs {FULL}
"""


# Of every container of the engine's project: what happened to it, whether it ran one command alone.
_EVENTS = f"""docker events --since {{since}} --until $(date +%s.%N) --filter type=container \
  --filter label=com.docker.compose.project={PROJECT} --format '{{{{{{{{.Action}}}}}}}} \
{{{{{{{{index .Actor.Attributes "com.docker.compose.oneoff"}}}}}}}} {{{{{{{{.Actor.ID}}}}}}}} \
{{{{{{{{index .Actor.Attributes "exitCode"}}}}}}}}'"""


class Rollout:
    """ansible/deploy.yml on the pretended machine alone."""

    def __init__(self, fleet: Fleet, folder: Path) -> None:
        self._fleet = fleet
        repository = offer_pretended(fleet.registry)
        self.machine = Machine(fleet, folder, rtx_box())
        self.host = self.machine.host
        self.host.run(_SETUP)
        self._inventory = fleet.inventory(
            folder,
            dflash_kit_profile=PROFILE,
            image_registry=repository,
            receipt_folder=str(folder / "receipts"),
            weights_source="host",
            # Whether Docker may raise limits is this machine's own matter.
            host_checks_demoted=["ulimits"],
        )

    def deploy(self, **variables: Any) -> Play:
        return self._fleet.play(
            ANSIBLE / "deploy.yml", self._inventory, "--limit", NAME, **variables
        )

    def happened(self, since: str) -> list[list[str]]:
        """Action, whether of a single command, container, exit status; from that time on."""
        lines = self.host.run(_EVENTS.format(since=since)).splitlines()
        return [line.split() for line in lines]

    def set_up(self, **variables: Any) -> Play:
        """The role gpu_host alone."""
        return self._fleet.play(SETUP, self._inventory, "--limit", NAME, **variables)

    def refused(self, *lines: str, **variables: Any) -> None:
        """A deploy is refused with these lines, and the host is as it was."""
        before, container = self.host.listing(), self.host.container()
        done = self.deploy(**variables)
        assert done.rc != 0, done.out
        for line in lines:
            assert f"{NAME}: {line}" in done.out, f"{line!r} is not in:\n{done.out}"
        assert f"{NAME}: nothing was changed" in done.out
        assert container and container["State"]["Running"]
        assert (self.host.current(), self.host.last_good()) == ("old", "old")
        assert self.host.container() == container
        assert self.host.listing() == before


@pytest.fixture(scope="module")
def rollout(fleet: Fleet, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rollout]:
    made = Rollout(fleet, tmp_path_factory.mktemp("gpu"))
    yield made
    fleet.remove_host(NAME)


def gpus(name: str = RTX, **values: Any) -> Document:
    """The healthy machine with other GPUs."""
    return changed(rtx_box(), commands={"gpus": gpu_answer(name, **values)})


def each_gpu(said: str) -> str:
    return ", ".join(f"GPU {n} {said}" for n in range(8))


REFUSALS = {
    "7 of 8 GPUs": (gpus(count=7), "gpu-count: FAIL: got 7 GPUs, wanted 8 GPUs; "),
    "wrong card": (
        gpus(name="NVIDIA GeForce RTX 5090"),
        f"gpu-name: FAIL: got 8 x NVIDIA GeForce RTX 5090, wanted all alike, one of: {RTX}, ",
    ),
    "old driver": (
        gpus(driver="575.57.08"),
        f"driver: FAIL: got {each_gpu('575.57.08')}, wanted 580.65.06 or newer for CUDA 13.0",
    ),
    "MIG": (gpus(mig="Enabled"), f"mig: FAIL: got {each_gpu('Enabled')}, wanted Disabled; "),
}


@pytest.mark.parametrize("fault", REFUSALS)
def test_gpus_that_do_not_fit_are_refused(rollout: Rollout, fault: str) -> None:
    document, line = REFUSALS[fault]
    rollout.machine.equip()
    rollout.machine.become(document)
    rollout.refused(line)


def test_a_missing_toolkit_is_refused(rollout: Rollout) -> None:
    rollout.machine.become(rtx_box())
    rollout.machine.remove_toolkit()
    rollout.refused(
        "container-toolkit: FAIL: got not installed, wanted at least 1.18; ",
        "cdi: FAIL: got none, wanted a specification of driver 580.126.09; ",
    )


def test_a_full_disk_is_refused(rollout: Rollout) -> None:
    rollout.machine.equip()
    rollout.machine.become(rtx_box())
    rollout.refused(
        f"disk-weights: FAIL: got 0.0 GiB free, 0.0 GiB there, wanted 560.8 GiB in {FULL}; ",
        dflash_kit_models=FULL,
    )


def test_a_healthy_machine_gets_as_far_as_the_engine(rollout: Rollout) -> None:
    rollout.machine.equip()
    rollout.machine.become(rtx_box())
    rollout.host.bare(images=False)
    old = rollout.host.run(_OLD_ENGINE)
    since = rollout.host.run("date +%s.%N")
    done = rollout.deploy()
    # The engine's process was started, and is told of all GPUs; there it ends.
    assert f"{NAME}: the engine ended" in done.out, done.out
    log = rollout.host.run(f"cat {ROOT}/logs/*", check=False)
    assert f"dflash-kit: profile: {PROFILE}" in log
    assert f"the engine sees 8 devices: 8 x {RTX}" in log
    # As no deployment was ever good here.
    assert rollout.host.container() is None and rollout.host.current() is None
    # What an engine would compile was compiled while the old one served on.
    events = rollout.happened(since)
    compiled = [event for event in events if event[:2] == ["die", "True"]]
    assert [event[3] for event in compiled] == ["0"], events
    stopped = next(event for event in events if event[2] == old and event[0] == "kill")
    started = next(event for event in events if event[:2] == ["start", "False"])
    assert started[2] != old
    assert events.index(compiled[0]) < events.index(stopped) < events.index(started), events


def test_the_setup_role_makes_a_bare_gpu_host_fit(rollout: Rollout) -> None:
    rollout.machine.become(gpus(persistence="Disabled"))
    rollout.machine.make_bare()
    key = rollout.machine.offer_toolkit()
    before = rollout.host.listing()
    assert rollout.set_up().changed == {NAME: 0}
    refused = rollout.set_up(gpu_host_setup=True)
    assert (
        f'{NAME}: gpu_host_repository, gpu_host_repository_key: got ["", ""], wanted' in refused.out
    )
    assert rollout.host.listing() == before
    wanted = {
        "gpu_host_setup": True,
        "gpu_host_repository": REPOSITORY,
        "gpu_host_repository_key": str(key),
    }
    done = rollout.set_up(**wanted)
    assert done.rc == 0, done.out
    assert PERSISTED in rollout.machine.asked()
    # Docker gives GPUs now: what the container lacks is the program.
    said = rollout.host.run("docker run --rm --gpus all sleeper /none 2>&1", check=False)
    assert "no such file" in said, said
    # Nothing is left to do, but for another driver.
    rollout.machine.become(rtx_box())
    assert rollout.set_up(**wanted).changed == {NAME: 0}
    rollout.machine.become(gpus(driver="590.10.01"))
    assert rollout.set_up(**wanted).changed == {NAME: 1}
    assert "libcuda.so.590.10.01" in rollout.host.run("cat /etc/cdi/nvidia.yaml")


def test_the_setup_role_restarts_no_docker_that_runs_something(rollout: Rollout) -> None:
    rollout.machine.become(rtx_box())
    rollout.machine.make_bare()
    rollout.machine.install_toolkit()
    rollout.host.run("docker run --detach --name busy sleeper sleep infinity")
    started = rollout.host.run("docker inspect --format '{{.State.StartedAt}}' busy")
    done = rollout.set_up(gpu_host_setup=True)
    assert done.rc != 0 and "got running containers busy, wanted none; " in done.out, done.out
    assert rollout.host.run("docker inspect --format '{{.State.StartedAt}}' busy") == started
