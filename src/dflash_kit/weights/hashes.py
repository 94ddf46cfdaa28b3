"""sha256 of many large files, and the stamp that saves reading them again."""

import os
import sys
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

from dflash_kit.releases.tree import file_sha256
from dflash_kit.weights.manifest import OWN, write_whole


class Seen(BaseModel):
    """A file as it was when it was read. Unlike the time of modification, that of change (ctime)
    cannot be set: neither a copy nor a tool that restores times makes a new file look like it.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    size: int
    ctime_ns: int
    sha256: str


class Stamp(BaseModel):
    """What was read of a folder, by path."""

    model_config = ConfigDict(extra="forbid")

    files: dict[str, Seen] = {}


class Hashes:
    """The sha256 of the files below `folder`; `read` counts the bytes that were really read."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.read = 0
        self._file = folder / OWN / "verified.json"
        self._stamp = _read_stamp(self._file)

    def of(self, paths: Iterable[str], full: bool) -> dict[str, str | OSError]:
        """Path -> sha256, or why the file cannot be read; sorted as `paths`.

        A file that is unchanged since it was last read is only read again where `full` is set.
        What is read is remembered, also where the rest is interrupted.
        """
        found: dict[str, str | OSError | None] = {
            path: None if full else self._remembered(path) for path in paths
        }
        unread = [path for path, sha256 in found.items() if sha256 is None]
        try:
            found |= self._read_all(unread)
        finally:
            if unread:
                self._remember()
        return {path: sha256 for path, sha256 in found.items() if sha256 is not None}

    def _remembered(self, path: str) -> str | None:
        seen = self._stamp.files.get(path)
        status = (self.folder / path).stat()
        if seen and (seen.size, seen.ctime_ns) == (status.st_size, status.st_ctime_ns):
            return seen.sha256
        return None

    def _read_all(self, paths: list[str]) -> dict[str, str | OSError]:
        sizes = {path: (self.folder / path).stat().st_size for path in paths}
        outcomes: dict[str, str | OSError] = {}
        # Hashing is done outside the interpreter's lock, so threads use every core.
        pool = ThreadPoolExecutor(len(os.sched_getaffinity(0)))
        try:
            with _progress() as progress:
                task = progress.add_task(self.folder.name, total=sum(sizes.values()))
                for done in as_completed([pool.submit(self._one, path) for path in sizes]):
                    path, outcome = done.result()
                    progress.advance(task, sizes[path])
                    if isinstance(outcome, Seen):
                        self.read += outcome.size
                        self._stamp.files[path] = outcome
                    outcomes[path] = outcome.sha256 if isinstance(outcome, Seen) else outcome
        finally:
            pool.shutdown(cancel_futures=True)
        return outcomes

    def _one(self, path: str) -> tuple[str, Seen | OSError]:
        file = self.folder / path
        try:
            # Before it is read: a file that changes meanwhile is then read again next time.
            status = file.stat()
            sha256 = file_sha256(file)
        except OSError as error:
            return path, error
        return path, Seen(size=status.st_size, ctime_ns=status.st_ctime_ns, sha256=sha256)

    def _remember(self) -> None:
        try:
            write_whole(self._file, self._stamp.model_dump_json() + "\n")
        except OSError as error:
            print(
                f"dflash-kit: {self._file}: cannot be written ({error.strerror}), so the next time "
                "everything is read again",
                file=sys.stderr,
            )


def _read_stamp(file: Path) -> Stamp:
    # A stamp only saves time: one that cannot be used is none.
    try:
        return Stamp.model_validate_json(file.read_text())
    except (OSError, ValidationError, ValueError):
        return Stamp()


def _progress() -> Progress:
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn())
    console = Console(stderr=True)
    return Progress(
        *columns,
        TransferSpeedColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )
