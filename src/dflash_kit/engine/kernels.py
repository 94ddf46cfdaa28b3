"""Kernels that the engine compiles at its first use and that need no GPU to be compiled.

Those marked `baked` are compiled while the image is built (this file is then a program of its own,
as the kit is not in the image yet), the others by `dflash-kit prewarm` before a rollout's switch:
minutes in which the old engine serves on, instead of minutes in which none does.
"""

from __future__ import annotations

import importlib
import os
import sys
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import yaml

# One path in every container: ninja compiles again what it finds under another than it was made.
FOLDER = Path("/tmp/dflash-kit-kernels")
VARIABLE = "TVM_FFI_CACHE_DIR"


def lead_to(folder: Path) -> None:
    """Make FOLDER a link to `folder`."""
    FOLDER.unlink(missing_ok=True)
    FOLDER.symlink_to(folder)


def compile_all(kernels: Iterable[Mapping[str, Any]], capability: str) -> None:
    """Compile each kernel of engine.yaml for `capability`, such as `12.0`, below FOLDER.

    One that is there already takes a moment. A line for each says how long it took.
    """
    os.environ[VARIABLE] = str(FOLDER)
    # Asked for its architecture torch would take memory of a GPU on which another engine serves.
    os.environ["CUDA_VISIBLE_DEVICES"] = ""
    import torch
    from sglang.jit_kernel.utils import override_jit_cuda_arch

    major, minor = (int(part) for part in capability.split("."))
    for kernel in kernels:
        build = getattr(importlib.import_module(kernel["module"]), kernel["function"])
        arguments = [getattr(torch, name) for name in kernel.get("dtypes", ())]
        started = time.monotonic()
        with override_jit_cuda_arch(major, minor):
            # Without its own memory of what it made, which knows no architecture.
            getattr(build, "__wrapped__", build)(*arguments)
        seconds = time.monotonic() - started
        print(f"{kernel['module']} for {capability}: {seconds:.1f} s", flush=True)


def main() -> None:
    """kernels.py ENGINE_YAML OUT CAPABILITY...: compile what is baked into an image."""
    file, out, *capabilities = sys.argv[1:]
    kernels = [x for x in yaml.safe_load(Path(file).read_text())["kernels"] if x["baked"]]
    lead_to(Path(out))
    for capability in capabilities:
        compile_all(kernels, capability)


if __name__ == "__main__":
    main()
