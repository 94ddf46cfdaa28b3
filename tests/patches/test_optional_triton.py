"""sglang imports where triton is not installed, and PyTorch still knows that it is not."""

from __future__ import annotations

import subprocess
import sys

WITHOUT = r"No module named 'triton'"

# Hides triton as if it were not installed, where it is.
HIDDEN = """
import sys
from importlib.machinery import PathFinder

class WithoutTriton(PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        if name.partition(".")[0] == "triton":
            return None
        return super().find_spec(name, path, target)

sys.meta_path[sys.meta_path.index(PathFinder)] = WithoutTriton
"""

IMPORTS = """
import sglang
from sglang.srt.layers.attention import triton_backend
import torch._inductor.runtime.triton_heuristics
from torch.utils._triton import has_triton_package
assert not has_triton_package(), "PyTorch takes the stub for triton"
print("imported")
"""


def test_sglang_imports_without_triton() -> None:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", HIDDEN + IMPORTS], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "imported"
