"""The deep tier of a preflight: all GPUs together, data looked at, and a deadline for all of it.

Minutes, not seconds, and it needs the GPUs for itself and torch: run it out of the image, before an
engine is started. A host on which NCCL hangs (P2P through an IOMMU or ACS) passes every check that
reads, and is found here.
"""

from __future__ import annotations

import json
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from dflash_kit.verdicts import Record, Verdict

DEADLINE_SECONDS = 300.0
DCGM_SECONDS = 900.0
# What the others get to end by themselves once a rank has failed: each may know something.
ENDING_SECONDS = 5.0
# Of each sum and each copy; the best counts, and every one must be right.
REPEATS = 10
# A pair of GPUs that reaches less than this share of the median pair is the odd one out.
ODD_SHARE = 0.5
_RANK = "dflash_kit.host.deep_rank"


@dataclass
class Ranks:
    """What the processes said until they ended, or were ended because the time was over."""

    count: int
    said: list[dict[str, Any]] = field(default_factory=list)
    # The cause first; what the other ranks say of a rank that ended comes after it.
    errors: list[str] = field(default_factory=list)
    seconds: float = 0.0
    late: bool = False

    def stage(self, name: str) -> list[dict[str, Any]]:
        return [line for line in self.said if line["stage"] == name]

    def last(self, rank: int) -> str:
        """The last stage that a rank reached."""
        mine = [line["stage"] for line in self.said if line["rank"] == rank]
        stages = [stage for stage in mine if stage != "failed"]
        return str(stages[-1]) if stages else "start"

    @property
    def unfinished(self) -> list[int]:
        done = {line["rank"] for line in self.stage("end")}
        return [rank for rank in range(self.count) if rank not in done]


def run_ranks(
    count: int, backend: str = "nccl", deadline: float = DEADLINE_SECONDS, repeats: int = REPEATS
) -> Ranks:
    """`count` processes that talk to each other; all of them are gone when this returns."""
    started = time.monotonic()
    ranks = Ranks(count)
    with tempfile.TemporaryDirectory() as folder:
        processes = list(_start(count, backend, repeats, folder))
        try:
            ranks.late = not _wait(processes, started + deadline)
            codes = [process.poll() for process in processes]
        finally:
            for process in processes:
                process.kill()
                process.wait()
        last = []
        for rank in range(count):
            with open(f"{folder}/{rank}.out") as out, open(f"{folder}/{rank}.err") as err:
                ranks.said += [json.loads(x) for x in out if x.startswith("{") and x.endswith("\n")]
                last.append("".join(err.read().strip().splitlines()[-1:]))
    ranks.errors = errors(ranks.stage("failed"), codes, last)
    ranks.seconds = time.monotonic() - started
    return ranks


def _start(
    count: int, backend: str, repeats: int, folder: str
) -> Iterator[subprocess.Popen[bytes]]:
    for rank in range(count):
        with open(f"{folder}/{rank}.out", "wb") as out, open(f"{folder}/{rank}.err", "wb") as err:
            arguments = [backend, str(rank), str(count), str(repeats), f"{folder}/meet"]
            yield subprocess.Popen(
                [sys.executable, "-m", _RANK, *arguments], stdout=out, stderr=err
            )


def _wait(processes: list[subprocess.Popen[bytes]], until: float) -> bool:
    """Whether they came to an end before `until`, all of them or by a failure of one.

    A failure shortens the wait, as the others would hang.
    """
    failed = False
    while time.monotonic() < until:
        codes = [process.poll() for process in processes]
        if None not in codes:
            return True
        if any(codes) and not failed:
            failed, until = True, min(until, time.monotonic() + ENDING_SECONDS)
        time.sleep(0.2)
    return failed


def errors(failed: list[dict[str, Any]], codes: list[int | None], last: list[str]) -> list[str]:
    """A line for each rank that failed, that of the cause first.

    A rank that fails says when, before its connections close; so what its end did to the others is
    later, whoever was seen to end first. One that a signal ended could say nothing: it goes before
    them, unless it ended itself (SIGABRT), as NCCL does where another rank is gone.

    Args:
        failed: the ranks' own words.
        codes: how each rank ended; None for one that had to be ended.
        last: the last line on each rank's standard error.
    """
    found = {line["rank"]: (1, line["at"], line["error"]) for line in failed}
    for rank, code in enumerate(codes):
        if not code or rank in found:
            continue
        if code > 0:
            found[rank] = (2, 0.0, last[rank] or f"exit status {code}")
        else:
            place = 2 if -code == signal.SIGABRT else 0
            found[rank] = (place, 0.0, f"{signal.strsignal(-code)} {last[rank]}")
    order = sorted(found, key=lambda rank: (*found[rank][:2], rank))
    return [f"rank {rank}: {found[rank][2].strip()[:200]}" for rank in order]


def judge(ranks: Ranks) -> list[Record]:
    """`all-reduce` and `pair-bandwidth`, of what the ranks said."""
    return [_all_reduce(ranks), _pair_bandwidth(ranks)]


def _all_reduce(ranks: Ranks) -> Record:
    done = ranks.stage("all-reduce")
    wrong = sorted({line["rank"] for line in done if not line["right"]})
    sizes = sorted({line["bytes"] for line in done})
    slowest = {size: max(x["us"] for x in done if x["bytes"] == size) for size in sizes}
    share = 2 * (ranks.count - 1) / ranks.count
    measured = [
        f"{size // 1024} KiB {us:.0f} us ({share * size / us / 1e3:.1f} GB/s)"
        for size, us in slowest.items()
    ]
    problems = [f"wrong sums on ranks {wrong}"] if wrong else []
    if ranks.unfinished:
        stages = ", ".join(f"{rank} after {ranks.last(rank)}" for rank in ranks.unfinished)
        how = "hung" if ranks.late else "ended"
        problems.append(f"{how} in {ranks.seconds:.0f} s: ranks {stages}")
    problems += ranks.errors[:1]
    return Record(
        code="all-reduce",
        verdict=Verdict.FAIL if problems else Verdict.PASS,
        measured="; ".join([*problems, *measured]),
        wanted=f"right sums on {ranks.count} ranks, all ended in time",
        next_step="see P2P, IOMMU and ACS in the preflight; try NCCL_P2P_DISABLE=1"
        if problems
        else "",
    )


def _pair_bandwidth(ranks: Ranks) -> Record:
    copies = ranks.stage("copy")
    pairs = {(line["source"], line["rank"]): line for line in copies}
    wanted = ranks.count * (ranks.count - 1)
    median = statistics.median(x["gb_s"] for x in copies) if copies else 0.0
    wrong = [f"{a}->{b}" for (a, b), x in pairs.items() if not x["right"]]
    slow = [
        f"{a}->{b} {x['gb_s']}" for (a, b), x in pairs.items() if x["gb_s"] < ODD_SHARE * median
    ]
    if wrong:
        verdict, problem = Verdict.FAIL, f"wrong data: {', '.join(wrong)}; "
    elif len(pairs) < wanted:
        verdict, problem = Verdict.INCONCLUSIVE, ""
    else:
        verdict = Verdict.WARN if slow else Verdict.PASS
        problem = f"slow: {', '.join(slow)}; " if slow else ""
    return Record(
        code="pair-bandwidth",
        verdict=verdict,
        measured=f"{problem}{len(pairs)} of {wanted} pairs, median {median:.1f} GB/s",
        wanted=f"right data, each pair at least {ODD_SHARE:.0%} of the median",
        next_step=""
        if verdict is Verdict.PASS
        else "look at that GPU's slot, riser and link width",
    )


def dcgm() -> Record:
    """`dcgm-diag`: NVIDIA's own diagnosis, where it is installed."""
    wanted = "dcgmi diag -r 2 passes"
    if shutil.which("dcgmi") is None:
        return Record(code="dcgm-diag", verdict=Verdict.SKIP, measured="no dcgmi here", wanted="-")
    command = ["dcgmi", "diag", "-r", "2"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=DCGM_SECONDS)
    except subprocess.TimeoutExpired:
        measured, good = f"no end within {DCGM_SECONDS:.0f} s", False
    else:
        failed = [x.strip() for x in done.stdout.splitlines() if "fail" in x.lower()]
        good = done.returncode == 0 and not failed
        measured = "passed" if good else "; ".join([f"exit {done.returncode}", *failed[:3]])
    return Record(
        code="dcgm-diag",
        verdict=Verdict.PASS if good else Verdict.FAIL,
        measured=measured,
        wanted=wanted,
        next_step="" if good else "run dcgmi diag -r 2 and follow its advice",
    )


def _has_cuda() -> bool:
    """Whether torch is here and was built for GPUs; asked of a process that ends."""
    script = "import sys, torch; sys.exit(torch.version.cuda is None)"
    command = [sys.executable, "-c", script]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def records(count: int) -> list[Record]:
    """The deep tier on this machine's first `count` GPUs."""
    if not _has_cuda():
        return [
            Record(
                code=code,
                verdict=Verdict.INCONCLUSIVE,
                measured="no torch with CUDA here",
                wanted="a run out of the image",
                next_step="docker compose run --rm engine-gpu preflight --deep --profile PROFILE",
            )
            for code in ("all-reduce", "pair-bandwidth")
        ]
    return [*judge(run_ranks(count)), dcgm()]
