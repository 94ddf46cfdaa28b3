"""The hash of a source tree: what was built and what runs are compared by it."""

import hashlib
from pathlib import Path

PACKAGE = "sglang"


def file_sha256(file: Path) -> str:
    """sha256 of a file's bytes, in hex."""
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


def listing(root: Path) -> str:
    """One line `<sha256>  <path>` for each file below `root`/sglang, sorted by path.

    Paths are relative to `root`, with slashes. Compiled files are left out: Python writes them at
    any time, and they follow from the sources. OSError where there is no such folder.
    """
    package = root / PACKAGE
    if not package.is_dir():
        raise FileNotFoundError(f"{package}: no such folder")
    files = (
        file
        for file in package.rglob("*")
        if file.is_file() and file.suffix != ".pyc" and "__pycache__" not in file.parts
    )
    named = sorted((file.relative_to(root).as_posix(), file) for file in files)
    return "".join(f"{file_sha256(file)}  {name}\n" for name, file in named)


def listing_sha256(text: str) -> str:
    """The tree hash that belongs to a listing."""
    return hashlib.sha256(text.encode()).hexdigest()


def tree_sha256(root: Path) -> str:
    """The tree hash of `root`/sglang; OSError where there is no such folder."""
    return listing_sha256(listing(root))
