"""One engine process from a source tree, and what it is asked."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from itertools import count
from pathlib import Path
from typing import Any

LARGEST_GRAPH = 8
DUMMY = ("--load-format", "dummy", "--skip-tokenizer-init", "--context-length", "8192")
_ARGUMENTS = (
    *("--host", "127.0.0.1", "--sampling-backend", "pytorch", "--grammar-backend", "none"),
    *("--attention-backend", "triton", "--disable-piecewise-cuda-graph"),
    # Several engines share a GPU: a small pool each, and graphs for few sizes.
    *("--max-total-tokens", "12000", "--mem-fraction-static", "0.97"),
    *("--max-running-requests", "16", "--cuda-graph-bs", "1", "2", "4", str(LARGEST_GRAPH)),
    *("--random-seed", "1", "--decode-log-interval", "40", "--trust-remote-code"),
)
_ports = count(31000, 10)


class Engine:
    """An engine that is starting; `wait` for it before anything else."""

    def __init__(
        self, name: str, tree: Path, arguments: Sequence[str], gpus: str, logs: Path
    ) -> None:
        self.name, self.port, self.up = name, next(_ports), False
        self.log = logs / f"{name}.log"
        self.started = time.monotonic()
        environment = os.environ | {
            "PYTHONPATH": os.pathsep.join([str(tree), os.environ.get("PYTHONPATH", "")]),
            "CUDA_VISIBLE_DEVICES": gpus,
            "HF_HUB_OFFLINE": "1",
            "OMP_NUM_THREADS": "2",
            "SGLANG_ENABLE_JIT_DEEPGEMM": "false",
            # Ranks may find their GPUs unequally full: other engines are on them.
            "SGLANG_ENABLE_TP_MEMORY_INBALANCE_CHECK": "false",
        }
        ports = ("--port", str(self.port), "--nccl-port", str(self.port + 2000))
        with self.log.open("w") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "sglang.launch_server", *_ARGUMENTS, *ports, *arguments],
                stdout=log,
                stderr=subprocess.STDOUT,
                env=environment,
                start_new_session=True,
            )

    def text(self) -> str:
        """The log so far."""
        return self.log.read_text(errors="replace")

    def wait(self, seconds: float = 300) -> bool:
        """Whether it can generate; the end of its log is printed where it cannot."""
        while time.monotonic() - self.started < seconds and self.process.poll() is None:
            if "Scheduler hit an exception" in self.text():
                break
            try:
                self.get("/health", timeout=5)
            except (urllib.error.URLError, OSError):
                time.sleep(0.5)
                continue
            self.up = True
            return True
        print(f"{self.name} did not start:\n{self.text()[-2000:]}", flush=True)
        return False

    def stop(self) -> None:
        """End it and what it started."""
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self.up = False

    def get(self, path: str, timeout: float = 60) -> str:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=timeout) as got:
            return str(got.read().decode())

    def post(self, path: str, body: dict[str, Any], timeout: float = 120) -> str:
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

    def state(self) -> dict[str, Any]:
        """Acceptance, memory and draft passes as the engine counts them."""
        state = json.loads(self.get("/get_server_info"))["internal_states"][0]
        return {
            key: state.get(key)
            for key in ("avg_spec_accept_length", "memory_usage", "draft_passes")
        }
