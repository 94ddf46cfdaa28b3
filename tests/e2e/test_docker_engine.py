"""scripts/docker-engine: which Docker it uses, and that its throwaway engine leaves nothing."""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from dflash_kit.paths import ROOT

KIT = ROOT / ".docker/engine"
needs_root = pytest.mark.skipif(
    sys.platform != "linux" or os.geteuid() != 0, reason="a throwaway engine needs root on Linux"
)
needs_throwaway = pytest.mark.skipif(
    not KIT.is_dir(), reason="this machine's own Docker is in use: no throwaway engine to test"
)
COMPOSE = """
services:
  web:
    image: dflash-kit-test/busybox
    command: httpd -f -p 8080 -h /etc
    init: true
    mem_limit: 24m
    ports: ["127.0.0.1::8080"]
"""


class Clone:
    """A copy of scripts/ with its own .docker/, seen by a user with the given docker command."""

    def __init__(self, root: Path, docker: str) -> None:
        self.root = root
        self.home = root / ".docker"
        shutil.copytree(ROOT / "scripts", root / "scripts")
        fake = root / "fake"
        fake.mkdir()
        (fake / "docker").write_text(f"#!/bin/sh\n{docker}\n")
        (fake / "docker").chmod(0o755)
        path = [p for p in os.environ["PATH"].split(":") if "/.docker/" not in p]
        self.env = {k: v for k, v in os.environ.items() if not k.startswith("DOCKER_")}
        self.env["PATH"] = ":".join([str(fake), *path])

    def start(self, *command: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [self.root / "scripts" / command[0], *command[1:]],
            cwd=self.root,
            env=self.env,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )

    def run(self, *command: str, rc: int = 0) -> tuple[str, str]:
        process = self.start(*command)
        out, err = process.communicate(timeout=600)
        assert process.returncode == rc, f"{command}: {process.returncode}\n{out}\n{err}"
        return out, err

    def engine(self, command: str, rc: int = 0) -> tuple[str, str]:
        return self.run("docker-engine", command, rc=rc)

    def docker(self, *arguments: str) -> str:
        return self.run("with-docker", "docker", *arguments)[0].strip()

    def processes(self) -> set[int]:
        """The pids of this clone's engine and of its containers' shims."""
        found = set()
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                words = (folder / "cmdline").read_text()
                exe = os.readlink(folder / "exe")
            except OSError:
                continue
            if str(self.home) in exe or str(self.home) in words:
                found.add(int(folder.name))
        return found

    def mounts(self) -> list[str]:
        run = str((self.home / "run").resolve())
        lines = Path("/proc/self/mounts").read_text().splitlines()
        return [line for line in lines if str(self.home) in line or f" {run}/" in line]

    def rules(self) -> list[str]:
        pool = (self.home / "pool").read_text().strip()
        saved = subprocess.run(["iptables-save"], text=True, capture_output=True, check=True).stdout
        return [line for line in saved.splitlines() if pool in line]

    def interfaces(self) -> set[str]:
        """Everything with an address of this clone's range."""
        net = (self.home / "pool").read_text().split(".0.0/")[0]
        shown = subprocess.run(
            ["ip", "-o", "-4", "address"], text=True, capture_output=True, check=True
        ).stdout
        return {line.split()[1] for line in shown.splitlines() if f" {net}." in line}


@pytest.fixture
def clone(tmp_path: Path) -> Iterator[Clone]:
    """A second clone on a machine whose own Docker does not answer."""
    made = Clone(tmp_path / "clone", "exit 1")
    yield made
    made.engine("purge")
    assert not made.home.exists()


@pytest.fixture
def fetched(clone: Clone) -> Clone:
    """The same, with the programs that this repository's engine has already fetched."""
    shutil.copytree(KIT, clone.home / "engine", symlinks=True)
    return clone


def busybox(folder: Path) -> Path:
    """A root file system of one static binary, as a tar."""
    folder.mkdir()
    for command in (["apt-get", "update"], ["apt-get", "download", "busybox-static"]):
        subprocess.run([*command, "-qq"], cwd=folder, check=True, capture_output=True)
    subprocess.run(["dpkg-deb", "-x", str(next(folder.glob("*.deb"))), "root"],
                   cwd=folder, check=True)  # fmt: skip
    script = "mkdir -p tar/bin tar/etc && cp root/bin/busybox tar/bin && echo hello >tar/etc/hello"
    subprocess.run(["sh", "-ec", script], cwd=folder, check=True)
    for name in ("sh", "cat", "httpd"):
        (folder / "tar/bin" / name).symlink_to("busybox")
    subprocess.run(["tar", "-C", "tar", "-cf", "busybox.tar", "."], cwd=folder, check=True)
    return folder / "busybox.tar"


def assert_serves(clone: Clone) -> None:
    clone.docker("compose", "up", "--detach")
    address = clone.docker("compose", "port", "web", "8080")
    fetch = ["curl", "-sS", "--retry", "5", "--retry-all-errors", f"http://{address}/hello"]
    assert subprocess.run(fetch, text=True, capture_output=True).stdout == "hello\n"
    limit = "cat /sys/fs/cgroup/memory.max || cat /sys/fs/cgroup/memory/memory.limit_in_bytes"
    out = clone.docker("compose", "exec", "-T", "web", "sh", "-c", f"({limit}) 2>/dev/null")
    assert int(out) == 24 * 2**20


def assert_nothing_left(clone: Clone, networks: set[str]) -> None:
    assert clone.processes() == set()
    assert clone.mounts() == []
    assert clone.rules() == []
    assert clone.interfaces() == set()
    assert not [name for name in networks if Path("/sys/class/net", name).exists()]


@needs_root
@needs_throwaway
def test_second_engine_serves_and_leaves_nothing(fetched: Clone, tmp_path: Path) -> None:
    beside = subprocess.run([ROOT / "scripts/docker-engine", "status"], capture_output=True).stdout
    both = [fetched.start("docker-engine", "up") for _ in range(2)]  # one of them has to wait
    assert [(process.communicate(), process.returncode)[1] for process in both] == [0, 0]
    pid = (fetched.home / "run/docker.pid").read_text()
    assert "already up" in fetched.engine("up")[1]
    assert (fetched.home / "run/docker.pid").read_text() == pid
    assert fetched.engine("status")[0].startswith("throwaway Docker engine 2")

    fetched.docker("import", str(busybox(tmp_path / "busybox")), "dflash-kit-test/busybox")
    (fetched.root / "compose.yml").write_text(COMPOSE)
    assert_serves(fetched)
    networks = fetched.interfaces()
    assert len(networks) == 2  # the default bridge and compose's
    # Out is free, answers come back, nobody else reaches a container; one rule for addresses.
    assert [rule.rsplit("-j ")[-1] for rule in fetched.rules()] == [
        "ACCEPT",
        "ACCEPT",
        "DROP",
        "MASQUERADE",
    ]
    assert len(fetched.processes()) >= 4  # dockerd, containerd, a shim, a proxy
    fetched.engine("down")
    assert_nothing_left(fetched, networks)

    fetched.engine("up")  # images and networks are still there
    assert_serves(fetched)
    os.kill(int((fetched.home / "run/docker.pid").read_text()), signal.SIGKILL)
    networks = fetched.interfaces()
    fetched.engine("down")
    assert_nothing_left(fetched, networks)
    after = subprocess.run([ROOT / "scripts/docker-engine", "status"], capture_output=True).stdout
    assert after == beside


@needs_root
@needs_throwaway
def test_cut_off_download_is_started_over(clone: Clone) -> None:
    cut = clone.start("docker-engine", "up")
    while not list(clone.home.glob("fetch.*/debs/*.deb")) and cut.poll() is None:
        time.sleep(0.05)
    os.killpg(cut.pid, signal.SIGKILL)
    cut.communicate()
    assert list(clone.home.glob("fetch.*")) and not (clone.home / "engine").exists()
    clone.engine("up")
    assert not list(clone.home.glob("fetch.*"))
    assert clone.docker("compose", "version", "--short").startswith("5.")
    assert clone.docker("buildx", "version")


def fake_docker(version: str, buildx: bool = True, compose: str = "2.40.3") -> str:
    return f"""
case "$1 $2" in
    "info "*) echo {version} ;;
    "buildx version") {"true" if buildx else "false"} ;;
    "compose version") echo "{compose}" ;;
    "image inspect") [ "$3" = present:1 ] || [ "$3" = "$BASE" ] ;;
    *) echo "docker $*" >>"${{0%/*}}/called"; exit 1 ;;
esac"""


def test_usable_docker_is_used_as_it_is(tmp_path: Path) -> None:
    clone = Clone(tmp_path / "clone", fake_docker("28.2.2"))
    assert "this machine's own Docker 28.2.2" in clone.engine("up")[1]
    assert clone.engine("status")[0] == "this machine's own Docker 28.2.2\n"
    assert clone.engine("env") == ("", "")
    assert clone.docker("info") == "28.2.2"
    clone.engine("down")
    assert not clone.home.exists()
    assert not (clone.root / "fake/called").exists()


@pytest.mark.parametrize(
    ("docker", "reason"),
    [
        ("exit 1", "docker info does not answer"),
        (fake_docker("20.10.24"), "version 20.10.24 is older than 26"),
        (fake_docker("26.1.5", buildx=False), "no buildx plugin"),
        (fake_docker("26.1.5", compose=""), "no compose plugin"),
        (fake_docker("26.1.5", compose="1.29.2"), "no compose plugin"),
    ],
)
def test_unusable_docker_is_named(tmp_path: Path, docker: str, reason: str) -> None:
    clone = Clone(tmp_path / "clone", docker)
    assert reason in clone.engine("status", rc=1)[0]
    out, err = clone.engine("env", rc=1)
    assert out == "" and err.count("\n") == 1 and reason in err and "docker-engine up" in err
    assert not clone.home.exists()


@pytest.mark.parametrize("arguments", [[], ["restart"], ["up", "now"]])
def test_wrong_usage(tmp_path: Path, arguments: list[str]) -> None:
    _, err = Clone(tmp_path / "clone", "exit 1").run("docker-engine", *arguments, rc=2)
    assert err.startswith("usage: scripts/docker-engine")


def test_base_image_that_is_there_is_not_pulled(tmp_path: Path) -> None:
    clone = Clone(tmp_path / "clone", fake_docker("28.2.2"))
    assert clone.run("base-image", "present:1")[0] == "present:1\n"
    clone.env["BASE"] = "dflash-kit/base:bookworm"
    assert clone.run("base-image", "debian:bookworm-slim")[0] == "dflash-kit/base:bookworm\n"
    assert not (clone.root / "fake/called").exists()
    _, err = clone.run("base-image", "alpine:3", rc=2)
    assert "alpine:3" in err and err.count("\n") == 1
