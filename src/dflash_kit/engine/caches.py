"""Where the engine keeps the kernels that it compiles on the host: in a volume that outlives it."""

import hashlib
import os
import shutil
from pathlib import Path

from dflash_kit import paths
from dflash_kit.engine import kernels
from dflash_kit.errors import InputError

# Each compiler and the variable that moves its cache. Named one by one: XDG_CACHE_HOME would move
# whatever else happens to look there.
_FOLDERS = {
    "CUDA_CACHE_PATH": "cuda",  # the driver's own compiler
    "CUDA_TILE_CACHE_DIR": "cuda-tile",
    "CUTE_DSL_CACHE_DIR": "cute-dsl",
    "QUACK_CACHE_DIR": "quack",
    "SGLANG_CACHE_DIR": "sglang",
    "SGLANG_DG_CACHE_DIR": "deep-gemm",  # sglang overwrites DeepGEMM's own variable by this one
    "TORCHINDUCTOR_CACHE_DIR": "inductor",
    "TORCH_EXTENSIONS_DIR": "torch-extensions",
    "TRITON_CACHE_DIR": "triton",
}
_KEY_DIGITS = 16


def cache_environment(tree: str, profile: str, driver: str) -> dict[str, str]:
    """The variables that put all caches below $DFLASH_KIT_CACHE, made here; none where it is unset.

    No kernel made for another tree, profile or driver is ever loaded: each has a folder of its own.
    Those that need no GPU to be compiled begin with what is baked into the image.
    InputError where a folder cannot be written.
    """
    root = os.environ.get("DFLASH_KIT_CACHE")
    if not root:
        return {}
    key = hashlib.sha256("\n".join((tree, profile, driver)).encode()).hexdigest()[:_KEY_DIGITS]
    folder, compiled = Path(root, key), kernels.folder_below(Path(root), tree)
    try:
        for name in _FOLDERS.values():
            (folder / name).mkdir(mode=0o700, parents=True, exist_ok=True)
        _begin_with_baked(compiled)
    except OSError as error:
        raise InputError(
            f"cache: {folder}: cannot be written: {error.strerror}; wanted a folder of "
            f"uid {os.getuid()} (DFLASH_KIT_CACHE names it)"
        ) from None
    moved = {variable: str(folder / name) for variable, name in _FOLDERS.items()}
    return moved | dict.fromkeys(kernels.VARIABLES, str(compiled))


def _begin_with_baked(folder: Path) -> None:
    """Make the folder, with the image's own kernels in it; what is there stays."""
    folder.mkdir(mode=0o700, exist_ok=True)
    for baked in paths.KERNELS.glob("*"):
        if not (folder / baked.name).exists():
            scratch = folder / f".{baked.name}"
            shutil.rmtree(scratch, ignore_errors=True)  # of a copy that was cut off
            shutil.copytree(baked, scratch)
            scratch.rename(folder / baked.name)
