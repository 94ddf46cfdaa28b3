"""Who holds the lock of a host, since when, and whether that rollout is over."""

from __future__ import annotations

import getpass
import hashlib
import platform
from datetime import UTC, datetime
from uuid import getnode

import psutil
from pydantic import AwareDatetime, BaseModel, ConfigDict, ValidationError


class Holder(BaseModel):
    """The content of a lock. `machine` and `started` (seconds after the machine did) tell whether
    process `pid` is still the one that took it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: str
    owner: str
    machine: str
    pid: int
    started: float
    since: AwareDatetime

    def as_line(self) -> str:
        return self.model_dump_json()


def this_run(pid: int) -> Holder:
    """The holder that the rollout in process `pid` of this machine is, always the same."""
    machine, started = _machine(), _started(pid) or 0.0
    return Holder(
        id=hashlib.sha256(f"{machine} {pid} {started}".encode()).hexdigest()[:8],
        owner=f"{getpass.getuser()}@{platform.node()}",
        machine=machine,
        pid=pid,
        started=started,
        since=datetime.fromtimestamp(int(psutil.boot_time() + started), UTC),
    )


def parse(text: str) -> Holder | None:
    """The holder of a lock; None where the file is no lock of this kit."""
    try:
        return Holder.model_validate_json(text)
    except ValidationError:
        return None


def is_over(holder: Holder) -> bool:
    """Whether the rollout ran on this machine and its process has ended."""
    return holder.machine == _machine() and _started(holder.pid) != holder.started


def described(text: str | None) -> str:
    """A lock in a few words; empty where there is none."""
    if not text:
        return ""
    holder = parse(text)
    return f"{holder.owner}, process {holder.pid}" if holder else "not a lock of this kit"


def refusal(host: str, path: str, text: str, now: datetime) -> str:
    """The one line for a rollout that finds the lock taken."""
    holder = parse(text)
    if holder is None:
        return (
            f"{host}: lock {path}: got {text.strip()[:80]!r}, wanted a lock of this kit; remove it"
        )
    minutes, seconds = divmod(max(0, int((now - holder.since).total_seconds())), 60)
    return (
        f"{host}: lock: another rollout runs: {holder.owner}, process {holder.pid}, for {minutes} "
        f"min {seconds} s; wait for it, or, if it is over, run again with "
        f"-e dflash_kit_break_lock={holder.id}"
    )


def _machine() -> str:
    """Two controllers of one name differ by their network address."""
    return f"{platform.node()}-{getnode():012x}"


def _started(pid: int) -> float | None:
    """When a process began, in seconds after the machine; None where there is none (any more)."""
    try:
        process = psutil.Process(pid)
        if process.status() == psutil.STATUS_ZOMBIE:
            return None
        # A clock that is set moves both: a rollout that runs on must not look like one that ended.
        return round(process.create_time() - psutil.boot_time(), 2)
    except psutil.NoSuchProcess:
        return None
