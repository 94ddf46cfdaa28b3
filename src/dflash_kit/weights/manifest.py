"""What the folder of a model holds: every file with its size and sha256."""

import os
from pathlib import Path, PurePosixPath
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from dflash_kit.errors import InputError, Undetermined
from dflash_kit.profiles.load import described

# The kit's own files beside the weights.
OWN = ".dflash-kit"
# Folders at the top that are no weights: the kit's, the hub client's, git's.
_NOT_WEIGHTS = {OWN, ".cache", ".git"}


def _inside(path: str) -> str:
    """A manifest may come from elsewhere: it must not lead out of the folder."""
    pure = PurePosixPath(path)
    if pure.is_absolute() or ".." in pure.parts or str(pure) != path or path == ".":
        raise ValueError("wanted a plain path below the folder")
    return path


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class File(_Strict):
    """A file by its path below the folder; size in bytes."""

    path: Annotated[str, AfterValidator(_inside)]
    size: int = Field(ge=0)
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")


class Manifest(_Strict):
    """All files of a model, sorted by path; where it is from is null where nobody said."""

    schema_version: Literal[1] = 1
    repository: str | None = None
    revision: str | None = None
    files: list[File] = Field(min_length=1)

    @property
    def bytes(self) -> int:
        return sum(file.size for file in self.files)

    def write(self, file: Path) -> None:
        write_whole(file, self.model_dump_json(indent=1) + "\n")


def manifest_file(folder: Path) -> Path:
    """Where the manifest of a folder lies if nobody says otherwise."""
    return folder / OWN / "manifest.json"


def read(file: Path) -> Manifest:
    """InputError where the file is no manifest, Undetermined where there is none."""
    try:
        return Manifest.model_validate_json(file.read_text())
    except FileNotFoundError:
        raise Undetermined(
            f"{file}: is missing, so nobody knows what belongs there; next: where the weights are "
            "known to be good, write it: dflash-kit weights manifest FOLDER"
        ) from None
    except ValidationError as error:
        raise InputError(f"{file}: is no manifest: {described(error)}") from None
    except ValueError as error:  # not UTF-8
        raise InputError(f"{file}: is no manifest: {error}") from None
    except OSError as error:
        raise Undetermined(f"{file}: cannot be read: {error.strerror}") from None


def sizes(folder: Path) -> dict[str, int]:
    """Path below `folder` -> bytes, of every file of the model there, sorted.

    Links to files count as the files. InputError where there is no such folder, or something in it
    is neither file nor folder, such as a link to nothing.
    """
    if not folder.is_dir():
        raise InputError(f"{folder}: is no folder, wanted the folder of a model")
    found: dict[str, int] = {}
    odd: list[str] = []
    for parent, folders, names in os.walk(folder, onerror=_stop):
        if Path(parent) == folder:
            folders[:] = [name for name in folders if name not in _NOT_WEIGHTS]
        links = [name for name in folders if Path(parent, name).is_symlink()]
        for path in (Path(parent, name) for name in [*names, *links]):
            name = path.relative_to(folder).as_posix()
            if path.is_file():
                found[name] = path.stat().st_size
            else:
                odd.append(name)
    if odd:
        raise InputError(
            f"{folder}: {', '.join(sorted(odd))}: got neither file nor folder, wanted files alone"
        )
    return dict(sorted(found.items()))


def _stop(error: OSError) -> None:
    # Else a folder that cannot be read would count as empty.
    raise Undetermined(f"{error.filename}: cannot be read: {error.strerror}")


def write_whole(file: Path, text: str) -> None:
    """Replace `file` in one step, so that one that was interrupted is never read half."""
    file.parent.mkdir(exist_ok=True)
    scratch = file.with_name(f"{file.name}.{os.getpid()}")
    scratch.write_text(text)
    os.replace(scratch, file)
