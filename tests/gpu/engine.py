"""One engine process from a release's source tree, and what it is asked."""

from __future__ import annotations

import json
import os
import re
import signal
import statistics
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from itertools import count
from pathlib import Path
from typing import Any

from graph_times import FILE_VARIABLE
from release import HERE, Release

LARGEST_GRAPH = 8
DUMMY = ("--load-format", "dummy", "--skip-tokenizer-init", "--context-length", "8192")
# By their newest names.
_ARGUMENTS = (
    *("--host", "127.0.0.1", "--sampling-backend", "pytorch", "--grammar-backend", "none"),
    *("--attention-backend", "triton", "--disable-prefill-cuda-graph"),
    # Several engines share a GPU: a small pool each, and graphs for few sizes.
    *("--max-total-tokens", "12000", "--mem-fraction-static", "0.97"),
    *("--max-running-requests", "16", "--cuda-graph-bs-decode", "1", "2", "4", str(LARGEST_GRAPH)),
    *("--random-seed", "1", "--decode-log-interval", "40", "--trust-remote-code"),
    "--enable-metrics",
)
_ports = count(31000, 10)


class Engine:
    """An engine that is starting; `wait` for it before anything else."""

    def __init__(
        self,
        name: str,
        release: Release,
        tree: str,
        arguments: Sequence[str],
        work: Path,
        gpus: str = "0",
        **variables: str,
    ) -> None:
        self.name, self.port, self.up = name, next(_ports), False
        # Names come back in other parts of a run, ports do not.
        self.log, self._times = (work / f"{name}-{self.port}.{end}" for end in ("log", "times"))
        self.started = time.monotonic()
        # Below the ports that the kernel gives to whoever asks for any.
        ports = ("--port", str(self.port), "--nccl-port", str(self.port + 1))
        launcher = str(HERE / "graph_times.py")
        with self.log.open("w") as log:
            self.process = subprocess.Popen(
                [sys.executable, launcher, *release.named((*_ARGUMENTS, *ports, *arguments))],
                stdout=log,
                stderr=subprocess.STDOUT,
                env=release.environment(tree)
                | {"CUDA_VISIBLE_DEVICES": gpus, FILE_VARIABLE: str(self._times), **variables},
                start_new_session=True,
            )

    def text(self) -> str:
        """The log so far."""
        return self.log.read_text(errors="replace")

    def wait(self, seconds: float = 300) -> None:
        """Until it can generate; RuntimeError with the end of its log where it cannot."""
        while time.monotonic() - self.started < seconds and self.process.poll() is None:
            if "Scheduler hit an exception" in self.text():
                break
            try:
                self.get("/health", timeout=5)
            except (urllib.error.URLError, OSError):
                time.sleep(0.5)
                continue
            self.up = True
            return
        self.stop()
        raise RuntimeError(f"{self.name} did not start:\n{self.text()[-3000:]}")

    def refused(self, seconds: float = 300) -> str | None:
        """The last line of a start that ended by itself; None where it did not."""
        try:
            code = self.process.wait(max(1.0, self.started + seconds - time.monotonic()))
        except subprocess.TimeoutExpired:
            code = 0
        self.stop()
        lines = self.text().strip().splitlines()
        return lines[-1] if code and lines else None

    def stop(self) -> None:
        """End it and what it started."""
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self.up = False

    def get(self, path: str, timeout: float = 60) -> str:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=timeout) as got:
            return str(got.read().decode())

    def post(self, path: str, body: dict[str, Any], timeout: float = 180) -> str:
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}{path}",
            json.dumps(body).encode(),
            {"Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=timeout) as got:
            return str(got.read().decode())

    def generate(self, prompts: Any, **parameters: Any) -> list[dict[str, Any]]:
        """Answers to ids (a list of lists) or texts; greedy to the full length unless told."""
        key = "text" if isinstance(prompts[0], str) else "input_ids"
        lengths = parameters.pop("lengths", None)
        each = {"temperature": 0, "ignore_eos": True} | parameters
        sampling = [each | {"max_new_tokens": n} for n in lengths] if lengths else each
        answer = self.post("/generate", {key: prompts, "sampling_params": sampling})
        return list(json.loads(answer))

    def tokens(self, prompts: Any, **parameters: Any) -> list[list[int]]:
        return [answer["output_ids"] for answer in self.generate(prompts, **parameters)]

    def passes(self) -> dict[str, int]:
        """Decode passes so far as /metrics counts them: draft and verify, in a graph and eager.

        The unpatched engine has no counter for the draft's.
        """
        found = re.findall(
            r'^sglang:cuda_graph_passes_total\{.*mode="(\w+)".*\} (\S+)$',
            self.get("/metrics"),
            re.MULTILINE,
        )
        names = {"decode_cuda_graph": "verify in a graph", "decode_none": "verify eager"}
        names |= {"draft_cuda_graph": "draft in a graph", "draft_none": "draft eager"}
        return {names[mode]: int(float(n)) for mode, n in found if mode in names}

    def captures(self) -> int:
        """How many graph runners have captured, as a log before 0.5.13 says: the target's first."""
        return self.text().count("Capture cuda graph end")

    def graph_times(self, prompts: list[list[int]], tokens: int) -> dict[str, Any]:
        """Milliseconds of a step by place, from CUDA events while `tokens` more are generated.

        The median of windows of graph_times.WINDOW steps, and "captured MB" by captured graph;
        RuntimeError where there is no window.
        """
        self._times.touch()
        self.tokens(prompts, max_new_tokens=tokens)
        windows = [json.loads(line) for line in self._times.read_text().splitlines()]
        self._times.unlink()
        if not windows:
            raise RuntimeError(f"{self.name}: no graph was timed, wanted {tokens} steps of them")
        milliseconds = [window["ms"] for window in windows]
        return {
            place: round(statistics.median(each[place] for each in milliseconds), 4)
            for place in milliseconds[0]
        } | {"captured MB": windows[-1]["captured MB"]}
