"""Make the source tree of a release: the upstream wheel, patched, without what is not shipped.

The image build runs this file as a program (standard library and git only); `dflash-kit release`
calls the same functions.
"""

import argparse
import json
import shutil
import sys
import zipfile
from dataclasses import asdict
from pathlib import Path

from dflash_kit.releases import lockfile, series
from dflash_kit.releases.lockfile import Lock
from dflash_kit.releases.series import ReleaseError
from dflash_kit.releases.tree import PACKAGE, listing, listing_sha256


def make_tree(
    release_dir: Path, wheel: Path, patch_names: list[str], drop: tuple[str, ...], out: Path
) -> str:
    """Write the tree to `out`, a new or empty folder, and give its listing; or ReleaseError.

    Patches come first, so that they may speak of what is dropped after them.
    """
    if out.exists() and any(out.iterdir()):
        raise ReleaseError(f"{out}: is not empty, wanted a new folder for the source tree")
    out.mkdir(parents=True, exist_ok=True)
    unpack(wheel, out)
    series.apply(release_dir, patch_names, out)
    for path in drop:
        _drop(out, path)
    return listing(out)


def assemble(release_dir: Path, wheel: Path, out: Path) -> tuple[Lock, str]:
    """Make the locked tree in `out`; the lock and the listing, or ReleaseError if anything differs.

    Everything that can be told from the files is checked before the first patch is applied.
    """
    lock = lockfile.read(release_dir)
    found = [*lockfile.wheel_problems(lock, wheel), *lockfile.problems(lock, release_dir)]
    if found:
        raise ReleaseError("\n".join(found))
    text = make_tree(release_dir, wheel, [patch.name for patch in lock.patches], lock.drop, out)
    got = listing_sha256(text)
    if got != lock.tree:
        file = release_dir / lockfile.NAME
        raise ReleaseError(f"{file}: tree differs: got {got}, wanted {lock.tree}")
    return lock, text


def expect_meant(release_dir: Path, release: str, tree: str) -> None:
    """ReleaseError unless the build was asked for what the lock says: labels repeat the former."""
    lock = lockfile.read(release_dir)
    if (release, tree) != (lock.release, lock.tree):
        raise ReleaseError(
            f"docker-bake.json: got {release} with tree {tree}, wanted {lock.release} with tree "
            f"{lock.tree} as in {lockfile.NAME}; next: dflash-kit release lock"
        )


def write_info(lock: Lock, text: str, variant: str, info: Path) -> None:
    """What an image says of itself: the listing of its tree, and where that came from."""
    info.mkdir(parents=True, exist_ok=True)
    (info / "tree.sha256").write_text(text)
    content = {
        "release": lock.release,
        "variant": variant,
        "sglang": lock.sglang,
        "tree": lock.tree,
        "patches": [asdict(patch) for patch in lock.patches],
    }
    (info / "patches.json").write_text(json.dumps(content, indent=2) + "\n")


def unpack(wheel: Path, out: Path) -> None:
    """The package and its metadata (licence, version); its RECORD no longer holds once patched."""
    try:
        with zipfile.ZipFile(wheel) as archive:
            for name in archive.namelist():
                top = name.split("/", 1)[0]
                if top == PACKAGE or (top.endswith(".dist-info") and not name.endswith("/RECORD")):
                    archive.extract(name, out)
    except (OSError, zipfile.BadZipFile) as error:
        raise ReleaseError(f"{wheel}: cannot be unpacked: {error}") from None


def _drop(out: Path, path: str) -> None:
    dropped = out / path
    if not path.startswith(f"{PACKAGE}/") or not dropped.exists():
        raise ReleaseError(f"drop: got {path}, wanted a path of the tree below {PACKAGE}/")
    if dropped.is_dir():
        shutil.rmtree(dropped)
    else:
        dropped.unlink()


def main() -> int:
    """The image build's command; 1 and one line a problem where the release is not as locked."""
    parser = argparse.ArgumentParser(prog="assemble", description=__doc__)
    for name in ("release-dir", "wheel", "out", "info"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    for name in ("release", "tree"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--variant", choices=lockfile.VARIANTS, required=True)
    given = parser.parse_args()
    try:
        expect_meant(given.release_dir, given.release, given.tree)
        lock, text = assemble(given.release_dir, given.wheel, given.out)
    except ReleaseError as error:
        for line in str(error).splitlines():
            print(f"dflash-kit: {line}", file=sys.stderr)
        return 1
    write_info(lock, text, given.variant, given.info)
    return 0


if __name__ == "__main__":
    sys.exit(main())
