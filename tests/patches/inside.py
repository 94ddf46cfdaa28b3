"""What the tests have to know of the engine's inside: a module for each make of DFlash's worker.

Both offer the same names. Which one is told by what the tree has, never by its version.
"""

from __future__ import annotations

import importlib
import importlib.util
from pathlib import Path
from typing import Any


def _make() -> str:
    sglang = importlib.util.find_spec("sglang")
    assert sglang is not None and sglang.origin is not None, "sglang is not on PYTHONPATH"
    worker = Path(sglang.origin).with_name("srt") / "speculative" / "dflash_worker_v2.py"
    return "inside_v2" if worker.exists() else "inside_v1"


inside: Any = importlib.import_module(_make())
