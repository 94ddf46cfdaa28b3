"""The ordered patch series of a release: reading it, and applying it with zero fuzz."""

import email
import email.policy
import os
import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from dflash_kit.releases.tree import PACKAGE, file_sha256

FOLDER = "patches"
SERIES = "series"
HEADERS = ("Subject", "Upstream", "Drop-When")

_PATHS = re.compile(r"^diff --git a/\S+ b/(\S+)$", re.MULTILINE)
_HUNK = re.compile(r"^@@ -(\d+)")
_FAILED_HUNK = re.compile(r"^error: patch failed: (.+):(\d+)$", re.MULTILINE)


class ReleaseError(Exception):
    """A release cannot be built as it lies there: one line a problem, for its author to read."""


@dataclass(frozen=True)
class Patch:
    """A patch of a series: file name, what its header says it does, sha256 of its bytes."""

    name: str
    subject: str
    sha256: str


def names(release_dir: Path) -> list[str]:
    """The patch names of the series, in order; ReleaseError where that file is none."""
    file = release_dir / FOLDER / SERIES
    try:
        lines = [line.strip() for line in file.read_text().splitlines()]
    except FileNotFoundError:
        raise ReleaseError(f"{file}: does not exist, wanted a list of patch names") from None
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ReleaseError(f"{file}: cannot be read: {reason}, wanted patch names") from None
    return [line for line in lines if line and not line.startswith("#")]


def read(release_dir: Path) -> tuple[Patch, ...]:
    """The patches of the series, in order; ReleaseError where the series is not sound."""
    if found := list(problems(release_dir)):
        raise ReleaseError("\n".join(found))
    files = [release_dir / FOLDER / name for name in names(release_dir)]
    return tuple(Patch(file.name, subject(file), file_sha256(file)) for file in files)


def problems(release_dir: Path) -> Iterator[str]:
    """What is wrong with the series by itself: files and headers, one line each."""
    folder = release_dir / FOLDER
    listed = names(release_dir)
    for name in sorted({name for name in listed if listed.count(name) > 1}):
        yield f"{folder / SERIES}: series: names {name} twice"
    for file in sorted(folder.glob("*.patch")):
        if file.name not in listed:
            yield f"{file}: is not in {SERIES}"
    for name in dict.fromkeys(listed):
        file = folder / name
        if not file.is_file():
            yield f"{file}: does not exist, but {SERIES} names it"
            continue
        yield from (f"{file}: {problem}" for problem in _content_problems(_text(file)))


def apply(release_dir: Path, patch_names: list[str], root: Path) -> None:
    """Apply patches below `root`, which holds sglang/; ReleaseError at the first that fails."""
    for name in patch_names:
        file = release_dir / FOLDER / name
        done = git_apply(file, root, "--verbose")
        if done.returncode != 0:
            raise ReleaseError(f"{file}: patch does not apply: {_reason(file, done.stderr)}")


def git_apply(file: Path, root: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """`git apply` of a patch below `root`, zero fuzz; ReleaseError where there is no git."""
    try:
        return subprocess.run(
            ["git", "apply", "-p1", "--whitespace=nowarn", *options, str(file.resolve())],
            cwd=root,
            env=_git_environment(root),
            capture_output=True,
            text=True,
        )
    except OSError as error:
        raise ReleaseError(f"git: cannot be run: {error.strerror}; next: install git") from None


def _git_environment(root: Path) -> dict[str, str]:
    """Make git apply see plain files: inside a repository it skips paths that it takes as outside,
    and a user's settings may let whitespace differ."""
    clean = {key: value for key, value in os.environ.items() if not key.startswith("GIT_")}
    nowhere = {"GIT_DIR": str(root / ".no-repository"), "GIT_CONFIG_GLOBAL": os.devnull}
    return clean | nowhere | {"GIT_CONFIG_NOSYSTEM": "1", "LC_ALL": "C"}


def _text(file: Path) -> str:
    # A damaged patch is reported by its hash, so undecodable bytes must not end the check.
    return file.read_bytes().decode(errors="replace")


def _content_problems(text: str) -> Iterator[str]:
    header = text.split("\ndiff --git ", 1)[0]
    for key in HEADERS:
        if not re.search(rf"^{key}: *\S", header, re.MULTILINE):
            yield f"header: got no line '{key}: ...', wanted one"
    touched = _PATHS.findall(text)
    if not touched:
        yield "got no line 'diff --git a/... b/...', wanted a patch as git writes it"
    for path in touched:
        if not path.startswith(f"{PACKAGE}/"):
            yield f"got the path {path}, wanted one below {PACKAGE}/"


def subject(file: Path) -> str:
    """What the patch does, on one line: mail headers fold, and git writes [PATCH] in front."""
    message = email.message_from_bytes(file.read_bytes(), policy=email.policy.default)
    return re.sub(r"^\[PATCH[^]]*\] *", "", " ".join(str(message["Subject"]).split()))


def _reason(file: Path, stderr: str) -> str:
    """Which file and hunk git refused, or else git's own words."""
    failed = _FAILED_HUNK.findall(stderr)
    said = {f"error: {path}: patch does not apply" for path, _ in failed}
    others = [
        line.removeprefix("error: ")
        for line in stderr.splitlines()
        if line.startswith(("error: ", "fatal: "))
        and not line.startswith(("error: patch failed: ", "error: while searching for:"))
        and line not in said
    ]
    return "; ".join([*(_hunk(file, path, int(line)) for path, line in failed), *others])


def _hunk(file: Path, path: str, line: int) -> str:
    """Name the hunk that starts at `line` of `path`: git gives the line, people count hunks."""
    starts: dict[str, list[int]] = {}
    current = ""
    for text in _text(file).splitlines():
        if text.startswith("--- a/"):
            current = text.removeprefix("--- a/")
        elif found := _HUNK.match(text):
            starts.setdefault(current, []).append(int(found[1]))
    hunks = starts.get(path, [])
    number = f"hunk {hunks.index(line) + 1} of {len(hunks)}" if line in hunks else "a hunk"
    return f"{path}: {number} at line {line}"
