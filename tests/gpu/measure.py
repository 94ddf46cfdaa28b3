"""Measure and compare a patched engine and the unpatched one on this machine's GPUs.

    measure.py --trees TREES --out REPORT.json [--tiny models/tiny] [--work FOLDER] [PART ...]

TREES is made by trees.py; the Python that runs this has the engine's and the kit's dependencies.
Parts that are named are added to a report that is there. One GPU of 140 GB or two: with two, expert
parallelism is real; with one, copies of the trees claim it. Exit codes: 0 all as wanted, 1 not,
2 wrong usage or no machine for it.
"""

from __future__ import annotations

import argparse
import json
import platform
import shutil
import subprocess
import sys
import tempfile
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

_NEEDED = ("torch", "triton", "transformers", "sgl_kernel", "pydantic", "yaml", "typer", "requests")


def unusable() -> str | None:
    """Why nothing can be measured here, in one line; None where it can."""
    if lacking := [name for name in _NEEDED if find_spec(name) is None]:
        return (
            f"{sys.executable} lacks {', '.join(lacking)}; wanted a Python with the release's "
            "requirements-cuda.txt: make test-gpu GPU_PYTHON=..."
        )
    if not shutil.which("nvidia-smi"):
        return "nvidia-smi is not on the PATH; wanted a machine with a CUDA GPU and its driver"
    return None


def machine() -> dict[str, Any]:
    query = ["nvidia-smi", "--query-gpu=name,driver_version,memory.total", "--format=csv,noheader"]
    gpus = subprocess.run(query, capture_output=True, text=True, check=True).stdout.splitlines()
    packages = ("torch", "triton", "transformers", "sglang-kernel")
    return {
        "gpus": gpus,
        "python": platform.python_version(),
        "versions": {package: version(package) for package in packages},
    }


def main() -> int:
    if problem := unusable():
        print(f"measure: {problem}", file=sys.stderr)
        return 2
    from parts import PARTS, Run  # needs what was just looked for

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--trees", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--tiny", type=Path, default=Path("models/tiny"))
    parser.add_argument("--work", type=Path, default=None)
    parser.add_argument("parts", nargs="*", metavar="PART", help=", ".join(PARTS))
    given = parser.parse_args()
    if unknown := set(given.parts) - set(PARTS):
        parser.error(f"{', '.join(sorted(unknown))}: wanted parts among: {', '.join(PARTS)}")
    if not (given.trees / "patches.json").exists():
        parser.error(f"--trees {given.trees}: holds no patches.json; run trees.py --out first")
    if given.work:
        given.work.mkdir(parents=True, exist_ok=True)
    work = Path(tempfile.mkdtemp(prefix="dflash-gpu-", dir=given.work))
    host = machine()
    run = Run(given.trees.resolve(), work, given.tiny.resolve(), len(host["gpus"]))
    if given.parts and given.out.exists():
        run.report = json.loads(given.out.read_text())
        run.failed = run.report["failed"]
    built = json.loads((given.trees / "patches.json").read_text())
    run.report.setdefault("runs", []).append({"command": sys.argv, "machine": host, "built": built})
    for name in given.parts or PARTS:
        run.part(name)
        run.report["failed"] = run.failed
        given.out.write_text(json.dumps(run.report, indent=1) + "\n")
    print(f"{'FAIL: ' + '; '.join(run.failed) if run.failed else 'PASS'}: {given.out} ({work})")
    return 1 if run.failed else 0


if __name__ == "__main__":
    sys.exit(main())
