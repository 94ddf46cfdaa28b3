"""What the kernel says of processes and connections; nothing here needs more than /proc."""

import contextlib
import ctypes
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

_PR_SET_CHILD_SUBREAPER = 36
_KILL_PAUSE_SECONDS = 0.02
_KILL_SECONDS = 60.0
# The kernel's number for ESTABLISHED. A client that has closed, even in one direction alone, gets
# no answer from the engine's HTTP server, so no other state has anyone waiting.
_ESTABLISHED = "01"
# Of this control group, as a container sees it: cgroup v2, then v1.
_OOM_COUNTERS = (
    Path("/sys/fs/cgroup/memory.events"),
    Path("/sys/fs/cgroup/memory/memory.oom_control"),
)
# What nvcc and ninja start for a kernel, and they themselves.
_COMPILERS = {"ninja", "nvcc", "cicc", "ptxas", "cudafe++", "cc1plus"}
_MEMORY_LIMITS = (
    Path("/sys/fs/cgroup/memory.max"),
    Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"),
)


def adopt_orphans() -> None:
    """Make processes whose parent dies below this one its own children, so that it can end them."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "PR_SET_CHILD_SUBREAPER")


def reap() -> Iterator[tuple[int, int]]:
    """(pid, exit code) of each child that has ended; -N for one that signal N ended."""
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return
        yield pid, os.waitstatus_to_exitcode(status)


def descendants() -> dict[int, str]:
    """pid -> "name (state)" of every process below this one, zombies left out."""
    return {pid: text for pid, text in _below().items() if not text.endswith("(Z)")}


def compilers() -> list[str]:
    """The compilers at work below this process; one that was stopped is not."""
    found = (text.rpartition(" ") for text in descendants().values())
    return sorted({name for name, _, state in found if name in _COMPILERS and state != "(T)"})


def _below() -> dict[int, str]:
    parents: dict[int, int] = {}
    described: dict[int, str] = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            stat = (entry / "stat").read_text(errors="replace")
        except OSError:
            continue  # it ended while we looked
        name, _, rest = stat.partition("(")[2].rpartition(")")
        state, parent = rest.split()[:2]
        parents[int(entry.name)] = int(parent)
        described[int(entry.name)] = f"{name} ({state})"
    here = os.getpid()
    return {pid: text for pid, text in described.items() if is_below(pid, here, parents)}


def is_below(pid: int, root: int, parents: dict[int, int]) -> bool:
    """Whether process `root` is among the parents of `pid`, however far up."""
    while pid in parents:
        pid = parents[pid]
        if pid == root:
            return True
    return False


def kill_descendants() -> dict[int, str]:
    """End every process below this one by SIGKILL and wait for all; needs adopt_orphans().

    Returns pid -> "name (state)" of those that are left after 10 s: one that waits in a hung
    driver (state D) cannot be killed.

    SIGKILL because a stopped process ignores everything else, and again until none is left because
    one may have started another in between. Returns once the kernel has no child of ours: a
    process whose main thread is a zombie still holds its memory until the last thread is gone.
    """
    deadline = time.monotonic() + _KILL_SECONDS
    while _has_children():
        if time.monotonic() > deadline:
            return _below()
        for pid in descendants():
            # It may have ended since we looked.
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(_KILL_PAUSE_SECONDS)
    return {}


def _has_children() -> bool:
    """Whether any child is left after reaping; orphans are children too, once adopted."""
    try:
        while os.waitpid(-1, os.WNOHANG) != (0, 0):
            pass
    except ChildProcessError:
        return False
    return True


def waiting_clients(port: int) -> int:
    """Number of connections to local TCP `port` whose client may still wait for an answer."""
    count = 0
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        try:
            lines = Path(table).read_text().splitlines()[1:]
        except OSError:
            continue  # no IPv6 here
        for line in lines:
            _, local, _, state = line.split()[:4]
            count += int(local.rpartition(":")[2], 16) == port and state == _ESTABLISHED
    return count


def memory_limit() -> int:
    """Bytes of memory that processes here may use: the control group's limit, or the host's."""
    limit = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    for file in _MEMORY_LIMITS:
        # No such file under the other version; "max" where there is no limit.
        with contextlib.suppress(OSError, ValueError):
            limit = min(limit, int(file.read_text()))
    return limit


def oom_kills() -> int:
    """How many processes the memory limit of this control group has ended so far."""
    for counter in _OOM_COUNTERS:
        try:
            lines = counter.read_text().splitlines()
        except OSError:
            continue
        for line in lines:
            name, _, value = line.partition(" ")
            if name == "oom_kill":
                return int(value)
    return 0
