"""What the tests have to know of the engine's inside: a module for each make of it.

All offer the same names. Which one is told by what the tree has, never by its version.
"""

from __future__ import annotations

import importlib
import importlib.util
from pathlib import Path
from typing import Any


def _make() -> str:
    sglang = importlib.util.find_spec("sglang")
    assert sglang is not None and sglang.origin is not None, "sglang is not on PYTHONPATH"
    srt = Path(sglang.origin).with_name("srt")
    if (srt / "managers" / "scheduler_components" / "internal_state.py").exists():
        return "inside_v3"
    return "inside_v2" if (srt / "speculative" / "dflash_worker_v2.py").exists() else "inside_v1"


inside: Any = importlib.import_module(_make())
