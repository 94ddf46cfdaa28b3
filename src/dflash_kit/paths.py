"""Where the kit's data lies: the repository, or /opt/dflash-kit inside an image (same layout)."""

import os
from pathlib import Path

ROOT = Path(os.environ.get("DFLASH_KIT_ROOT") or Path(__file__).resolve().parents[2])
IMAGES = ROOT / "images"
RELEASES_FILE = IMAGES / "releases.yaml"
PAIRS = IMAGES / "pairs"
PROFILES = IMAGES / "profiles"
SHAPES = PAIRS / "shapes"
ARGUMENTS_FILE = PROFILES / "tables" / "arguments.yaml"
MEMORY_FILE = PROFILES / "tables" / "memory.yaml"
SMOKE_TESTS = ROOT / "smoke_tests"
# What the build wrote about itself; exists only inside an image.
PATCHES_FILE = ROOT / "patches.json"
# Kernels that the build compiled, one folder each; only inside an image of the cuda variant.
KERNELS = ROOT / "kernels"
