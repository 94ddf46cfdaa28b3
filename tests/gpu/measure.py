"""Measure and compare a patched engine, the unpatched one and another release on this machine.

    measure.py --trees TREES --out REPORT.json [--packages FOLDER] [--tiny models/tiny]
               [--beside TREES [--beside-packages FOLDER]] [--work FOLDER] [PART ...]

TREES is made by trees.py; the Python that runs this has the kit's dependencies, and the engine's
are there too or in `--packages`, as in a virtual environment's site-packages. Parts that are named
are added to a report that is there. One GPU of 140 GB or two: with two, expert parallelism is real;
with one, copies of the trees claim it. Exit codes: 0 all as wanted, 1 not, 2 wrong usage or no
machine for it.
"""

from __future__ import annotations

import argparse
import json
import platform
import shutil
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import Any

_KIT = ("torch", "triton", "pydantic", "yaml", "typer", "requests")
_ENGINE = ("transformers", "sgl_kernel")


def unusable() -> str | None:
    """Why nothing can be measured here, in one line; None where it can."""
    if lacking := [name for name in _KIT if find_spec(name) is None]:
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
    return {"gpus": gpus, "python": platform.python_version()}


def main() -> int:
    if problem := unusable():
        print(f"measure: {problem}", file=sys.stderr)
        return 2
    from parts import BESIDE_PARTS, PARTS  # need what was just looked for
    from release import Release
    from run import Run

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--trees", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--packages", type=Path, default=None)
    parser.add_argument("--beside", type=Path, default=None)
    parser.add_argument("--beside-packages", type=Path, default=None)
    parser.add_argument("--tiny", type=Path, default=Path("models/tiny"))
    parser.add_argument("--work", type=Path, default=None)
    parser.add_argument("parts", nargs="*", metavar="PART", help=", ".join(PARTS | BESIDE_PARTS))
    given = parser.parse_args()
    parts = PARTS | BESIDE_PARTS if given.beside else PARTS
    if unknown := set(given.parts) - set(parts):
        parser.error(f"{', '.join(sorted(unknown))}: wanted parts among: {', '.join(parts)}")
    releases = []
    for trees, packages in (
        (given.trees, given.packages),
        (given.beside, given.beside_packages),
    ):
        if trees is None:
            continue
        if not (trees / "patches.json").exists():
            parser.error(f"{trees}: holds no patches.json; run trees.py --out first")
        releases.append(Release(trees.resolve(), packages and packages.resolve()))
        if lacking := releases[-1].lacking(_ENGINE):
            parser.error(f"{releases[-1].name}: no {', '.join(lacking)} in {packages} or here")
    if given.work:
        given.work.mkdir(parents=True, exist_ok=True)
    work = Path(tempfile.mkdtemp(prefix="dflash-gpu-", dir=given.work))
    host = machine()
    release, beside = releases[0], releases[1] if given.beside else None
    run = Run(release, beside, work, given.tiny.resolve(), len(host["gpus"]))
    if given.parts and given.out.exists():
        run.report = json.loads(given.out.read_text())
        run.failed = run.report["failed"]
    measured = [each.record() for each in releases]
    run.report.setdefault("runs", []).append(
        {"command": sys.argv, "machine": host, "releases": measured}
    )
    for name in given.parts or parts:
        run.part(name, parts[name])
        run.report["failed"] = run.failed
        given.out.write_text(json.dumps(run.report, indent=1) + "\n")
    print(f"{'FAIL: ' + '; '.join(run.failed) if run.failed else 'PASS'}: {given.out} ({work})")
    return 1 if run.failed else 0


if __name__ == "__main__":
    sys.exit(main())
