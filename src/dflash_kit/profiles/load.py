"""Reads profile and pair files; a mistake in one is a line that names file, field, got, wanted."""

from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ValidationError

from dflash_kit import paths
from dflash_kit.errors import InputError
from dflash_kit.profiles.models import Pair, Profile

T = TypeVar("T", Profile, Pair)


def profile_names() -> list[str]:
    """Names of all profiles, sorted."""
    return _names(paths.PROFILES)


def load_profile(name: str) -> Profile:
    """The profile called `name`; InputError where there is none or its file is wrong."""
    return _load(Profile, paths.PROFILES, name)


def load_pair(name: str) -> Pair:
    """The pair called `name`; InputError where there is none or its file is wrong."""
    return _load(Pair, paths.PAIRS, name)


def _names(folder: Path) -> list[str]:
    return sorted(file.stem for file in folder.glob("*.yaml"))


def _load(model: type[T], folder: Path, name: str) -> T:
    kind = model.__name__.lower()
    names = _names(folder)
    if name not in names:
        known = ", ".join(names) or f"none in {folder}"
        raise InputError(f"unknown {kind} {name!r}: wanted one of: {known}")
    file = folder / f"{name}.yaml"
    content = _read(file)
    try:
        loaded = model.model_validate(content)
    except ValidationError as error:
        raise InputError(f"{file}: {_describe(error)}") from None
    if loaded.name != name:
        raise InputError(f"{file}: name: got {loaded.name!r}, wanted {name!r} as the file's name")
    return loaded


def _read(file: Path) -> Any:
    try:
        return yaml.safe_load(file.read_text())
    except OSError as error:
        raise InputError(f"{file}: cannot be read: {error.strerror}") from None
    except (yaml.YAMLError, ValueError) as error:  # the latter: a date that is none, or not UTF-8
        reason = " ".join(str(error).split())
        raise InputError(f"{file}: is not YAML: {reason}") from None


def _describe(error: ValidationError) -> str:
    """All wrong fields on one line: `field: got X: what was wanted`."""
    return "; ".join(
        f"{'.'.join(str(part) for part in item['loc']) or 'file'}: "
        f"{_got(item['input'], item['type'])}{item['msg'].lower()}"
        for item in error.errors(include_url=False)
    )


def _got(value: Any, kind: str) -> str:
    # A missing field has no value of its own, and a whole mapping would fill the line.
    if kind == "missing" or isinstance(value, dict | BaseModel):
        return ""
    return f"got {value!r}: "
