"""Every patch that there ever was, and what became of it in each release."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from dflash_kit.releases.lockfile import Lock
from dflash_kit.releases.records import Fates

IN = "in"


@dataclass(frozen=True)
class Line:
    """One patch: what it does, and release -> `in`, its fate, or nothing where it was not yet."""

    name: str
    subject: str
    fates: dict[str, str]
    notes: dict[str, str]


def lines(locks: Mapping[str, Lock], fates: Mapping[str, Fates | None]) -> list[Line]:
    """One line a patch, in the order of their first release's series, the oldest release first.

    A patch that a release has no word of is where it was in the release that this one came from.
    """
    found: list[Line] = []
    for name in dict.fromkeys(
        Path(patch.name).stem for lock in locks.values() for patch in lock.patches
    ):
        told = {release: _told(name, release, locks, fates) for release in locks}
        subjects = [
            patch.subject
            for lock in locks.values()
            for patch in lock.patches
            if Path(patch.name).stem == name
        ]
        found.append(
            Line(
                name,
                subjects[-1],
                {release: fate for release, (fate, _) in told.items()},
                {release: note for release, (_, note) in told.items() if note},
            )
        )
    return found


def _told(
    name: str, release: str, locks: Mapping[str, Lock], fates: Mapping[str, Fates | None]
) -> tuple[str, str]:
    """The fate of a patch in a release, and why where this very release says so."""
    here = fates.get(release)
    said = here.patches.get(name) if here else None
    if any(Path(patch.name).stem == name for patch in locks[release].patches):
        return IN, said.note if said else here.new.get(name, "") if here else ""
    if said:
        return said.fate, said.note
    if here is None or here.of not in locks or here.of == release:
        return "", ""
    before, _ = _told(name, here.of, locks, fates)
    return ("" if before == IN else before), ""
