"""Kernels that the engine compiles at its first use and that need no GPU to be compiled.

Those marked `baked` are compiled while the image is built (this file is then a program of its own,
as the kit is not in the image yet), the others by `dflash-kit prewarm` before a rollout's switch:
minutes in which the old engine serves on, instead of minutes in which none does.
"""

from __future__ import annotations

import importlib
import os
import shutil
import sys
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import yaml

# What the two compilers of kernels are told their cache by.
VARIABLES = ("TVM_FFI_CACHE_DIR", "FLASHINFER_WORKSPACE_BASE")
_TREE_DIGITS = 16


def folder_below(cache: Path, tree: str) -> Path:
    """Where the kernels of a source tree lie below the cache.

    The same path in the build and in every container: under another one they are compiled again.
    Neither profile nor driver is in it: the code is nvcc's, and its name has the architecture.
    """
    return cache / f"kernels-{tree[:_TREE_DIGITS]}"


def compile_all(tools: str, kernels: Iterable[Mapping[str, Any]], capability: str) -> None:
    """Compile each kernel of engine.yaml for `capability`, such as `12.0`, below $VARIABLES.

    `tools` is engine.yaml's kernel_tools. One that is there already takes a moment. A line for each
    says how long it took. Once a process: flashinfer takes its architecture when it is imported.
    """
    # Asked for its architecture torch would take memory of a GPU on which another engine serves.
    os.environ |= {"CUDA_VISIBLE_DEVICES": "", "FLASHINFER_CUDA_ARCH_LIST": capability}
    import torch

    override_jit_cuda_arch = importlib.import_module(tools).override_jit_cuda_arch
    major, minor = (int(part) for part in capability.split("."))
    for kernel in kernels:
        build = getattr(importlib.import_module(kernel["module"]), kernel["function"])
        arguments = [getattr(torch, name) for name in kernel.get("dtypes", ())]
        arguments += kernel.get("flags", ())
        started = time.monotonic()
        with override_jit_cuda_arch(major, minor):
            # Without its own memory of what it made, which knows no architecture.
            made = getattr(build, "__wrapped__", build)(*arguments)
            if kernel.get("recipe"):
                made.build(verbose=False)
        seconds = time.monotonic() - started
        print(f"{kernel['module']} for {capability}: {seconds:.1f} s", flush=True)


def main() -> None:
    """kernels.py ENGINE_YAML TREE OUT CAPABILITY: compile what is baked, and copy it to OUT."""
    file, tree, out, capability = sys.argv[1:]
    data = yaml.safe_load(Path(file).read_text())
    kernels = [x for x in data["kernels"] if x["baked"]]
    folder = folder_below(Path(os.environ["DFLASH_KIT_CACHE"]), tree)
    folder.mkdir(parents=True, exist_ok=True)
    os.environ |= dict.fromkeys(VARIABLES, str(folder))
    if kernels:
        compile_all(data["kernel_tools"], kernels, capability)
    shutil.copytree(folder, out, dirs_exist_ok=True)


if __name__ == "__main__":
    main()
