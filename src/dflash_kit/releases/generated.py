"""What Compose, buildx and people read: files generated from images/."""

import json
from pathlib import Path
from typing import Any

from dflash_kit.releases import document, lockfile
from dflash_kit.releases.catalogue import Catalogue, Release


def texts(catalogue: Catalogue, images: Path) -> dict[str, str]:
    """Text by file name, relative to the root.

    ReleaseError where a release has no lock, InputError where another file of it is wrong.
    """
    releases = [
        _bake_release(lockfile.read(images / name), release)
        for name, release in catalogue.offered.items()
    ]
    bake = {"variable": {"RELEASES": {"default": releases}}}
    return {
        ".env": (
            "# Generated from images/releases.yaml by `dflash-kit release lock`.\n"
            f"DFLASH_KIT_RELEASE={catalogue.default}\n"
        ),
        "docker-bake.json": json.dumps(bake, indent=2) + "\n",
        document.NAME: document.text(catalogue, images),
    }


def _bake_release(lock: lockfile.Lock, release: Release) -> dict[str, Any]:
    indexes = {name: release.variant(name).torch_index or "" for name in lockfile.VARIANTS}
    return {
        "name": lock.release,
        "sglang": lock.sglang,
        "base": release.base,
        "uv": release.uv,
        "patches": ",".join(patch.name for patch in lock.patches),
        "tree": lock.tree,
        "torch_index": indexes,
    }
