"""Stands in for torch, the first that sglang imports: says what the engine's process sees, ends."""

import sys
from pathlib import Path

from dflash_kit.profiles.detect import describe, here, names

devices = list(Path("/dev").glob("nvidia[0-9]*"))
print(f"the engine sees {len(devices)} devices: {describe(names(here()))}", flush=True)
sys.exit(1)
