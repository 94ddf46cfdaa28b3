"""What the package index knows of upstream sglang: versions, and when a wheel was uploaded."""

from __future__ import annotations

import re
import subprocess
import tomllib
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any

from dflash_kit.errors import InputError, Undetermined
from dflash_kit.releases import requirements
from dflash_kit.releases.catalogue import Release
from dflash_kit.releases.tree import PACKAGE

NEWEST = "newest"


@dataclass(frozen=True)
class Upstream:
    """One upstream version; `uploaded` is None where the index does not tell."""

    version: str
    uploaded: date | None


def find(version: str, like: Release) -> Upstream:
    """The upstream `version`, or the newest, for the Python and the platform of a release.

    Raises:
        InputError: it is no version, or there is none of it.
        Undetermined: the index could not be asked.
    """
    if version != NEWEST and not re.fullmatch(r"\d+(\.\w+)+", version):
        raise InputError(f"VERSION: got {version!r}, wanted one such as {like.sglang}, or {NEWEST}")
    requirements.need_uv()
    wanted = PACKAGE if version == NEWEST else f"{PACKAGE}=={version}"
    # uv asks the index that it, or the machine, is set to; its lock tells the time of the upload.
    command = [*requirements.uv_compile(like), "--no-deps", "--no-header"]
    done = subprocess.run(
        [*command, "--format", "pylock.toml", "-"], input=wanted, capture_output=True, text=True
    )
    if done.returncode != 0:
        said = " ".join(done.stderr.split())
        if "there is no version of" in said:
            raise InputError(f"VERSION: got {version}, of which there is no {PACKAGE}")
        raise Undetermined(f"{wanted}: uv cannot find it: {said}")
    return _read(tomllib.loads(done.stdout))


def _read(lock: dict[str, Any]) -> Upstream:
    (package,) = lock["packages"]
    times = [wheel["upload-time"] for wheel in package.get("wheels", []) if "upload-time" in wheel]
    uploaded = max((time.date() for time in times if isinstance(time, datetime)), default=None)
    return Upstream(package["version"], uploaded)
