"""Which GPU driver the image of a release needs."""

import re

from dflash_kit import paths
from dflash_kit.errors import InputError
from dflash_kit.host import parse

_RUNTIME = "nvidia-cuda-runtime"
# The first driver of each CUDA major version; a driver runs all minor versions of its major one.
# https://docs.nvidia.com/cuda/cuda-toolkit-release-notes/ (CUDA toolkit and driver versions)
_FIRST_DRIVER = {12: "525.60.13", 13: "580.65.06"}


def cuda_version(release: str) -> str:
    """The CUDA version that the cuda variant of `release` is locked to, e.g. `13.0.96`.

    Raises:
        InputError: there is no such lock, or no CUDA in it.
    """
    file = paths.IMAGES / release / "requirements-cuda.txt"
    try:
        found = re.search(rf"^{_RUNTIME}==(\S+)", file.read_text(), re.MULTILINE)
    except OSError as error:
        raise InputError(f"{file}: cannot be read: {error.strerror}") from None
    if not found:
        raise InputError(f"{file}: {_RUNTIME}: missing, wanted a version")
    return found.group(1)


def first_driver(cuda: str) -> str:
    """The oldest driver that runs CUDA `cuda`; InputError where this table does not know it."""
    major = int(parse.number(cuda) or 0)
    if major not in _FIRST_DRIVER:
        known = ", ".join(map(str, _FIRST_DRIVER))
        raise InputError(f"CUDA {cuda}: the oldest driver for it is not known here, only: {known}")
    return _FIRST_DRIVER[major]
