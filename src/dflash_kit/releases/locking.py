"""Writing the lock of a release, and telling whether a release is still what its lock says."""

import tempfile
from pathlib import Path

from dflash_kit.releases import assemble, generated, lockfile, requirements, series, skeleton
from dflash_kit.releases.catalogue import Catalogue, Release
from dflash_kit.releases.lockfile import Lock, Wheel
from dflash_kit.releases.series import ReleaseError
from dflash_kit.releases.tree import file_sha256, listing_sha256


def check(name: str, release: Release, release_dir: Path) -> list[str]:
    """What differs between a release's files, its lock and its entry; reads files, nothing else."""
    try:
        lock = lockfile.read(release_dir)
        found = lockfile.problems(lock, release_dir)
    except ReleaseError as error:
        return str(error).splitlines()
    stale = [
        f"{release_dir / lockfile.NAME}: {field}: got {got!r}, wanted {wanted!r} as in "
        f"releases.yaml; {lockfile.RELOCK}"
        for field, got, wanted in (
            ("release", lock.release, name),
            ("sglang", lock.sglang, release.sglang),
            ("drop", list(lock.drop), release.drop),
        )
        if got != wanted
    ]
    if (left := release_dir / skeleton.PORT).is_file():
        stale.append(f"{left}: is still there; next: decide what it lists, and remove it")
    for variant in lockfile.VARIANTS:
        file = release_dir / f"requirements-{variant}.txt"
        wanted_header = requirements.header(release, variant)
        if file.is_file() and not file.read_text().startswith(wanted_header):
            wanted = wanted_header.strip()
            stale.append(f"{file}: line 1: wanted {wanted!r}; {lockfile.RELOCK}")
    return found + stale


def check_generated(catalogue: Catalogue, root: Path, images: Path) -> list[str]:
    """Which generated file is not what releases.yaml and the locks give."""
    try:
        texts = generated.texts(catalogue, images)
    except ReleaseError as error:
        return str(error).splitlines()
    return [
        f"{root / name}: differs from what images/ gives; next: dflash-kit release lock"
        for name, text in texts.items()
        if _text(root / name) != text
    ]


def verify(
    name: str, release: Release, release_dir: Path, wheel: Path, keep: Path | None
) -> list[str]:
    """Make the release's tree from `wheel`, in `keep` where given; what is not as locked."""
    found = check(name, release, release_dir)
    try:
        found += lockfile.wheel_problems(lockfile.read(release_dir), wheel)
    except ReleaseError:
        return found  # No lock: check has said so.
    if found:
        return found
    with tempfile.TemporaryDirectory() as scratch:
        try:
            assemble.assemble(release_dir, wheel, keep or Path(scratch))
        except ReleaseError as error:
            return str(error).splitlines()
    return []


def write(name: str, release: Release, release_dir: Path, wheel: Path) -> list[Path]:
    """Bring requirements and lock of a release up to date; the files that changed, or ReleaseError.

    Requirements are compiled again only where the .in file, the compiled file or releases.yaml
    changed: what was locked once stays locked. An upstream wheel that was locked once must not
    change at all.
    """
    old = _old_lock(release_dir)
    if old and old.sglang == release.sglang and (bad := lockfile.wheel_problems(old, wheel)):
        raise ReleaseError("\n".join(bad))
    patches = series.read(release_dir)
    with tempfile.TemporaryDirectory() as scratch:
        names = [patch.name for patch in patches]
        drop = tuple(release.drop)
        text = assemble.make_tree(release_dir, wheel, names, drop, Path(scratch))
    changed = [
        file
        for variant in lockfile.VARIANTS
        for file in _write_requirements(release, variant, release_dir, old)
    ]
    new = Lock(
        release=name,
        sglang=release.sglang,
        wheel=Wheel(wheel.name, file_sha256(wheel)),
        drop=drop,
        requirements={f.name: file_sha256(f) for f in lockfile.requirement_files(release_dir)},
        patches=patches,
        tree=listing_sha256(text),
    )
    return changed + write_text(release_dir / lockfile.NAME, new.as_json())


def write_generated(catalogue: Catalogue, root: Path, images: Path) -> list[Path]:
    """Write the generated files; those that changed."""
    texts = generated.texts(catalogue, images)
    return [file for name, text in texts.items() for file in write_text(root / name, text)]


def write_text(file: Path, text: str) -> list[Path]:
    """Write `text`; the file if that changed it."""
    if _text(file) == text:
        return []
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    return [file]


def _text(file: Path) -> str | None:
    return file.read_text() if file.is_file() else None


def _old_lock(release_dir: Path) -> Lock | None:
    try:
        return lockfile.read(release_dir)
    except ReleaseError:
        return None


def _write_requirements(
    release: Release, variant: str, release_dir: Path, old: Lock | None
) -> list[Path]:
    source = release_dir / f"requirements-{variant}.in"
    file = source.with_suffix(".txt")
    if not source.is_file():
        raise ReleaseError(f"{source}: does not exist, wanted the {variant} variant's requirements")
    as_locked = old is not None and all(
        path.is_file() and old.requirements.get(path.name) == file_sha256(path)
        for path in (source, file)
    )
    if as_locked and file.read_text().startswith(requirements.header(release, variant)):
        return []
    return write_text(file, requirements.compiled(release, variant, source))
