"""Measure and compare a patched engine and the unpatched one on this machine's GPUs.

    measure.py --trees TREES --out REPORT.json [--tiny models/tiny] [--work FOLDER]

TREES holds `unpatched` and `patched`, as tests/patches/check.py prepares them; the Python that
runs this has the engine's dependencies. One GPU of 140 GB or two. With two, expert parallelism
is real; with one, copies of the trees claim it. Exit codes: 0 all as wanted, 1 not.
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
from pathlib import Path
from typing import Any

import checks
import shapes
from engine import DUMMY, Engine

NO_GRAPHS = ("--disable-cuda-graph",)
# What these need of flashinfer and peer access is not what is measured.
PARALLEL = (
    *("--tp-size", "2", "--ep-size", "2", "--disable-custom-all-reduce"),
    "--enforce-disable-flashinfer-allreduce-fusion",
)
_EP_TEST = "    return get_moe_expert_parallel_world_size() > 1\n"


class Run:
    """The engines of a run, and its report."""

    def __init__(self, trees: Path, work: Path) -> None:
        self.trees, self.work, self.report, self.failed = trees, work, {}, []
        shapes.write(work / "models")
        (work / "logs").mkdir(exist_ok=True)

    def engine(
        self, name: str, tree: str, model: str, *more: str, draft: bool = True, gpus: str = "0"
    ) -> Engine:
        path = self.work / "models" / model
        arguments = ["--model-path", str(path), "--disable-radix-cache", *DUMMY, *more]
        if draft:
            arguments += ["--speculative-algorithm", "DFLASH"]
            arguments += ["--speculative-draft-model-path", f"{path}-dflash"]
        return Engine(name, self.trees / tree, arguments, gpus, self.work / "logs")

    def note(self, section: str, key: str, found: Any, wanted: Any = None) -> None:
        """Keep a finding; one that is not as wanted fails the run."""
        self.report.setdefault(section, {})[key] = found
        as_wanted = wanted is None or found == wanted
        print(f"{section}: {key}: {found}{'' if as_wanted else f', wanted {wanted}'}", flush=True)
        if not as_wanted:
            self.failed.append(f"{section}: {key}")


def compare(run: Run, model: str, gpu: str) -> None:
    """Patched against unpatched in graphs, then eager and without a draft."""
    old, new = (run.engine(f"{model}-{t}", t, model, gpus=gpu) for t in ("unpatched", "patched"))
    if not (old.wait() and new.wait()):
        raise RuntimeError(f"{model}: an engine did not start")
    figures, tokens = checks.speed([old, new], sizes=(1, 4, 8))
    for size in ("C=1", "C=4", "C=8"):
        best = [max(figures[each.name][size]["tok_s"]) for each in (old, new)]
        run.note("speed", f"{model} {size}", figures[old.name][size] | {"tree": "unpatched"})
        run.note("speed patched", f"{model} {size}", figures[new.name][size])
        run.note("ratio", f"{model} {size}", round(best[1] / best[0], 3))
    run.note("tokens equal", f"{model} graphs", checks.same(*tokens.values()), True)
    for what, equal in checks.odd_batches([old, new]).items():
        run.note("tokens equal", f"{model} {what}", equal, True)
    for engine in (old, new):
        for size in (1, 8):
            folder = run.work / "traces" / f"{engine.name}-{size}"
            run.note("step", f"{engine.name} C={size}", checks.profile(engine, size, folder))
    found = checks.churn(new, seconds=20)
    run.note("churn", model, found)
    run.note("churn", f"{model} greedy that differ", found["greedy that differ"], 0)
    run.note("state", model, new.state())
    old.stop()
    new.stop()

    others = [
        run.engine(f"{model}-eager", "unpatched", model, *NO_GRAPHS, gpus=gpu),
        run.engine(f"{model}-no-draft", "unpatched", model, draft=False, gpus=gpu),
    ]
    for other in others:
        if not other.wait():
            raise RuntimeError(f"{other.name} did not start")
    figures, theirs = checks.speed(others, rounds=2)
    for other in others:
        run.note("speed", other.name, figures[other.name])
        run.note(
            "tokens equal", other.name, checks.same(tokens[new.name], theirs[other.name]), True
        )
        other.stop()


def expert_parallel(run: Run, gpus: int) -> None:
    """The crash on the unpatched tree, and its absence on the patched one."""
    more, where, suffix = (PARALLEL, "0,1", "") if gpus > 1 else ((), "0", "-claims-ep")
    if suffix:
        for tree in ("unpatched", "patched"):
            _claim_ep(run.trees / tree, run.work / f"{tree}{suffix}")
        run.trees = run.work
    old = run.engine("ep-unpatched", f"unpatched{suffix}", "kimi-mini", *more, gpus=where)
    run.note("expert parallel", "unpatched crashes", checks.crash(old), True)
    new = run.engine("ep-patched", f"patched{suffix}", "kimi-mini", *more, gpus=where)
    plain = run.engine(
        "ep-no-draft", f"patched{suffix}", "kimi-mini", *more, draft=False, gpus=where
    )
    run.note("expert parallel", "patched serves", new.wait() and plain.wait(), True)
    figures, tokens = checks.speed([new, plain], rounds=2)
    run.note("expert parallel", "speed", figures)
    run.note("expert parallel", "tokens equal no draft", checks.same(*tokens.values()), True)
    found = checks.churn(new, seconds=10)
    run.note("expert parallel", "churn", found)
    run.note("expert parallel", "greedy that differ", found["greedy that differ"], 0)
    new.stop()
    plain.stop()


def _claim_ep(tree: Path, copy: Path) -> None:
    shutil.copytree(tree, copy, ignore=shutil.ignore_patterns("__pycache__"))
    source = copy / "sglang/srt/model_executor/forward_batch_info.py"
    text = source.read_text()
    if _EP_TEST not in text:
        raise RuntimeError(f"{source}: not as in 0.5.11, wanted {_EP_TEST.strip()!r}")
    source.write_text(text.replace(_EP_TEST, "    return True\n"))


def trained_pair(run: Run, pair: Path) -> None:
    """Exact text, and the acceptance of a draft that knows its target."""
    arguments = ["--model-path", str(pair / "target"), "--context-length", "1024"]
    arguments += ["--speculative-algorithm", "DFLASH"]
    arguments += ["--speculative-draft-model-path", str(pair / "draft")]
    engine = Engine("tiny", run.trees / "patched", arguments, "0", run.work / "logs")
    if not engine.wait():
        raise RuntimeError("the tiny pair did not start")
    found = checks.tiny(engine, pair / "known_answers.json")
    run.note("tiny", "found", found)
    for key in ("exact alone", "exact in a batch"):
        run.note("tiny", key, found[key], found["prompts"])
    engine.stop()


def machine() -> dict[str, Any]:
    query = ["nvidia-smi", "--query-gpu=name,driver_version,memory.total", "--format=csv,noheader"]
    gpus = subprocess.run(query, capture_output=True, text=True, check=True).stdout.splitlines()
    packages = ("torch", "triton", "transformers", "sglang-kernel")
    return {
        "gpus": gpus,
        "python": platform.python_version(),
        "versions": {package: version(package) for package in packages},
        "command": sys.argv,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--trees", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--tiny", type=Path, default=Path("models/tiny"))
    parser.add_argument("--work", type=Path, default=None)
    given = parser.parse_args()
    work = given.work or Path(tempfile.mkdtemp(prefix="dflash-gpu-"))
    work.mkdir(parents=True, exist_ok=True)
    run = Run(given.trees.resolve(), work.resolve())
    run.report["machine"] = machine()
    gpus = len(run.report["machine"]["gpus"])
    try:
        trained_pair(run, given.tiny.resolve())
        compare(run, "kimi-mini", gpu="0")
        compare(run, "q8", gpu=str(gpus - 1))
        expert_parallel(run, gpus)
    finally:
        run.report["failed"] = run.failed
        given.out.write_text(json.dumps(run.report, indent=1) + "\n")
    print(f"{'FAIL: ' + '; '.join(run.failed) if run.failed else 'PASS'}: {given.out}")
    return 1 if run.failed else 0


if __name__ == "__main__":
    sys.exit(main())
