"""One process of the deep tier, on one GPU: moves data to the others and looks whether it is right.

Prints a JSON object a line: {"rank", "stage", ...}. What it proves: NCCL works between these GPUs,
does not hang, and delivers what was sent; a topology that only *says* P2P proves none of it.
"""

import json
import sys
import time
from functools import reduce

import torch
import torch.distributed as dist

# What a decode step of a large model adds up, what a prefill does, and what shows the bandwidth.
ALL_REDUCE_BYTES = (2**17, 2**23, 2**28)
COPY_BYTES = 2**26
# Sums of up to 16 of these are exact in float32.
_PERIOD = 8191


def say(stage: str, **facts: object) -> None:
    print(json.dumps({"rank": dist.get_rank(), "stage": stage, **facts}), flush=True)


def pattern(size: int, rank: int, device: torch.device) -> torch.Tensor:
    """float32 (size // 4,), different for each rank and along its length."""
    index = torch.arange(size // 4, device=device, dtype=torch.int64)
    return ((index + rank) % _PERIOD).to(torch.float32)


def settle(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def all_reduce(size: int, device: torch.device, repeats: int) -> None:
    """`repeats` sums over all ranks: microseconds of the best, and whether each one was right."""
    ranks = range(dist.get_world_size())
    wanted = reduce(torch.add, [pattern(size, rank, device) for rank in ranks])
    mine = pattern(size, dist.get_rank(), device)
    best, right = float("inf"), True
    for _ in range(repeats):
        got = mine.clone()
        settle(device)
        dist.barrier()
        started = time.perf_counter()
        dist.all_reduce(got)
        settle(device)
        best = min(best, time.perf_counter() - started)
        right = right and torch.equal(got, wanted)
    say("all-reduce", bytes=size, us=round(best * 1e6, 1), right=right)


def copy(source: int, target: int, device: torch.device, repeats: int) -> None:
    """`repeats` copies from one rank to another; the target says how fast and whether right."""
    rank = dist.get_rank()
    wanted = pattern(COPY_BYTES, source, device)
    best, right = float("inf"), True
    for _ in range(repeats):
        got = torch.zeros_like(wanted)
        settle(device)
        dist.barrier()
        started = time.perf_counter()
        if rank == source:
            dist.send(wanted, target)
        elif rank == target:
            dist.recv(got, source)
        settle(device)
        best = min(best, time.perf_counter() - started)
        right = right and (rank != target or torch.equal(got, wanted))
    if rank == target:
        say("copy", source=source, gb_s=round(COPY_BYTES / best / 1e9, 2), right=right)


def measure(backend: str, rank: int, count: int, repeats: int, meet: str) -> None:
    device = torch.device("cuda", rank) if backend == "nccl" else torch.device("cpu")
    if device.type == "cuda":
        torch.cuda.set_device(device)
    dist.init_process_group(backend, init_method=f"file://{meet}", rank=rank, world_size=count)
    say("init", device=torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu")
    for size in ALL_REDUCE_BYTES:
        all_reduce(size, device, repeats)
    ranks = range(dist.get_world_size())
    for source, target in ((a, b) for a in ranks for b in ranks if a != b):
        copy(source, target, device, repeats)
    say("end")
    dist.destroy_process_group()


def main() -> None:
    backend, meet = sys.argv[1], sys.argv[5]
    rank, count, repeats = (int(word) for word in sys.argv[2:5])
    try:
        measure(backend, rank, count, repeats, meet)
    except Exception as error:
        # While its connections still stand: what follows from their end comes later (one clock for
        # all processes). Not by say(): there may be no process group.
        first = f"{type(error).__name__}: {error}".splitlines()[0]
        failure = {"rank": rank, "stage": "failed", "at": time.monotonic(), "error": first}
        print(json.dumps(failure), flush=True)
        raise


if __name__ == "__main__":
    main()
