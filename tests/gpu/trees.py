"""Makes the source trees that measure.py compares, from the upstream wheel; needs git.

    trees.py --out TREES [--release NAME]

unpatched: the wheel; patched: the release, as its lock has it. Of a wheel that crashes under expert
parallelism also guarded: with a guard against the crash instead of its cure, and with the RoPE base
without which acceptance says nothing.
"""

from __future__ import annotations

import argparse
import re
import shutil
import sys
from pathlib import Path

from release import crashes

from dflash_kit import paths
from dflash_kit.errors import KitError
from dflash_kit.releases import assemble, catalogue, lockfile, wheels
from dflash_kit.releases.series import ReleaseError

UNPATCHED, PATCHED, GUARDED = "unpatched", "patched", "guarded"
WHEELS = paths.ROOT / "build" / "wheels"
_ROPE = "draft-rope-base.patch"
_EP_TEST = re.compile(r"(?<=^def enable_num_token_non_padded)(.*:\n)    return .*\n", re.MULTILINE)
_COUNT_COPIED = "        if enable_num_token_non_padded_flag:\n"
_COUNT_GUARDED = (
    "        if enable_num_token_non_padded_flag and (\n"
    "            forward_batch.num_token_non_padded is not None\n"
    "        ):\n"
)


def make(release: str, out: Path) -> None:
    """Write all trees below `out`; KitError or ReleaseError where the release cannot be built."""
    catalogued = catalogue.load(paths.RELEASES_FILE)
    name = release or catalogued.default
    folder = paths.IMAGES / name
    lock = lockfile.read(folder)
    WHEELS.mkdir(parents=True, exist_ok=True)
    wheel = wheels.upstream_wheel(catalogued.releases[name], WHEELS)
    # What the image build writes too: `serve` and `smoke` hold the engine to it.
    lock, listing = assemble.assemble(folder, wheel, out / PATCHED)
    assemble.write_info(lock, listing, "cuda", out)
    assemble.make_tree(folder, wheel, [], lock.drop, out / UNPATCHED)
    if not crashes(lock.sglang):
        return
    assemble.make_tree(folder, wheel, [_ROPE], lock.drop, out / GUARDED)
    runner = out / GUARDED / "sglang/srt/model_executor/cuda_graph_runner.py"
    _replace(runner, re.compile(re.escape(_COUNT_COPIED)), _COUNT_GUARDED)


def claim_ep(tree: Path, copy: Path) -> None:
    """Copy a tree; the copy behaves on one GPU as if expert parallelism were on."""
    shutil.copytree(tree, copy, ignore=shutil.ignore_patterns("__pycache__"))
    source = copy / "sglang/srt/model_executor/forward_batch_info.py"
    _replace(source, _EP_TEST, r"\1    return True\n")


def _replace(source: Path, old: re.Pattern[str], new: str) -> None:
    text, found = old.subn(new, source.read_text(), count=1)
    if not found:
        raise ReleaseError(f"{source}: not as in 0.5.11 or 0.5.17, wanted {old.pattern!r}")
    source.write_text(text)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--release", default="")
    given = parser.parse_args()
    try:
        shutil.rmtree(given.out, ignore_errors=True)
        make(given.release, given.out.resolve())
    except (KitError, ReleaseError) as error:
        print(f"trees: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
