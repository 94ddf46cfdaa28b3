"""Reads profile and pair files; a mistake in one is a line that names file, field, got, wanted."""

from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ValidationError

from dflash_kit import paths
from dflash_kit.errors import InputError
from dflash_kit.profiles.models import Pair, Profile
from dflash_kit.profiles.shape import Shape

T = TypeVar("T", Profile, Pair, Shape)
Model = TypeVar("Model", bound=BaseModel)


def profile_names() -> list[str]:
    """Names of all profiles, sorted."""
    return _names(paths.PROFILES)


def load_profile(name: str) -> Profile:
    """The profile called `name`; InputError where there is none or its file is wrong."""
    return _load(Profile, paths.PROFILES, name)


def load_pair(name: str) -> Pair:
    """The pair called `name`; InputError where there is none or its file is wrong."""
    return _load(Pair, paths.PAIRS, name)


def load_shape(name: str) -> Shape:
    """The shape called `name`; InputError where there is none or its file is wrong."""
    return _load(Shape, paths.SHAPES, name)


def load_file(model: type[Model], file: Path) -> Model:
    """What `file` holds, as `model`; InputError where it is wrong."""
    return _validated(model, read_yaml(file), file)


def _validated(model: type[Model], content: Any, file: Path) -> Model:
    try:
        return model.model_validate(content)
    except ValidationError as error:
        raise InputError(f"{file}: {described(error)}") from None


def _names(folder: Path) -> list[str]:
    return sorted(file.stem for file in folder.glob("*.yaml"))


def _load(model: type[T], folder: Path, name: str) -> T:
    kind = model.__name__.lower()
    names = _names(folder)
    if name not in names:
        known = ", ".join(names) or f"none in {folder}"
        raise InputError(f"unknown {kind} {name!r}: wanted one of: {known}")
    file = folder / f"{name}.yaml"
    loaded = _validated(model, _extended(folder, name), file)
    if loaded.name != name:
        raise InputError(f"{file}: name: got {loaded.name!r}, wanted {name!r} as the file's name")
    return loaded


def _extended(folder: Path, name: str, seen: tuple[str, ...] = ()) -> Any:
    """The content of a file over that of the one it `extends`, mapping by mapping."""
    file = folder / f"{name}.yaml"
    content = read_yaml(file)
    if not isinstance(content, dict) or "extends" not in content:
        return content
    base = content.pop("extends")
    others = [x for x in _names(folder) if x not in (*seen, name)]
    if base not in others:
        raise InputError(
            f"{file}: extends: got {base!r}, wanted one of: {', '.join(others) or 'none'}"
        )
    return _merged(_extended(folder, base, (*seen, name)), content)


def _merged(base: Any, over: Any) -> Any:
    if not (isinstance(base, dict) and isinstance(over, dict)):
        return over
    return {**base, **{key: _merged(base.get(key), value) for key, value in over.items()}}


def read_yaml(file: Path) -> Any:
    """The content of a YAML file; InputError where it cannot be read or is none."""
    try:
        return yaml.safe_load(file.read_text())
    except OSError as error:
        raise InputError(f"{file}: cannot be read: {error.strerror}") from None
    except (yaml.YAMLError, ValueError) as error:  # the latter: a date that is none, or not UTF-8
        reason = " ".join(str(error).split())
        raise InputError(f"{file}: is not YAML: {reason}") from None


def described(error: ValidationError) -> str:
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
