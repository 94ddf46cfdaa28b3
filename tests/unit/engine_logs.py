"""What the engine of each release logs, sound and in trouble: a file for each version of sglang."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import yaml

from dflash_kit import paths
from dflash_kit.releases import catalogue


@cache
def of(release: str) -> dict[str, Any]:
    """`sound`: lines by where they were logged (cpu, gpu, gpu-plain); `signs` of trouble."""
    sglang = catalogue.load(paths.RELEASES_FILE).releases[release].sglang
    written = yaml.safe_load((Path(__file__).parent / "engine_log" / f"{sglang}.yaml").read_text())
    sound = {where: lines.splitlines() for where, lines in written["sound"].items()}
    return {"sound": sound, "signs": written["signs"]}
