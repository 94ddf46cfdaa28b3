"""The release that is meant: that of this image, one by name, or the default."""

import json
from dataclasses import dataclass
from typing import Any

from dflash_kit import paths
from dflash_kit.errors import InputError
from dflash_kit.releases import catalogue, series


@dataclass(frozen=True)
class Engine:
    """What decides which arguments an engine takes: its release, sglang and patches."""

    release: str
    sglang: str
    patches: frozenset[str]


def default_release() -> str:
    """The release of this image; outside an image, the default of releases.yaml."""
    if record := _image_record():
        return str(record["release"])
    return catalogue.load(paths.RELEASES_FILE).default


def engine(release: str | None = None) -> Engine:
    """The engine of `release`, or of the release that is meant where none is named.

    Raises:
        InputError: there is no such release, or its series cannot be read.
    """
    record = _image_record()
    if record and release in (None, record["release"]):
        patches = frozenset(patch["name"] for patch in record["patches"])
        return Engine(record["release"], record["sglang"], patches)
    name = release or default_release()
    found = catalogue.load(paths.RELEASES_FILE).named(name)[name]
    try:
        return Engine(name, found.sglang, frozenset(series.names(paths.IMAGES / name)))
    except series.ReleaseError as error:
        raise InputError(str(error)) from None


def _image_record() -> dict[str, Any]:
    """What the build wrote about this image; empty outside one."""
    if not paths.PATCHES_FILE.exists():
        return {}
    try:
        record = json.loads(paths.PATCHES_FILE.read_text())
        record["release"], record["sglang"], [patch["name"] for patch in record["patches"]]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(
            f"{paths.PATCHES_FILE}: not the record of a build: {error!r}; build the image again"
        ) from None
    return dict(record)
