"""A small pair that a host must have in its folder of weights, made of the tiny pair's files."""

import shutil
from pathlib import Path
from typing import Any

from dflash_kit import paths
from dflash_kit.profiles.load import load_pair
from dflash_kit.profiles.models import Pair

REVISION = "0123456789" * 4


def staged_pair(**draft: Any) -> Pair:
    """The tiny pair, but in /models/us/{target,draft} and pinned; `draft` changes the draft."""
    models = {
        name: {"path": f"/models/us/{name}", "repository": f"us/{name}", "revision": REVISION}
        for name in ("target", "draft")
    }
    models["draft"] |= draft
    return Pair.model_validate(load_pair("tiny").model_dump() | models)


def files_of(pair_folder: Path) -> Path:
    """The files of both models, as the hub or a host has them, below `pair_folder`/us."""
    for name in ("target", "draft"):
        shutil.copytree(paths.ROOT / "models/tiny" / name, pair_folder / "us" / name)
    return pair_folder
