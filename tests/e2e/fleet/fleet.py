"""Two hosts and a registry on a network of their own, and playbooks run against them."""

import json
import os
import secrets
import shutil
import socket
import tempfile
import time
from pathlib import Path
from typing import Any

import docker
import yaml
from docker.errors import NotFound
from docker.models.containers import Container

from tests.e2e.fleet.build import HOST_IMAGE, REGISTRY_IMAGE, build_machines, run
from tests.e2e.fleet.host import Host
from tests.e2e.fleet.play import Play, RunningPlay
from tests.e2e.fleet.registry import PORT, Registry
from tests.e2e.node import ROOT

# A fleet for each of the processes that run tests at the same time.
NAME = f"dflash-kit-fleet-{os.environ.get('PYTEST_XDIST_WORKER', 'alone')}"
HOSTS = ("host1", "host2")
ANSIBLE = ROOT / "ansible"
_PLAYBOOK = ROOT / ".venv" / "bin" / "ansible-playbook"
_READY_SECONDS = 60


class Fleet:
    """The hosts by name, the registry, and a folder of the session for keys and inventories."""

    def __init__(self) -> None:
        self._docker = docker.from_env()
        # Short: the sockets of ssh lie in it.
        self.folder = Path(tempfile.mkdtemp(prefix="fleet-", dir="/tmp"))
        self.hosts: dict[str, Host] = {}
        self.registry: Registry

    def up(self) -> None:
        """Build what is missing and start everything; what another session left is removed."""
        build_machines()
        self._remove()
        self._docker.networks.create(NAME)
        run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(self.folder / "key"))
        started = [self._start_host(name) for name in HOSTS]
        users = {"LOGINS": " ".join(f"{u}:{secrets.token_hex(16)}" for u in ("fleet", "spare"))}
        store = {f"{NAME}-registry": {"bind": "/var/lib/registry", "mode": "rw"}}
        container = self._start("registry", REGISTRY_IMAGE, users, volumes=store)
        self.registry = Registry(container, _address(container), self.folder)
        for host in started:
            self._admit(host)
        _await_port(self.registry.host.partition(":")[0], PORT)
        self.registry.prepare()

    def add_host(self, name: str, **options: Any) -> Host:
        """One more host, with options of docker run."""
        host = self._start_host(name, **options)
        self._admit(host)
        return host

    def remove_host(self, name: str) -> None:
        """Remove a host that was added."""
        del self.hosts[name]
        self._docker.containers.get(f"{NAME}-{name}").remove(force=True, v=True)

    def down(self) -> None:
        """Remove it all; images and what was pushed stay for the next session."""
        self._remove()
        shutil.rmtree(self.folder)

    def inventory(self, folder: Path, **variables: Any) -> Path:
        """An inventory of both hosts that deploys the tiny pair out of `repository`."""
        user, password = next(iter(self.registry.logins.items()))
        ssh = f"-o UserKnownHostsFile={self.folder}/known_hosts -o StrictHostKeyChecking=yes"
        common = {
            "ansible_user": "root",
            "ansible_ssh_private_key_file": str(self.folder / "key"),
            "ansible_ssh_common_args": ssh,
            "ansible_python_interpreter": "/usr/bin/python3",
            "image_registry_username": user,
            "image_registry_password": password,
            "image_registry_ca": str(self.registry.ca),
        }
        hosts = {name: {"ansible_host": host.address} for name, host in self.hosts.items()}
        file = folder / "hosts.yml"
        file.touch(mode=0o600)
        file.write_text(yaml.safe_dump({"all": {"hosts": hosts, "vars": common | variables}}))
        return file

    def start_play(
        self, playbook: Path, inventory: Path, *arguments: str, **variables: Any
    ) -> RunningPlay:
        """A playbook in the background; `variables` are given as -e."""
        environment = os.environ | {
            "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"),
            "ANSIBLE_COLLECTIONS_PATH": str(ROOT / ".venv" / "collections"),
            "ANSIBLE_ROLES_PATH": str(ANSIBLE / "roles"),
            "ANSIBLE_SSH_CONTROL_PATH_DIR": str(self.folder / "ssh"),
            "ANSIBLE_NOCOLOR": "1",
        }
        command = [str(_PLAYBOOK), "-i", str(inventory), str(playbook), *arguments]
        if variables:
            command += ["-e", json.dumps(variables)]
        given = [f"{n}={'...' if isinstance(v, dict) else v}" for n, v in variables.items()]
        shown = " ".join([playbook.name, *arguments, *(["-e", *given] if given else [])])
        return RunningPlay(command, environment, ROOT, shown)

    def play(self, playbook: Path, inventory: Path, *arguments: str, **variables: Any) -> Play:
        """A playbook, to its end."""
        return self.start_play(playbook, inventory, *arguments, **variables).wait()

    def _start(self, name: str, image: str, environment: dict[str, str], **more: Any) -> Container:
        container = self._docker.containers.run(
            image,
            name=f"{NAME}-{name}",
            hostname=name,
            network=NAME,
            environment=environment,
            detach=True,
            **more,
        )
        container.reload()
        return container

    def _start_host(self, name: str, **options: Any) -> Host:
        key = {"AUTHORIZED_KEY": (self.folder / "key.pub").read_text().strip()}
        container = self._start(name, HOST_IMAGE, key, privileged=True, **options)
        return Host(name, container, _address(container))

    def _admit(self, host: Host) -> None:
        """Wait until the host can be deployed to, then know it."""
        _await_port(host.address, 22)
        host.run(f"timeout {_READY_SECONDS} sh -c 'until docker info; do sleep 0.1; done'")
        with (self.folder / "known_hosts").open("a") as known:
            known.write(f"{host.address} {host.run('cat /etc/ssh/ssh_host_ed25519_key.pub')}\n")
        self.hosts[host.name] = host

    def _remove(self) -> None:
        for container in self._docker.containers.list(all=True, filters={"name": f"^{NAME}-"}):
            container.remove(force=True, v=True)
        try:
            self._docker.networks.get(NAME).remove()
        except NotFound:
            return


def _address(container: Container) -> str:
    return str(container.attrs["NetworkSettings"]["Networks"][NAME]["IPAddress"])


def _await_port(address: str, port: int) -> None:
    end = time.monotonic() + _READY_SECONDS
    while True:
        try:
            socket.create_connection((address, port), timeout=1).close()
            return
        except OSError:
            assert time.monotonic() < end, f"{address}:{port} is not up"
            time.sleep(0.1)
