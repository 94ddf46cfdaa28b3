"""Does a folder hold what its manifest says? Everything that is wrong is said at once."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from dflash_kit.errors import InputError, Undetermined
from dflash_kit.weights.hashes import Hashes
from dflash_kit.weights.manifest import File, Manifest, manifest_file, read, sizes


@dataclass
class Outcome:
    """Of one folder; `read` bytes of `bytes` were read, the rest is unchanged since it was.

    `wrong` and `unclear` are lines; the second are those that are neither yes nor no.
    """

    folder: str
    files: int = 0
    bytes: int = 0
    read: int = 0
    missing: list[str] = field(default_factory=list)
    changed: list[str] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    unclear: list[str] = field(default_factory=list)


def make_manifest(
    folder: Path, repository: str | None, revision: str | None, full: bool = True
) -> Manifest:
    """The manifest of what lies in `folder`; `full` as in verify().

    InputError where no file is there, Undetermined where one cannot be read.
    """
    found = sizes(folder)
    if not found:
        raise InputError(f"{folder}: holds no file, wanted the files of a model")
    outcomes = Hashes(folder).of(found, full)
    sums = {path: outcome for path, outcome in outcomes.items() if isinstance(outcome, str)}
    if len(sums) < len(found):
        raise Undetermined("\n".join(_unread(folder, outcomes)))
    files = [File(path=path, size=size, sha256=sums[path]) for path, size in found.items()]
    return Manifest(repository=repository, revision=revision, files=files)


def verify(folder: Path, full: bool, file: Path | None = None) -> tuple[Outcome, Manifest | None]:
    """Compare `folder` with its manifest, or with the one in `file`; that manifest, if any.

    A file that is unchanged since it was last read is only read again where `full` is set.
    InputError where there is no such folder, or its manifest is none.
    """
    found = sizes(folder)
    try:
        manifest = read(file or manifest_file(folder))
    except Undetermined as reason:
        return Outcome(str(folder), unclear=[str(reason)]), None
    outcome = Outcome(str(folder), len(manifest.files), manifest.bytes)
    wanted = {each.path: each for each in manifest.files}
    outcome.missing = [path for path in wanted if path not in found]
    outcome.unknown = [path for path in found if path not in wanted]
    outcome.wrong += [f"{folder / path}: is missing" for path in outcome.missing]
    outcome.wrong += [f"{folder / path}: is not in the manifest" for path in outcome.unknown]
    _compare(folder, [each for path, each in wanted.items() if path in found], full, outcome)
    return outcome, manifest


def _compare(folder: Path, files: list[File], full: bool, outcome: Outcome) -> None:
    """The contents of the files that are there."""
    got = {each.path: (folder / each.path).stat().st_size for each in files}
    whole = {each.path: each.sha256 for each in files if got[each.path] == each.size}
    hashes = Hashes(folder)
    sums = hashes.of(whole, full)
    outcome.read = hashes.read
    outcome.unclear += _unread(folder, sums)
    for each in files:
        if each.path not in whole:
            line = f"{got[each.path]} bytes, wanted {each.size}"
        elif isinstance(sha256 := sums[each.path], str) and sha256 != each.sha256:
            line = f"sha256 {sha256}, wanted {each.sha256}"
        else:
            continue
        outcome.changed.append(each.path)
        outcome.wrong.append(f"{folder / each.path}: got {line}")


def _unread(folder: Path, outcomes: Mapping[str, str | OSError]) -> list[str]:
    return [
        f"{folder / path}: cannot be read: {error.strerror}"
        for path, error in outcomes.items()
        if isinstance(error, OSError)
    ]
