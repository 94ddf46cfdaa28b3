"""What the rollout's tests ask for: playbooks on the fleet, hosts in a known state, a client."""

import re
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

import requests

from tests.e2e.fleet.fleet import Fleet
from tests.e2e.fleet.host import Host
from tests.e2e.fleet.play import Play, RunningPlay
from tests.e2e.fleet.releases import offer
from tests.e2e.node import PROMPT, ROOT

ANSIBLE = ROOT / "ansible"
# Two patch levels of one sglang: what most upgrades are, and only a small layer differs.
FIRST, SECOND = "0.5.11-dflash.1", "0.5.11-dflash.2"
PORT = 30000


class Rollout:
    """The kit's playbooks on the fleet. Engines take long to start, so that tests take hosts as
    they find them, on either release."""

    def __init__(self, fleet: Fleet, folder: Path) -> None:
        for release in (FIRST, SECOND):
            repository = offer(fleet.registry, release)
        self.fleet = fleet
        self.receipts = folder / "receipts"
        self.inventory = fleet.inventory(
            folder,
            dflash_kit_profile="cpu-tiny",
            dflash_kit_bind="0.0.0.0",
            image_registry=repository,
            receipt_folder=str(self.receipts),
        )
        self.one, self.two = fleet.hosts["host1"], fleet.hosts["host2"]

    def start(self, playbook: str, *arguments: str, **variables: object) -> RunningPlay:
        file = ANSIBLE / f"{playbook}.yml"
        return self.fleet.start_play(file, self.inventory, *arguments, **variables)

    def play(self, playbook: str, *arguments: str, **variables: object) -> Play:
        return self.start(playbook, *arguments, **variables).wait()

    def deploy(self, release: str, *arguments: str, **variables: object) -> Play:
        return self.play("deploy", *arguments, dflash_kit_release=release, **variables)

    def settle(self) -> None:
        """Make sure that both hosts run something that was proved."""
        unproved = []
        for host in (self.one, self.two):
            host.mend()
            if not any(is_proved(host, release) for release in (FIRST, SECOND)):
                unproved.append(host.name)
        if unproved:
            done = self.deploy(FIRST, "--limit", ",".join(unproved), dflash_kit_serial=2)
            assert done.rc == 0, done.out


def release_of(host: Host) -> str:
    """The release of the current deployment."""
    return SECOND if (host.current() or "").startswith(SECOND) else FIRST


def other(host: Host) -> str:
    """The release that is not current."""
    return FIRST if release_of(host) == SECOND else SECOND


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


def key(host: Host, role: str = "user") -> str:
    """A key of the host's engine."""
    container = host.container()
    assert container
    return host.run(f"docker exec {container['Id']} dflash-kit keys show {role}")


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
            self.ends.append(self._ask())
            time.sleep(0.1)

    def _ask(self) -> str:
        """`answered`, the status of a refusal, `refused` without one, or what is no clean end."""
        url = f"http://{self.host.address}:{PORT}/v1/chat/completions"
        try:
            answer = requests.post(url, json=PROMPT, headers=self._headers, timeout=60)
        except requests.ConnectionError as error:
            # Before the first byte of an answer: the client knows that it may ask again.
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
