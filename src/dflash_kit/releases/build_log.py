"""What a build's log says of its time: the plain progress of buildx, and the whole in one line."""

from __future__ import annotations

import re
from dataclasses import dataclass

# The last line of a log that scripts/measure_images.py wrote.
TOTAL = "whole build: {:.1f} s"
_TOTAL = re.compile(r"^whole build: ([\d.]+) s$", re.MULTILINE)
_DONE = re.compile(r"^#(\d+) DONE ([\d.]+)s$", re.MULTILINE)
_CACHED = re.compile(r"^#(\d+) CACHED$", re.MULTILINE)


@dataclass(frozen=True)
class BuildLog:
    """seconds: of the whole build, None where the log does not say. steps_s: of all steps together,
    which is more where some ran at once. cached: steps that were there already, of `steps`."""

    seconds: float | None
    steps_s: float
    steps: int
    cached: int


def read(text: str) -> BuildLog:
    """The figures of a log, whatever it holds."""
    total = _TOTAL.findall(text)
    # A step that fetches is told several times; the last time counts.
    done = {step: float(seconds) for step, seconds in _DONE.findall(text)}
    cached = set(_CACHED.findall(text))
    return BuildLog(
        seconds=float(total[-1]) if total else None,
        steps_s=round(sum(done.values()), 1),
        steps=len(done.keys() | cached),
        cached=len(cached),
    )
