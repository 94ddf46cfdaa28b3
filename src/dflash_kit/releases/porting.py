"""Trying the patches of one release on the source tree of another upstream version."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from dflash_kit.releases import series

Verdict = Literal["applies", "upstream", "conflict"]

_FILE = re.compile(r"^(?=diff --git )", re.MULTILINE)
_HUNK = re.compile(r"^(?=@@ -)", re.MULTILINE)
_PATH = re.compile(r"^diff --git a/(\S+) b/\S+$", re.MULTILINE)
_LINE = re.compile(r"^@@ -(\d+)")
_MOVED = re.compile(r"^Hunk #\d+ succeeded at \d+ \(offset ", re.MULTILINE)


@dataclass(frozen=True)
class Hunk:
    """One hunk of a patch by itself: where it starts in the file that it was made for.

    missing: there is no such file. namesakes: where a file of its name is instead.
    """

    file: str
    line: int
    verdict: Verdict
    missing: bool = False
    namesakes: tuple[str, ...] = ()

    def __str__(self) -> str:
        said = "no such file" if self.missing else self.verdict
        elsewhere = f"; of this name: {', '.join(self.namesakes)}" * bool(self.namesakes)
        return f"{self.file}:{self.line}: {said}{elsewhere}"


@dataclass(frozen=True)
class Tried:
    """What became of one patch.

    moved: how many of its hunks fit at another line. hunks: those that do not fit, of a conflict.
    follows: patches in conflict before it that touch the same files, and may be why.
    """

    name: str
    subject: str
    verdict: Verdict
    moved: int = 0
    hunks: tuple[Hunk, ...] = ()
    follows: tuple[str, ...] = ()


def try_series(release_dir: Path, root: Path) -> list[Tried]:
    """Apply what applies of a release's series below `root`, in order; what became of each patch.

    ReleaseError where the series cannot be read.
    """
    tried: list[Tried] = []
    touched: dict[str, set[str]] = {}
    for name in series.names(release_dir):
        file = release_dir / series.FOLDER / name
        found = _try(file, root)
        paths = set(_PATH.findall(_text(file)))
        if found.verdict == "conflict":
            follows = tuple(other for other, theirs in touched.items() if paths & theirs)
            touched[name] = paths
            found = Tried(name, found.subject, "conflict", hunks=found.hunks, follows=follows)
        tried.append(found)
    return tried


def _try(file: Path, root: Path) -> Tried:
    done = series.git_apply(file, root, "--verbose")
    subject = series.subject(file)
    if done.returncode == 0:
        return Tried(file.name, subject, "applies", len(_MOVED.findall(done.stderr)))
    if _fits(file, root, "--reverse"):
        return Tried(file.name, subject, "upstream")
    hunks = list(_hunks(file, root))
    # Where each fits alone and not all together, any may be the reason.
    bad = [hunk for hunk in hunks if hunk.verdict != "applies"] or hunks
    return Tried(file.name, subject, "conflict", hunks=tuple(bad))


def _hunks(file: Path, root: Path) -> Iterator[Hunk]:
    """Each hunk of a patch, tried alone."""
    for section in _FILE.split(_text(file))[1:]:
        path = _PATH.findall(section)[0]
        head, *hunks = _HUNK.split(section)
        missing = "\nnew file mode " not in head and not (root / path).is_file()
        namesakes = _named_as(Path(path), root) if missing else ()
        for hunk in hunks or [""]:  # a renamed file has none
            found = _LINE.match(hunk)
            line = int(found[1]) if found else 0
            yield Hunk(path, line, _alone(head + hunk, root), missing, namesakes)


def _named_as(path: Path, root: Path) -> tuple[str, ...]:
    if path.name == "__init__.py":
        return ()
    found = (file.relative_to(root).as_posix() for file in root.rglob(path.name))
    return tuple(sorted(found))


def _alone(text: str, root: Path) -> Verdict:
    with tempfile.NamedTemporaryFile("w", suffix=".patch") as part:
        part.write(text)
        part.flush()
        if _fits(Path(part.name), root):
            return "applies"
        return "upstream" if _fits(Path(part.name), root, "--reverse") else "conflict"


def _fits(file: Path, root: Path, *options: str) -> bool:
    return series.git_apply(file, root, "--check", *options).returncode == 0


def _text(file: Path) -> str:
    return file.read_bytes().decode(errors="surrogateescape")
