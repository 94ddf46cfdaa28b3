"""Receipts from files and folders, and each host's story told by them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from dflash_kit.errors import InputError
from dflash_kit.smoke import receipt as receipts
from dflash_kit.smoke.receipt import Receipt
from dflash_kit.smoke.speed import SpeedPoint
from dflash_kit.verdicts import Record, Verdict

# What asks for somebody to do something, the worst first.
TROUBLE = (Verdict.FAIL, Verdict.INCONCLUSIVE, Verdict.WARN)


@dataclass(frozen=True)
class Run:
    """One receipt, the file that it came from, and the host that the run was about."""

    receipt: Receipt
    file: Path
    host: str

    @property
    def time(self) -> datetime:
        """In UTC, as every receipt is; one that was edited may have lost its offset."""
        time = self.receipt.time
        return time.replace(tzinfo=UTC) if time.tzinfo is None else time.astimezone(UTC)

    @property
    def deployment(self) -> str:
        """Its id, or what is known of it."""
        return self.receipt.deployment or " ".join(self.receipt.names)

    @property
    def family(self) -> str:
        """What the speeds of releases may be compared within: host, profile and point."""
        return " ".join((self.host, *self.receipt.names[1:]))

    @property
    def trouble(self) -> list[Record]:
        """The checks that ask for somebody to do something, the worst first."""
        checks = [check for check in self.receipt.checks if check.verdict in TROUBLE]
        return sorted(checks, key=lambda check: TROUBLE.index(check.verdict))

    @property
    def accept_length(self) -> float | None:
        """Tokens per verify pass; None where not measured."""
        return self.receipt.figures.get("accept_length")

    @property
    def speeds(self) -> dict[str, float]:
        """tok/s by what was asked: `C=8` by the bench, `smoke C=1` by the smoke run's own prompts.

        The two ask different prompts and must not be compared.
        """
        points = sorted(self.receipt.speed, key=lambda point: point.concurrency)
        return {f"C={point.concurrency}": point.tok_s for point in points} | self._smoked

    @property
    def _smoked(self) -> dict[str, float]:
        known = {}
        for name, value in self.receipt.figures.items():
            digits = name.removeprefix("tok_s_c")
            if digits != name and digits.isascii() and digits.isdecimal():
                known[int(digits)] = value
        return {f"smoke C={concurrency}": known[concurrency] for concurrency in sorted(known)}


@dataclass(frozen=True)
class History:
    """All runs of one host, the oldest first; never empty."""

    host: str
    runs: Sequence[Run]

    @property
    def newest(self) -> Run:
        return self.runs[-1]

    @property
    def in_service(self) -> Sequence[Run]:
        """The newest runs, back to the first of the deployment that is in service now."""
        current = (self.newest.deployment, self.newest.receipt.image)
        first = len(self.runs) - 1
        while first and _same(self.runs[first - 1], current):
            first -= 1
        return self.runs[first:]

    @property
    def since(self) -> datetime:
        return self.in_service[0].time

    @property
    def accept_length(self) -> float | None:
        """The newest that was measured of what is in service."""
        known = [run.accept_length for run in self.in_service if run.accept_length is not None]
        return known[-1] if known else None

    @property
    def speeds(self) -> dict[str, float]:
        """The newest tok/s of what is in service, by the bench where there was one."""
        if self.benched:
            return {f"C={point.concurrency}": point.tok_s for point in self.benched}
        known = [run.speeds for run in self.in_service if run.speeds]
        return known[-1] if known else {}

    @property
    def benched(self) -> Sequence[SpeedPoint]:
        """The newest bench of what is in service, by concurrency; empty where there was none."""
        known = [run.receipt.speed for run in self.in_service if run.receipt.speed]
        return sorted(known[-1], key=lambda point: point.concurrency) if known else ()


def _same(run: Run, current: tuple[str, str | None]) -> bool:
    deployment, image = current
    return run.deployment == deployment and (image is None or run.receipt.image in (None, image))


@dataclass(frozen=True)
class Fleet:
    """The hosts by name, and one line for each file that is not to be believed."""

    hosts: Sequence[History]
    refused: Sequence[str]

    @property
    def runs(self) -> list[Run]:
        return sorted((run for host in self.hosts for run in host.runs), key=lambda run: run.time)


def fleet(paths: Iterable[Path]) -> Fleet:
    """Every receipt in `paths`: files, or folders with receipts at any depth.

    Raises:
        InputError: a path cannot be read, or there is no receipt at all.
    """
    paths = list(paths)
    runs: dict[str, Run] = {}
    refused = []
    for file in [file for path in paths for file in _files(path)]:
        try:
            run = read(file)
        except InputError as error:
            refused.append(str(error))
            continue
        runs.setdefault(run.receipt.id, run)  # a host and its controller keep the same receipt
    if not runs and not refused:
        where = ", ".join(map(str, paths))
        raise InputError(f"report: {where}: no receipts; run the smoke test, or name their folder")
    by_host: dict[str, list[Run]] = {}
    for run in sorted(runs.values(), key=lambda run: run.time):
        by_host.setdefault(run.host, []).append(run)
    return Fleet([History(host, by_host[host]) for host in sorted(by_host)], refused)


def read(file: Path) -> Run:
    """One receipt; InputError where there is none to be believed."""
    try:
        receipt = receipts.load(file.read_bytes(), file)
    except OSError as error:
        raise InputError(f"receipt {file}: cannot be read: {error.strerror}") from None
    # Before schema 2 a run in a container did not know its host; a rollout's folder does.
    nameless = receipt.schema_version == 1 and receipt.host.inside_image
    return Run(receipt, file, file.resolve().parent.name if nameless else receipt.host.name)


def _files(path: Path) -> list[Path]:
    if not path.exists():
        raise InputError(f"report: {path}: no such file or folder; run the smoke test first")
    if not path.is_dir():
        return [path]
    return sorted(file for file in path.rglob("*.json") if not file.name.startswith("."))
