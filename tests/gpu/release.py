"""A release as it is measured: its trees, the packages that it runs with, its arguments' names."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib.machinery import PathFinder
from importlib.metadata import distributions
from pathlib import Path
from typing import Any

from dflash_kit.host import parse
from dflash_kit.profiles import arguments
from dflash_kit.releases.current import Engine

HERE = Path(__file__).resolve().parent
PACKAGES = ("torch", "triton", "transformers", "sglang-kernel", "flashinfer-python")
_CRASH = "ep-dflash"


def crashes(sglang: str) -> bool:
    """Whether upstream's draft graph ends this version under expert parallelism."""
    before = next(row.before for row in arguments.table().incompatible if row.code == _CRASH)
    assert before is not None
    return parse.version(sglang) < parse.version(before)


@dataclass(frozen=True)
class Release:
    """What trees.py wrote to `trees`; `packages`: a folder of Python packages that come first."""

    trees: Path
    packages: Path | None = None

    @cached_property
    def built(self) -> dict[str, Any]:
        return dict(json.loads((self.trees / "patches.json").read_text()))

    @property
    def name(self) -> str:
        return str(self.built["release"])

    @property
    def sglang(self) -> str:
        return str(self.built["sglang"])

    @property
    def patches(self) -> frozenset[str]:
        return frozenset(patch["name"] for patch in self.built["patches"])

    def environment(self, tree: str) -> dict[str, str]:
        """The calling environment, with the engine of `tree` first and nothing looked up elsewhere.

        The kit is found where this process found it.
        """
        folders = (self.trees / tree, HERE, self.packages, os.environ.get("PYTHONPATH"))
        return os.environ | {
            "PYTHONPATH": os.pathsep.join(str(folder) for folder in folders if folder),
            "HF_HUB_OFFLINE": "1",
            "OMP_NUM_THREADS": "2",
            "SGLANG_ENABLE_JIT_DEEPGEMM": "false",
            # Ranks may find their GPUs unequally full: other engines are on them.
            "SGLANG_ENABLE_TP_MEMORY_INBALANCE_CHECK": "false",
        }

    def named(self, words: Sequence[str]) -> list[str]:
        """A command line with each option, under its newest name, as this release calls it."""
        options = {word[2:]: word[2:] for word in words if word.startswith("--")}
        engine = Engine(self.name, self.sglang, self.patches)
        called = {new: old for old, new in arguments.named_for(options, engine).items()}
        return [f"--{called[word[2:]]}" if word[2:] in called else word for word in words]

    def lacking(self, modules: Sequence[str]) -> list[str]:
        """Those of `modules` that its engines could not import."""
        return [name for name in modules if PathFinder.find_spec(name, self._path) is None]

    def record(self) -> dict[str, Any]:
        """What the report says of it."""
        found = {name: next(distributions(name=name, path=self._path), None) for name in PACKAGES}
        return {
            "built": self.built,
            "versions": {name: each and each.version for name, each in found.items()},
        }

    @cached_property
    def _path(self) -> list[str]:
        return [*([str(self.packages)] if self.packages else []), *sys.path]
