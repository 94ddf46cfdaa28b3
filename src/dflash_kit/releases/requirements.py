"""Compiling the requirements of a release: every wheel by hash, none uploaded after the cut-off."""

import importlib.util
import os
import subprocess
import sys
import tempfile
from datetime import timedelta
from pathlib import Path

from dflash_kit.errors import InputError, Undetermined
from dflash_kit.releases.catalogue import Release
from dflash_kit.releases.tree import PACKAGE


def overrides(release: Release, variant: str) -> list[str]:
    """Requirements that win over all others; sglang's own version is the release's."""
    return [f"{PACKAGE}=={release.sglang}", *release.variant(variant).overrides]


def header(release: Release, variant: str) -> str:
    """The first line of a compiled file: all that decided it besides the file it came from."""
    return (
        f"# By `dflash-kit release lock`: Python {release.python}, glibc {release.glibc}, uploads "
        f"until {release.cutoff}, overrides {' '.join(overrides(release, variant))}\n"
    )


def compiled(release: Release, variant: str, source: Path) -> str:
    """The text of requirements-<variant>.txt from the .in file; needs uv and the network.

    sglang itself is left out: the build takes its wheel from the lock and patches it.
    """
    need_uv()
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
        file.write("\n".join(overrides(release, variant)))
        file.flush()
        done = subprocess.run(
            command(release, variant, source, file.name), capture_output=True, text=True
        )
    if done.returncode != 0:
        raise Undetermined(f"{source}: cannot be compiled: {' '.join(done.stderr.split())}")
    return header(release, variant) + done.stdout


def need_uv() -> None:
    """InputError where there is no uv."""
    if importlib.util.find_spec("uv") is None:
        raise InputError("uv is not installed; next: pip install -e '.[test]'")


def uv_compile(release: Release) -> list[str]:
    """The words with which uv resolves for a release's Python and platform."""
    platform = f"x86_64-manylinux_{release.glibc.replace('.', '_')}"
    words = [sys.executable, "-m", "uv", "pip", "compile", "--quiet", "--no-config"]
    return [*words, "--python-version", release.python, "--python-platform", platform]


def command(release: Release, variant: str, source: Path, overrides_file: str) -> list[str]:
    """What compiles `source`, with `overrides` in a file."""
    # A bare date would be taken in the local time zone and lock other files elsewhere.
    end_of_cutoff = f"{release.cutoff + timedelta(days=1)}T00:00:00Z"
    words = uv_compile(release)
    words += ["--exclude-newer", end_of_cutoff, "--overrides", overrides_file]
    words += ["--generate-hashes", "--no-header", "--no-annotate"]
    words += ["--no-emit-package", PACKAGE, str(source)]
    if index := release.variant(variant).torch_index:
        words += _where_torch_is(overrides(release, variant), index)
    return words


def _where_torch_is(pins: list[str], index: str) -> list[str]:
    """The wheelhouses, and the index of torch where none of them has the build that is pinned."""
    folders = _wheelhouses()
    options = [word for folder in folders for word in ("--find-links", folder)]
    builds = [pin.removeprefix("torch==") for pin in pins if pin.startswith("torch==")]
    if any([*Path(folder).glob(f"torch-{build}-*.whl")] for folder in folders for build in builds):
        return options
    # An index that does not tell when a file was uploaded has none from before the cut-off; torch
    # is pinned without it.
    options += ["--index", index, "--index-strategy", "unsafe-best-match"]
    return [*options, "--exclude-newer-package", "torch=false"]


def _wheelhouses() -> list[str]:
    """Where pip looks for wheels besides its index; uv does not read pip's settings."""
    if set_here := os.environ.get("PIP_FIND_LINKS"):
        return set_here.split()
    asked = [sys.executable, "-m", "pip", "config", "get", "global.find-links"]
    return subprocess.run(asked, capture_output=True, text=True).stdout.split()
