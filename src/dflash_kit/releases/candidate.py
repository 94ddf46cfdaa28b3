"""A release on another upstream version, as far as it can be made without a person deciding."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path

from dflash_kit.errors import CheckFailed, InputError, Undetermined
from dflash_kit.host.parse import version as parsed
from dflash_kit.releases import assemble, declared, lockfile, porting, series, upstream, wheels
from dflash_kit.releases.catalogue import Catalogue, Release
from dflash_kit.releases.declared import Adjusted
from dflash_kit.releases.porting import Tried
from dflash_kit.releases.tree import file_sha256

# What sglang depends on is often released days after it; no longer, or it no longer fits.
SETTLE = timedelta(days=10)


@dataclass(frozen=True)
class Candidate:
    """What is known of a release before anybody decided anything.

    nearest: the release that it is made from. requirements: by variant. needs: how sglang's own
    requirements differ from those of the nearest release. notes: what else was not certain.
    """

    name: str
    nearest: str
    entry: Release
    uploaded: date | None
    wheel: Path
    sha256: str
    patches: tuple[Tried, ...]
    requirements: dict[str, Adjusted]
    needs: tuple[str, ...]
    notes: tuple[str, ...]

    @property
    def conflicts(self) -> list[Tried]:
        return [patch for patch in self.patches if patch.verdict == "conflict"]


def nearest(catalogue: Catalogue, version: str) -> str:
    """The release to start from: the newest at most as new as `version`, else the oldest."""
    # Of releases on one sglang the last one has the most patches.
    ordered = sorted(
        catalogue.offered,
        key=lambda n: (parsed(catalogue.releases[n].sglang), int(n.rpartition(".")[2])),
    )
    below = [n for n in ordered if parsed(catalogue.releases[n].sglang) <= parsed(version)]
    if below:
        return below[-1]
    oldest = catalogue.releases[ordered[0]].sglang
    return [name for name in ordered if catalogue.releases[name].sglang == oldest][-1]


def releases_on(catalogue: Catalogue, version: str) -> list[str]:
    """The releases that there are on an upstream version."""
    return [name for name, entry in catalogue.releases.items() if entry.sglang == version]


def make(
    catalogue: Catalogue,
    found: upstream.Upstream,
    base: str,
    cutoff: date | None,
    images: Path,
    folder: Path,
) -> Candidate:
    """Try `base`'s patches on an upstream version that no release is on; `folder` keeps wheels.

    Raises:
        InputError: there is a release on it.
        Undetermined: the wheel, or the time of its upload, could not be had.
        CheckFailed: a wheel or the nearest release is broken.
    """
    if there := releases_on(catalogue, found.version):
        raise InputError(
            f"VERSION: got {found.version}, which {', '.join(there)} is on; next: for other "
            "patches on it see docs/patches.md"
        )
    like = catalogue.releases[base]
    day, notes = _cutoff(found, cutoff)
    entry = like.model_copy(update={"sglang": found.version, "cutoff": day})
    wheel = wheels.upstream_wheel(entry, folder)
    try:
        patches, drop = _tried(images / base, wheel, like.drop)
    except series.ReleaseError as error:
        raise CheckFailed(str(error)) from None
    notes += [f"drop: {path} is not in {wheel.name}" for path in like.drop if path not in drop]
    old = declared.of_wheel(wheels.upstream_wheel(like, folder))
    new = declared.of_wheel(wheel)
    return Candidate(
        name=f"{found.version}-dflash.1",
        nearest=base,
        entry=entry.model_copy(update={"drop": drop}),
        uploaded=found.uploaded,
        wheel=wheel,
        sha256=file_sha256(wheel),
        patches=tuple(patches),
        requirements={
            variant: declared.adjusted(images / base / f"requirements-{variant}.in", old, new)
            for variant in lockfile.VARIANTS
        },
        needs=tuple(declared.differences(old, new)),
        notes=tuple(notes),
    )


def _cutoff(found: upstream.Upstream, given: date | None) -> tuple[date, list[str]]:
    """The last day whose uploads are locked: never one that has not passed."""
    if given:
        return given, []
    if found.uploaded is None:
        raise Undetermined(
            f"{found.version}: the index does not tell when it was uploaded; next: --cutoff DATE"
        )
    day, passed = found.uploaded + SETTLE, date.today() - timedelta(days=1)
    if day <= passed:
        return day, []
    last = max(passed, found.uploaded)
    return last, [f"cutoff: {last}, as {SETTLE.days} days after the upload have not passed yet"]


def _tried(release_dir: Path, wheel: Path, drop: list[str]) -> tuple[list[Tried], list[str]]:
    """What became of each patch, and which paths to drop there are."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        assemble.unpack(wheel, root)
        return porting.try_series(release_dir, root), [p for p in drop if (root / p).exists()]
