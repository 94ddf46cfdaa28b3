"""Runs pytest on one source tree after the other, in forks of a process that has imported once
what all of them import: PyTorch and the like, never sglang.

    forks.py < jobs    (a JSON object a line: tree, tests, options, cwd, said)

For each line one is answered, `done`, when its process has ended; what that printed is in `said`.
A tree's own modules, its environment and its working directory are those of a new process.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import sys
import traceback
from typing import Any

# As tests/patches/conftest.py sets them, before anything reads them.
os.environ["SGLANG_USE_CPU_ENGINE"] = "1"
os.environ["HF_HUB_OFFLINE"] = "1"
# What takes long to import. torch._inductor: PyTorch must have looked for triton before sglang puts
# a stub in its place.
SHARED = (
    "torch",
    "torch.distributed",
    "torch._dynamo",
    "torch._inductor.runtime.triton_compat",
    "torchvision",
    "transformers",
    "transformers.models.auto",
    "transformers.modeling_utils",
    "numpy",
    "pytest",
    "openai",
    "IPython",
    "fastapi",
    "uvicorn",
    "aiohttp",
    "huggingface_hub",
    "prometheus_client",
    "zmq",
)


def run(job: dict[str, Any]) -> None:
    """In a fork: pytest with `options` on the tests, against the tree; never returns."""
    status = 1
    try:
        said = os.open(job["said"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(said, 1)
        os.dup2(said, 2)
        os.chdir(job["cwd"])
        path = [job["tree"], *filter(None, [os.environ.get("PYTHONPATH")])]
        os.environ["PYTHONPATH"] = os.pathsep.join(path)
        # Where a new process has it: behind the folder of the program, before the site-packages.
        sys.path.insert(1, job["tree"])
        importlib.invalidate_caches()
        import pytest

        status = pytest.main([*job["options"], *job["tests"]])
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def main() -> None:
    for name in SHARED:
        # A release has no use for all of them.
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    assert "sglang" not in sys.modules
    # pytest collects garbage at its end: not among what is there before it begins.
    gc.freeze()
    # None of them: it prints to where the answers go.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    for line in sys.stdin:
        child = os.fork()
        if not child:
            run(json.loads(line))
        os.waitpid(child, 0)
        print("done", file=answers, flush=True)


if __name__ == "__main__":
    main()
