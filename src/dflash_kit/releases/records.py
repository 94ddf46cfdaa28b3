"""What people wrote down of a release: fate.yaml and verified.yaml beside its patches."""

from __future__ import annotations

from pathlib import Path
from typing import Literal, TypeVar

from pydantic import BaseModel, Field, ValidationError

from dflash_kit.errors import InputError
from dflash_kit.profiles.load import described, read_yaml
from dflash_kit.profiles.models import Strict

FATE, VERIFIED = "fate.yaml", "verified.yaml"

T = TypeVar("T", bound=BaseModel)


class Fate(Strict):
    """What became of one patch: see docs/patches.md for the words."""

    fate: Literal["ported", "upstream", "not-applicable", "left-out"]
    note: str = Field(min_length=1)


class Fates(Strict):
    """What became of each patch of the release `of`; `new`: name -> why, of patches first here."""

    of: str
    patches: dict[str, Fate]
    new: dict[str, str] = {}


class Run(Strict):
    """What was run where (`CPU`, or the GPUs), with what result; `link` is below docs/."""

    where: str = Field(min_length=1)
    what: str = Field(min_length=1)
    link: str = Field(min_length=1)


class Verified(Strict):
    """What was run, and what was not."""

    runs: list[Run]
    not_run: list[str] = []

    @property
    def on_gpu(self) -> bool:
        return any(run.where != "CPU" for run in self.runs)


def fates(release_dir: Path) -> Fates | None:
    """fate.yaml; None where there is none, InputError where it is wrong."""
    return _read(Fates, release_dir / FATE)


def verified(release_dir: Path) -> Verified | None:
    """verified.yaml; None where there is none, InputError where it is wrong."""
    return _read(Verified, release_dir / VERIFIED)


def _read(model: type[T], file: Path) -> T | None:
    if not file.is_file():
        return None
    try:
        return model.model_validate(read_yaml(file))
    except ValidationError as error:
        raise InputError(f"{file}: {described(error)}") from None
