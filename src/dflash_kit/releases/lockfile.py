"""release.lock.json, and whether the files next to it are still the ones it was written for."""

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from dflash_kit.releases import series
from dflash_kit.releases.series import Patch, ReleaseError
from dflash_kit.releases.tree import file_sha256

NAME = "release.lock.json"
VARIANTS = ("cpu", "cuda")
RELOCK = "if that is meant: dflash-kit release lock"

_KINDS = {
    "release": str,
    "sglang": str,
    "wheel": dict,
    "drop": list,
    "requirements": dict,
    "patches": list,
    "tree": str,
}


@dataclass(frozen=True)
class Wheel:
    """The upstream wheel: its file name and the sha256 of its bytes."""

    file: str
    sha256: str


@dataclass(frozen=True)
class Lock:
    """Everything that decides what a release is.

    drop: paths of the tree that are not shipped. requirements: sha256 by file name. tree: see
    releases.tree.
    """

    release: str
    sglang: str
    wheel: Wheel
    drop: tuple[str, ...]
    requirements: dict[str, str]
    patches: tuple[Patch, ...]
    tree: str

    def as_json(self) -> str:
        return json.dumps(asdict(self), indent=2) + "\n"


def read(release_dir: Path) -> Lock:
    """The lock of the release in `release_dir`; ReleaseError where it is missing or no lock."""
    file = release_dir / NAME
    again = "next: dflash-kit release lock"
    try:
        return _lock(json.loads(file.read_text()))
    except FileNotFoundError:
        raise ReleaseError(f"{file}: does not exist; {again}") from None
    except OSError as error:
        raise ReleaseError(f"{file}: cannot be read: {error.strerror}; {again}") from None
    except (ValueError, TypeError, KeyError) as error:
        raise ReleaseError(f"{file}: is not a release lock: {error}; {again}") from None


def _lock(content: Any) -> Lock:
    """The lock that `content` is; TypeError or KeyError where it is none."""
    for name, kind in _KINDS.items():
        if not isinstance(content[name], kind):
            raise TypeError(f"{name}: got {content[name]!r}, wanted a {kind.__name__}")
    lock = Lock(
        **content
        | {
            "wheel": Wheel(**content["wheel"]),
            "drop": tuple(content["drop"]),
            "patches": tuple(Patch(**patch) for patch in content["patches"]),
        }
    )
    patches = [text for patch in content["patches"] for text in patch.values()]
    texts = [*content["wheel"].values(), *lock.drop, *lock.requirements.values(), *patches]
    for text in texts:
        if not isinstance(text, str):
            raise TypeError(f"got {text!r}, wanted a str")
    return lock


def requirement_files(release_dir: Path) -> list[Path]:
    """The requirements that a release is locked to: what is asked for (.in) and what it gave."""
    return [
        release_dir / f"requirements-{variant}.{kind}"
        for variant in VARIANTS
        for kind in ("in", "txt")
    ]


def problems(lock: Lock, release_dir: Path) -> list[str]:
    """What in `release_dir` differs from its lock, one line each."""
    return [
        *_series_problems(lock, release_dir),
        *_patch_problems(lock, release_dir),
        *_requirement_problems(lock, release_dir),
    ]


def wheel_problems(lock: Lock, wheel: Path) -> list[str]:
    """Whether `wheel` is the file that the release is made from."""
    if not wheel.is_file():
        return [f"{wheel}: does not exist, wanted the wheel {lock.wheel.file}"]
    got = file_sha256(wheel)
    if got == lock.wheel.sha256:
        return []
    return [f"{wheel}: wheel hash: got sha256 {got}, wanted {lock.wheel.sha256}; next: delete it"]


def _series_problems(lock: Lock, release_dir: Path) -> Iterator[str]:
    file = release_dir / series.FOLDER / series.SERIES
    got = series.names(release_dir)
    wanted = [patch.name for patch in lock.patches]
    yield from series.problems(release_dir)
    yield from (f"{file}: series: {x} is not in {NAME}; {RELOCK}" for x in got if x not in wanted)
    yield from (
        f"{file}: series: lacks {x}, which is in {NAME}; {RELOCK}" for x in wanted if x not in got
    )
    if sorted(got) == sorted(wanted) and got != wanted:
        order = f"got the order {', '.join(got)}, wanted {', '.join(wanted)}"
        yield f"{file}: series: {order}; {RELOCK}"


def _patch_problems(lock: Lock, release_dir: Path) -> Iterator[str]:
    for patch in lock.patches:
        file = release_dir / series.FOLDER / patch.name
        if file.is_file() and (got := file_sha256(file)) != patch.sha256:
            yield f"{file}: patch hash: got {got}, wanted {patch.sha256}; {RELOCK}"


def _requirement_problems(lock: Lock, release_dir: Path) -> Iterator[str]:
    for file in requirement_files(release_dir):
        wanted = lock.requirements.get(file.name)
        got = file_sha256(file) if file.is_file() else None
        if got is None or got != wanted:
            yield f"{file}: requirements: got {got}, wanted {wanted}; {RELOCK}"
