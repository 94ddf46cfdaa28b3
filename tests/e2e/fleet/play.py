"""Running playbooks, in the foreground, and in the background to be killed at a chosen moment."""

import os
import re
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.e2e.fleet import record

_RECAP = re.compile(
    r"^(\S+)\s+: ok=\d+\s+changed=(\d+)\s+unreachable=(\d+)\s+failed=(\d+)", re.MULTILINE
)


@dataclass(frozen=True)
class Play:
    """A playbook's end: exit code, everything it printed, seconds, and the recap by host."""

    rc: int
    out: str
    seconds: float
    changed: dict[str, int]
    failed: dict[str, int]
    unreachable: dict[str, int]


class RunningPlay:
    """A playbook that runs in the background."""

    def __init__(
        self, command: list[str], environment: dict[str, str], folder: Path, shown: str
    ) -> None:
        """`shown` is the command as the table of all plays has it."""
        self._begin = time.monotonic()
        self._shown = shown
        self._process = subprocess.Popen(
            command,
            env=environment,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        self._lines: list[str] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout
        self._lines.extend(iter(self._process.stdout.readline, ""))

    @property
    def out(self) -> str:
        """What it printed so far."""
        return "".join(self._lines)

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    def wait_for(self, what: str | Callable[[], bool], seconds: float = 180) -> None:
        """Until a text was printed or a predicate is true; AssertionError where it never is."""
        end = time.monotonic() + seconds
        while not (what in self.out if isinstance(what, str) else what()):
            assert self._process.poll() is None, f"ended before {what}:\n{self.out}"
            assert time.monotonic() < end, f"no {what} within {seconds} s:\n{self.out}"
            time.sleep(0.05)

    def kill9(self) -> None:
        """End the controller and all that it started, without a chance to clear up."""
        # Ansible's workers have sessions of their own. Stopped first, so that none is missed.
        pids = [self._process.pid]
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
            pids += _children(pid)
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        self._process.wait()
        record.keep(self._shown, "killed", time.monotonic() - self._begin, "")

    def wait(self) -> Play:
        """Its end."""
        rc = self._process.wait()
        self._reader.join(timeout=5)
        recap = _RECAP.findall(self.out)
        changed, unreachable, failed = (
            {row[0]: int(row[column]) for row in recap} for column in (1, 2, 3)
        )
        seconds = time.monotonic() - self._begin
        record.keep(self._shown, rc, seconds, self.out)
        return Play(rc, self.out, seconds, changed, failed, unreachable)


def _children(pid: int) -> list[int]:
    tasks = Path(f"/proc/{pid}/task").glob("*/children")
    return [int(child) for task in tasks for child in task.read_text().split()]
