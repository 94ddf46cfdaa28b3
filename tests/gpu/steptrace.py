"""Where one decode step goes, read from a torch profiler trace of the engine."""

from __future__ import annotations

import gzip
import json
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

_GPU = ("kernel", "gpu_memcpy", "gpu_memset")
_RUNTIME = ("cuda_runtime", "cuda_driver")


def _busy(intervals: list[tuple[float, float]]) -> float:
    """The time covered by intervals that may overlap."""
    total = end = 0.0
    for start, stop in sorted(intervals):
        if stop > end:
            total += stop - max(start, end)
            end = stop
    return total


def _correlation(event: dict[str, Any]) -> Any:
    return event["args"].get("correlation")


def summarise(path: Path) -> dict[str, Any]:
    """Milliseconds and counts a step: its span, the GPU's busy time, by graph and outside.

    A graph is named after the kernels in it; the step is the time between two launches of the
    one that is launched most. ValueError where the trace has fewer than two steps.
    """
    with gzip.open(path) as packed:
        events = [e for e in json.load(packed)["traceEvents"] if e.get("ph") == "X"]
    gpu = [e for e in events if e.get("cat") in _GPU]
    launches = {_correlation(e): e for e in events if e.get("cat") in _RUNTIME}
    kernels = Counter(_correlation(e) for e in gpu)
    graphs = {
        key: kernels[key] for key, event in launches.items() if "GraphLaunch" in event["name"]
    }
    if len(graphs) < 4:
        raise ValueError(f"{path}: {len(graphs)} graph launches, wanted two steps of two")
    mark = Counter(graphs.values()).most_common(1)[0][0]
    marks = sorted(launches[key]["ts"] for key, size in graphs.items() if size == mark)
    first, last, steps = marks[0], marks[-1], len(marks) - 1

    inside = [e for e in gpu if first <= launches.get(_correlation(e), {"ts": -1})["ts"] < last]
    by_place: dict[str, float] = defaultdict(float)
    by_kernel: dict[str, list[float]] = defaultdict(lambda: [0, 0.0])
    outside = 0
    for event in inside:
        size = graphs.get(_correlation(event))
        by_place[f"graph of {size}" if size else "outside"] += event["dur"]
        outside += not size
        entry = by_kernel[event["name"][:90]]
        entry[0] += 1
        entry[1] += event["dur"]

    def each(microseconds: float) -> float:
        return round(microseconds / steps / 1e3, 4)

    return {
        "steps": steps,
        "span_ms": each(last - first),
        "gpu_busy_ms": each(_busy([(e["ts"], e["ts"] + e["dur"]) for e in inside])),
        "gpu_operations": round(len(inside) / steps, 1),
        "gpu_operations_outside_graphs": round(outside / steps, 1),
        "gpu_ms": {place: each(spent) for place, spent in by_place.items()},
        "kernels": [
            [name, round(number / steps, 2), each(spent)]
            for name, (number, spent) in sorted(by_kernel.items(), key=lambda x: -x[1][1])[:15]
        ],
    }
