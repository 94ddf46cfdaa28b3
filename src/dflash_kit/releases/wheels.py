"""The upstream wheel of a release: kept in build/wheels, or downloaded by pip."""

import subprocess
import sys
from pathlib import Path

from dflash_kit.errors import Undetermined
from dflash_kit.releases.catalogue import Release
from dflash_kit.releases.tree import PACKAGE

_OLDEST_GLIBC_TAG = 17


def upstream_wheel(release: Release, folder: Path) -> Path:
    """The wheel in `folder`, downloaded if it is not there; Undetermined where pip cannot."""
    wanted = f"{PACKAGE}-{release.sglang}-*.whl"
    if not any(folder.glob(wanted)):
        _download(release, folder)
    return min(folder.glob(wanted))


def _download(release: Release, folder: Path) -> None:
    # The wheel that the image takes, whatever Python this is.
    newest = int(release.glibc.partition(".")[2])
    platforms = [f"manylinux_2_{minor}_x86_64" for minor in range(_OLDEST_GLIBC_TAG, newest + 1)]
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
    command += ["--only-binary", ":all:", "--implementation", "cp"]
    command += ["--python-version", release.python, "--platform", "any"]
    command += [word for name in platforms for word in ("--platform", name)]
    command += ["--dest", str(folder), f"{PACKAGE}=={release.sglang}"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        said = done.stderr.strip().splitlines() or ["no reason given"]
        raise Undetermined(f"{PACKAGE} {release.sglang}: pip cannot download it: {said[-1]}")
