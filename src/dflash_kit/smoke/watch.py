"""What has become of the engine's container between two looks at it."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable

from dflash_kit.smoke.container import Process, Seen

# A process that has ended is a zombie until its parent looks.
ZOMBIE_SECONDS = 1.0


def differences(before: Seen, look: Callable[[], Seen], pattern: str) -> tuple[list[str], Seen]:
    """What is no longer as it was: the container, its start, each process that is named so; and
    how it is now. Looked at twice where something is wrong.

    Raises:
        Undetermined: it cannot be seen.
    """
    now = look()
    if _differences(before, now, pattern):
        time.sleep(ZOMBIE_SECONDS)
        now = look()
    return _differences(before, now, pattern), now


def _differences(before: Seen, now: Seen, pattern: str) -> list[str]:
    if now.id != before.id:
        return [f"another container: {now.id[:12]}, before {before.id[:12]}"]
    problems = []
    if not now.running:
        problems.append("the container is not running")
    elif (now.started, now.restarts) != (before.started, before.restarts):
        problems.append(f"restarted: {now.restarts} times, before {before.restarts}")
    problems += [
        f"{process.title} ({pid}) has ended"
        for pid, process in before.processes.items()
        if pid not in now.processes and matching([process], pattern)
    ]
    problems += [
        f"{process.title} ({pid}) is a zombie"
        for pid, process in now.processes.items()
        if process.is_zombie
    ]
    return problems


def matching(processes: Iterable[Process], pattern: str) -> list[Process]:
    """The processes with such a title; others come and go (health checks, compilers)."""
    return [process for process in processes if re.search(pattern, process.title)]


def growth_mib(before: Seen, now: Seen) -> dict[str, int]:
    """By how much memory has grown, by kind; what cannot be seen is left out."""
    grown = {"resident": now.resident_mib - before.resident_mib}
    if before.gpu_mib is not None and now.gpu_mib is not None:
        grown["GPU"] = now.gpu_mib - before.gpu_mib
    return grown
