"""One node under test: a compose project of its own, on its own port, beside whatever runs here."""

import json
import os
import subprocess
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import docker
import pytest
import requests
from docker.models.containers import Container

ROOT = Path(__file__).resolve().parents[2]
KIT = ROOT / ".venv" / "bin" / "dflash-kit"
# Of the processes that run tests at the same time, each has names and ports of its own.
_LANE = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
PROMPT = {"model": "tiny", "messages": [{"role": "user", "content": "What is a release?"}]}


class Node:
    """`docker compose` on this repository, with the variables that a user would set."""

    def __init__(self, project: str, port: int, **variables: str) -> None:
        self.project = f"{project}-{_LANE}"
        self.port = port + 100 * _LANE
        self.url = f"http://127.0.0.1:{self.port}"
        self.environment = os.environ | {
            "COMPOSE_PROJECT_NAME": self.project,
            "DFLASH_KIT_PORT": str(self.port),
            **variables,
        }

    def run(self, *command: str | Path, check: bool = True) -> subprocess.CompletedProcess[str]:
        """Run a command with this node's variables; its output is shown where it fails."""
        done = subprocess.run(
            [str(part) for part in command],
            cwd=ROOT,
            env=self.environment,
            capture_output=True,
            text=True,
        )
        if check and done.returncode != 0:
            raise AssertionError(
                f"{command} ended with {done.returncode}:\n{done.stdout}{done.stderr}"
            )
        return done

    def compose(self, *arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        return self.run("docker", "compose", *arguments, check=check)

    def up(self) -> None:
        self.compose("up", "--detach", "--wait", "engine")

    def down(self) -> None:
        self.compose("--profile", "*", "down", "--volumes", "--remove-orphans")

    @property
    def container(self) -> Container:
        found = self.compose("ps", "--all", "--quiet", "engine").stdout.strip()
        return docker.from_env().containers.get(found)

    def key(self, name: str = "user") -> str:
        return self.compose(
            "exec", "-T", "engine", "dflash-kit", "keys", "show", name
        ).stdout.strip()

    def key_file(self, name: str, folder: Path) -> Path:
        file = folder / name
        file.touch(mode=0o600)
        file.write_text(self.key(name))
        return file

    def headers(self, name: str = "user") -> dict[str, str]:
        return {"Authorization": f"Bearer {self.key(name)}"}

    def get(self, path: str) -> requests.Response:
        return requests.get(self.url + path, headers=self.headers(), timeout=60)

    def chat(self, headers: dict[str, str]) -> requests.Response:
        return requests.post(
            f"{self.url}/v1/chat/completions", json=PROMPT, headers=headers, timeout=60
        )

    def signal(self, process: str, signal: str) -> int:
        """Send a signal to the process of that title in the engine's container; gives its pid."""
        script = (
            "import os, pathlib, signal, sys\n"
            "for p in pathlib.Path('/proc').glob('[0-9]*/cmdline'):\n"
            "    if sys.argv[1] in p.read_bytes().replace(b'\\0', b' ').decode()"
            " and int(p.parent.name) != os.getpid():\n"
            "        os.kill(int(p.parent.name), getattr(signal, sys.argv[2]))\n"
            "        sys.exit(print(p.parent.name))\n"
            "sys.exit('no such process: ' + sys.argv[1])\n"
        )
        return int(
            self.compose("exec", "-T", "engine", "python3", "-c", script, process, signal).stdout
        )

    def await_restart(self, before: str, deadline_s: float = 240) -> float:
        """Seconds until the engine, started anew after `before`, answers a chat again."""
        begin = time.monotonic()
        while time.monotonic() - begin < deadline_s:
            state = self.container.attrs["State"]
            if state["StartedAt"] != before and state["Running"]:
                try:
                    if self.chat(self.headers()).status_code == 200:
                        return time.monotonic() - begin
                except (requests.RequestException, AssertionError):
                    pass
            time.sleep(0.5)
        raise AssertionError(f"not serving again within {deadline_s} s:\n{self.logs()}")

    @property
    def started_at(self) -> str:
        return str(self.container.attrs["State"]["StartedAt"])

    def logs(self) -> str:
        return self.compose("logs", "--no-color", "engine").stdout


def each(releases: Iterable[str]) -> list[Any]:
    """Releases as parameters of a test; those that are not the default one are marked."""
    default = lock()["release"]
    mark = pytest.mark.other_release
    return [name if name == default else pytest.param(name, marks=mark) for name in releases]


@contextmanager
def running(project: str, port: int, build: str | None = None, **variables: str) -> Iterator[Node]:
    """A node that is up, and gone with its volumes afterwards; `build` is a release to build."""
    node = Node(project, port, **variables)
    node.down()
    try:
        if build:
            node.run(ROOT / "scripts/image", "cpu", build)
        node.up()
        yield node
    finally:
        node.down()


def image(variant: str = "cpu") -> str:
    """The default release's image."""
    return f"dflash-kit/engine:{lock()['release']}-{variant}"


def built(release: str) -> str:
    """The cpu image of `release`, built where it is missing."""
    tag = f"dflash-kit/engine:{release}-cpu"
    try:
        docker.from_env().images.get(tag)
    except docker.errors.ImageNotFound:
        subprocess.run([ROOT / "scripts/image", "cpu", release], check=True)
    return tag


def lock(release: str | None = None) -> dict[str, Any]:
    """The lock of a release (default: the default release)."""
    if release is None:
        release = dict(
            line.split("=", 1) for line in (ROOT / ".env").read_text().splitlines() if "=" in line
        )["DFLASH_KIT_RELEASE"]
    return dict(json.loads((ROOT / "images" / release / "release.lock.json").read_text()))
