"""One host of the fleet, looked at past its network: a cut one can be read too."""

import json
from typing import Any

from docker.models.containers import Container

ROOT = "/opt/dflash-kit"
PROJECT = "dflash-kit"
_CUT = (("INPUT", "-i"), ("OUTPUT", "-o"), ("FORWARD", "-i"), ("FORWARD", "-o"))
# Everything that a rollout could change: files, what Docker has, what runs since when. A folder's
# time is none of it: files come and go there.
_LISTING = f"""
find {ROOT} /etc/docker /root -name .ansible -prune -o -type d -printf '%p %m\\n' \
  -o -printf '%p %m %s %T@ %l\\n' | sort
docker image ls --all --no-trunc --digests --format 'image {{{{.Repository}}}}:{{{{.Tag}}}} \
{{{{.Digest}}}} {{{{.ID}}}}' | sort
docker ps --all --no-trunc --format '{{{{.ID}}}} {{{{.Names}}}}' | sort
docker ps --all --quiet | xargs -r docker inspect --format '{{{{.Id}}}} {{{{.State.Status}}}} \
{{{{.State.StartedAt}}}} {{{{.RestartCount}}}}' | sort
docker volume ls --quiet | sort
docker network ls --format '{{{{.Name}}}}' | sort
"""


class Host:
    """A host by its name in the inventory; `address` is where its sshd listens."""

    def __init__(self, name: str, container: Container, address: str) -> None:
        self.name = name
        self.address = address
        self._container = container

    def run(self, command: str, check: bool = True) -> str:
        """What a shell command on the host prints; AssertionError with it all where it fails."""
        code, (out, err) = self._container.exec_run(["bash", "-c", command], demux=True)
        text = (out or b"").decode()
        assert not check or code == 0, f"{self.name}: {command}: {text}{(err or b'').decode()}"
        return text.strip()

    def current(self) -> str | None:
        """The deployment that `current` points to; None without one, never a dangling one."""
        return self._link("current")

    def last_good(self) -> str | None:
        """The deployment that `last_good` points to."""
        return self._link("last_good")

    def _link(self, name: str) -> str | None:
        link = f"{ROOT}/{name}"
        target = self.run(f"readlink {link} || true")
        if target:
            self.run(f"test -f {link}/compose.yaml || {{ echo {link} dangles >&2; exit 1; }}")
        return target.rpartition("/")[2] or None

    def container(self) -> dict[str, Any] | None:
        """`docker inspect` of the engine's container, None where there is none."""
        found = self.run(
            f"docker ps --all --quiet --filter label=com.docker.compose.project={PROJECT}"
        ).split()
        assert len(found) <= 1, f"{self.name}: {len(found)} engines: {found}"
        if not found:
            return None
        return dict(json.loads(self.run(f"docker inspect {found[0]}"))[0])

    def receipt(self, deployment: str | None = None) -> dict[str, Any]:
        """The receipt of a deployment, of the current one where none is named."""
        folder = f"deployments/{deployment}" if deployment else "current"
        return dict(json.loads(self.run(f"cat {ROOT}/{folder}/receipt.json")))

    def listing(self) -> str:
        """Files, images, containers, volumes and networks: equal where nothing was touched."""
        return self.run(_LISTING, check=False)

    def cut(self) -> None:
        """From now on every packet from and to the network is lost."""
        self.run(" && ".join(f"iptables -I {chain} {way} eth0 -j DROP" for chain, way in _CUT))

    def mend(self) -> None:
        """End a cut; nothing where there is none."""
        self.run(
            " ; ".join(
                f"while iptables -D {chain} {way} eth0 -j DROP 2>/dev/null; do :; done"
                for chain, way in _CUT
            )
        )

    def bare(self, images: bool = True) -> None:
        """As a host is before its first deployment; with `images` false its images stay."""
        self.mend()
        remove = "docker ps --all --quiet | xargs -r docker rm --force --volumes"
        prune = "docker volume prune --all --force && docker network prune --force"
        self.run(f"{remove} && {prune} && rm -rf {ROOT} /etc/docker/certs.d /root/.docker")
        if images:
            self.run("docker image prune --all --force")
