"""What the engine's log says of its soundness, held against the release's data."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from dflash_kit.engine.keys import Keys
from dflash_kit.releases.engine_data import Log, applies

# A log may hold what users wrote: no more of a line goes into a receipt.
SHOWN = 200


@dataclass(frozen=True)
class LogFinding:
    """What is wrong with a log; `cut` says that its beginning is gone."""

    wrong: list[str]
    next_steps: list[str]
    lacking: list[str]
    cut: bool
    judged: int


def judge(lines: list[str], log: Log, keys: Keys, *, dflash: bool, gpu: bool) -> LogFinding:
    """Every forbidden line that is there, and every required one that is not."""
    forbidden = [x for x in log.forbidden if applies(x.when, dflash=dflash, gpu=gpu)]
    required = [x for x in log.required if applies(x.when, dflash=dflash, gpu=gpu)]
    wrong, steps = [], []
    for line in forbidden:
        if found := _matching(lines, line.pattern):
            wrong.append(f"{line.means}, {len(found)} times: {found[0][:SHOWN]!r}")
            steps.append(line.next_step)
    if any(key in line for line in lines for key in (keys.user, keys.admin)):
        wrong.append("a key is in the log")
        steps.append("make new keys (dflash-kit keys), and remove this log")
    return LogFinding(
        wrong,
        steps,
        [
            f"{line.pattern!r} ({line.means})"
            for line in required
            if len(_matching(lines, line.pattern)) < line.times
        ],
        cut=not any(line.startswith(log.begins) for line in lines),
        judged=len(forbidden) + len(required),
    )


def _matching(lines: Iterable[str], pattern: str) -> list[str]:
    return [line for line in lines if re.search(pattern, line)]
