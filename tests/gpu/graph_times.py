"""Starts the engine as `python -m sglang.launch_server` does, able to time its graphs.

While the file that DFLASH_GPU_TIMES names exists, every replay of a CUDA graph stands between two
CUDA events, and each WINDOW steps append a line of JSON to it: milliseconds a step, in the draft's
graph, in verify's, and outside both; and what memory each capture took. Without the file nothing
is recorded.
"""

import json
import os
import runpy
import sys
from collections import deque
from pathlib import Path
from typing import Any

import torch

FILE_VARIABLE = "DFLASH_GPU_TIMES"
WINDOW = 64
DRAFT, VERIFY = "draft", "verify"


class Replays:
    """The replays of one process, and the file that their times go to."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.kept: deque[tuple[str, torch.cuda.Event, torch.cuda.Event]] = deque()
        self.plain = torch.cuda.CUDAGraph.replay
        self.begin, self.end = torch.cuda.CUDAGraph.capture_begin, torch.cuda.CUDAGraph.capture_end
        self.captured: list[int] = []

    def replay(self, graph: torch.cuda.CUDAGraph) -> None:
        """Instead of CUDAGraph.replay."""
        if not self.file.exists():
            self.kept.clear()
            self.plain(graph)
            return
        role = DRAFT if _model_runner().is_draft_worker else VERIFY
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        self.plain(graph)
        end.record()
        self.kept.append((role, begin, end))
        if role == VERIFY:
            self.report()

    def capture_begin(self, graph: torch.cuda.CUDAGraph, *args: Any, **more: Any) -> None:
        """Instead of CUDAGraph.capture_begin: the warm-up before it is not the graph's."""
        self.captured.append(-torch.cuda.memory_reserved())
        self.begin(graph, *args, **more)

    def capture_end(self, graph: torch.cuda.CUDAGraph) -> None:
        """Instead of CUDAGraph.capture_end."""
        self.end(graph)
        self.captured[-1] += torch.cuda.memory_reserved()

    def report(self) -> None:
        """Write a line once the events of a whole window lie behind the device."""
        targets = [at for at, (role, _, _) in enumerate(self.kept) if role == VERIFY]
        if len(targets) <= WINDOW or not self.kept[targets[WINDOW]][1].query():
            return
        first, last = targets[0], targets[WINDOW]
        span = self.kept[first][1].elapsed_time(self.kept[last][1]) / WINDOW
        inside = dict.fromkeys((DRAFT, VERIFY), 0.0)
        for role, begin, end in list(self.kept)[first:last]:
            inside[role] += begin.elapsed_time(end) / WINDOW
        line = {"step": span, **inside, "outside": span - sum(inside.values())}
        rounded = {name: round(value, 4) for name, value in line.items()}
        with self.file.open("a") as out:
            print(json.dumps({"ms": rounded, "captured MB": self._megabytes()}), file=out)
        for _ in range(last):
            self.kept.popleft()

    def _megabytes(self) -> list[float]:
        """What each capture added: the target's, from the largest size down, then the draft's."""
        return [round(each / 1e6, 1) for each in self.captured]


def _model_runner() -> Any:
    """That of the graph runner whose graph is replayed; its backend may stand in between."""
    frame = sys._getframe(1)
    while frame.f_back:
        frame = frame.f_back
        if found := getattr(frame.f_locals.get("self"), "model_runner", None):
            return found
    raise RuntimeError("a graph was replayed by none of the engine's graph runners")


# At the top: the engine's processes are spawned, and each runs this file again under another name.
if FILE_VARIABLE in os.environ:
    _replays = Replays(Path(os.environ[FILE_VARIABLE]))
    torch.cuda.CUDAGraph.replay = lambda graph: _replays.replay(graph)
    torch.cuda.CUDAGraph.capture_begin = lambda graph, *args, **more: _replays.capture_begin(
        graph, *args, **more
    )
    torch.cuda.CUDAGraph.capture_end = lambda graph: _replays.capture_end(graph)

if __name__ == "__main__":
    runpy.run_module("sglang.launch_server", run_name="__main__")
