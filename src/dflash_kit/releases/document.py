"""docs/releases.md: all releases side by side, from images/ alone."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from dflash_kit.engine import config
from dflash_kit.errors import InputError
from dflash_kit.profiles.load import load_pair, load_profile, profile_names
from dflash_kit.releases import engine_data, lineage, lockfile, records
from dflash_kit.releases.catalogue import Catalogue
from dflash_kit.releases.engine_data import EngineData, Feature

NAME = "docs/releases.md"
_HEAD = """\
<!-- By `dflash-kit release lock`, from images/: never edited. -->

# The releases side by side
"""
_WORDS = """\
in: part of the series. upstream: sglang does it itself. not-applicable: what it changed is gone.
left-out: it would still do something. Empty: there was no such patch yet. Why each exists, in full,
is in its header.
"""
_FEATURES = {
    "always": "no",
    "dflash": "not with DFlash",
    "dflash-cpu": "not with DFlash on a CPU",
}


def text(catalogue: Catalogue, images: Path) -> str:
    """The document; ReleaseError or InputError where a file of a release is missing or wrong."""
    names = list(catalogue.releases)
    locks = {name: lockfile.read(images / name) for name in names}
    fates = {name: records.fates(images / name) for name in names}
    patches = lineage.lines(locks, fates)
    engines = {n: engine_data.load(n) for n in names if (images / n / "engine.yaml").is_file()}
    verified = {name: records.verified(images / name) for name in names}
    parts = [
        _HEAD,
        *_table(
            ("release", "sglang", "torch, cpu", "torch, cuda", "uploads until", "patches", ""),
            [_row(name, catalogue, images, len(locks[name].patches)) for name in names],
        ),
        *_verified(verified),
        *_profiles(names),
        *_features(engines),
        *_patches(patches, names),
        *_notes(patches, fates),
    ]
    return "\n".join(parts) + "\n"


def _row(name: str, catalogue: Catalogue, images: Path, patches: int) -> tuple[str, ...]:
    release = catalogue.releases[name]
    torch = [_torch(images / name / f"requirements-{v}.txt") for v in lockfile.VARIANTS]
    state = "**default**" if name == catalogue.default else ""
    if release.withdrawn:
        state = f"withdrawn since {release.withdrawn.since}: {release.withdrawn.why}"
    return (name, release.sglang, *torch, str(release.cutoff), str(patches), state)


def _torch(file: Path) -> str:
    found = re.search(r"^torch==(\S+)", file.read_text() if file.is_file() else "", re.MULTILINE)
    return found[1] if found else "-"


def _verified(verified: dict[str, records.Verified | None]) -> Iterator[str]:
    yield "\n## What was run where\n"
    rows = []
    for name, found in verified.items():
        runs = found.runs if found else []
        rows += [(name, run.where, f"[{run.what}]({run.link})") for run in runs]
        if found is None or not found.on_gpu:
            rows.append((name, "GPU", "**not run on a GPU**"))
        rows += [(name, "not run", what) for what in (found.not_run if found else [])]
    yield from _table(("release", "where", "what"), rows)


def _profiles(names: Sequence[str]) -> Iterator[str]:
    yield "\n## Profiles whose arguments a release takes\n"
    yield from _table(
        ("profile", *names),
        [(profile, *(_points(profile, name) for name in names)) for profile in profile_names()],
    )


def _points(profile: str, release: str) -> str:
    """The points at which the release takes the profile's arguments."""
    loaded = load_profile(profile)
    pair, taken = load_pair(loaded.pair), []
    for point in loaded.points:
        try:
            config.render(loaded, pair, point, config.REDACTED, release=release)
        except InputError:
            continue
        taken.append(str(point))
    return ", ".join(taken) or "none"


def _features(engines: dict[str, EngineData]) -> Iterator[str]:
    if not engines:
        return
    yield "\n## What their engines can do\n"
    names = dict.fromkeys(name for engine in engines.values() for name in engine.features)
    rows = []
    for name in names:
        found = [engine.features.get(name) for engine in engines.values()]
        reasons = dict.fromkeys(each.why for each in found if each and each.why)
        rows.append((name, *map(_can, found), "; ".join(reasons)))
    yield from _table(("", *engines, "why not"), rows)


def _can(feature: Feature | None) -> str:
    if feature is None:
        return "-"
    return "yes" if feature.supported else _FEATURES[feature.when]


def _patches(patches: Sequence[lineage.Line], names: Sequence[str]) -> Iterator[str]:
    yield "\n## Their patches, and what became of each\n"
    yield _WORDS
    yield from _table(
        ("patch", *names, "what it does"),
        [(p.name, *(p.fates[name] for name in names), p.subject) for p in patches],
    )


def _notes(
    patches: Sequence[lineage.Line], fates: dict[str, records.Fates | None]
) -> Iterator[str]:
    for release, found in fates.items():
        if found:
            yield f"\n### {release}, from {found.of}\n"
            yield from _table(
                ("patch", "here", "how, or why not"),
                [
                    (p.name, p.fates[release], p.notes[release])
                    for p in patches
                    if release in p.notes
                ],
            )


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    yield _cells(heads)
    yield "|" + "---|" * len(heads)
    yield from (_cells(row) for row in rows)


def _cells(cells: Sequence[str]) -> str:
    return "| " + " | ".join(" ".join(cell.split()).replace("|", "\\|") for cell in cells) + " |"
