"""What the rollout's tests ask for: both hosts in a known state, and how a playbook ended."""

import re
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

import requests

from tests.e2e.fleet.fleet import Fleet
from tests.e2e.fleet.host import Host
from tests.e2e.fleet.play import Play, RunningPlay
from tests.e2e.node import PROMPT, ROOT

ANSIBLE = ROOT / "ansible"
FIRST, SECOND = "0.5.11-dflash.1", "0.5.11-dflash.2"
PORT = 30000


class Rollout:
    """The kit's playbooks on the fleet, each with an inventory of its own."""

    def __init__(self, fleet: Fleet, folder: Path) -> None:
        self.fleet = fleet
        self.receipts = folder / "receipts"
        self.inventory = fleet.inventory(
            folder,
            dflash_kit_profile="cpu-tiny",
            dflash_kit_bind="0.0.0.0",
            image_registry=f"{fleet.registry.host}/dflash-kit/engine",
            receipt_folder=str(self.receipts),
        )
        self.one, self.two = fleet.hosts["host1"], fleet.hosts["host2"]

    def playbook(self, name: str) -> Path:
        return ANSIBLE / f"{name}.yml"

    def start(self, playbook: str, *arguments: str, **variables: object) -> RunningPlay:
        return self.fleet.start_play(
            self.playbook(playbook), self.inventory, *arguments, **variables
        )

    def play(self, playbook: str, *arguments: str, **variables: object) -> Play:
        return self.start(playbook, *arguments, **variables).wait()

    def deploy(self, release: str, *arguments: str, **variables: object) -> Play:
        return self.play("deploy", *arguments, dflash_kit_release=release, **variables)

    def has(self, release: str, *hosts: Host) -> None:
        """Make sure that the hosts (both where none is named) run a release, proved."""
        wanted = hosts or (self.one, self.two)
        if all(is_proved(host, release) for host in wanted):
            return
        limit = ",".join(host.name for host in wanted)
        done = self.deploy(release, "--limit", limit)
        assert done.rc == 0, done.out
        assert all(is_proved(host, release) for host in wanted), done.out


def is_proved(host: Host, release: str) -> bool:
    """Whether a release is current, last good and generating on a host."""
    current = host.current() or ""
    container = host.container()
    return bool(
        current.startswith(f"{release}-cpu-tiny-latency-")
        and host.last_good() == current
        and container
        and container["State"].get("Health", {}).get("Status") == "healthy"
    )


def key(host: Host) -> str:
    """The host's user key."""
    container = host.container()
    assert container
    return host.run(f"docker exec {container['Id']} dflash-kit keys show user")


def row(done: Play, host: str) -> list[str]:
    """The cells of a host's row in the table at the end."""
    found = re.findall(rf"^{host}  .*$", done.out, re.MULTILINE)
    assert found, f"no row of {host}:\n{done.out}"
    return re.split(r"\s{2,}", found[-1].strip())


@dataclass
class Client:
    """Asks a host again and again, as a user does, and keeps how each request ended."""

    host: Host
    ends: list[str] = field(default_factory=list)
    _stop: threading.Event = field(default_factory=threading.Event)

    def __enter__(self) -> "Client":
        self._headers = {"Authorization": f"Bearer {key(self.host)}"}
        self._thread = threading.Thread(target=self._loop, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(timeout=60)

    def _loop(self) -> None:
        while not self._stop.is_set():
            self.ends.append(self.ask(PROMPT))
            time.sleep(0.05)

    def ask(self, body: dict[str, object], timeout: float = 60) -> str:
        """`answered`, the status of a refusal, `refused` without one, or what is no clean end."""
        url = f"http://{self.host.address}:{PORT}/v1/chat/completions"
        try:
            answer = requests.post(url, json=body, headers=self._headers, timeout=timeout)
        except requests.ConnectionError as error:
            # Refused before the engine had read it: the client knows that nothing was done.
            text = str(error)
            clean = "refused" in text or "reset by peer" in text or "RemoteDisconnected" in text
            return "refused" if clean else f"broken: {text}"
        except requests.RequestException as error:
            return f"broken: {error}"
        if answer.status_code != 200:
            return str(answer.status_code)
        choice = answer.json()["choices"][0]
        whole = choice["finish_reason"] in ("stop", "length") and choice["message"]["content"]
        return "answered" if whole else f"broken: {answer.text}"
