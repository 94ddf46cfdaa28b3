"""Runs sglang's own bench_serving in the engine's image: a round asked on a line of stdin, its
figures on a line of stdout, both JSON.

One process runs all rounds, since the import of sglang takes longer than many a round. The key
comes by stdin, so that neither argv nor `docker inspect` ever shows it.
"""

from __future__ import annotations

import importlib.util
import json
import os
import runpy
import sys
import tempfile
from pathlib import Path
from types import ModuleType
from typing import Any

# All else stays here: among it are the engine's whole configuration and every answer's text.
KEPT = ("duration", "completed", "input_lens", "output_lens", "ttfts", "itls", "errors")
ERROR_LENGTH = 300


def one_round(asked: dict[str, Any]) -> dict[str, Any]:
    """Send the prompts, `concurrency` at a time; each answer has exactly `tokens` tokens."""
    os.environ["OPENAI_API_KEY"] = asked["key"]
    with tempfile.TemporaryDirectory() as folder:
        prompts, result = Path(folder, "prompts.jsonl"), Path(folder, "result.jsonl")
        # The second turn only has to be there: the answer's length is given below.
        turns = [{"conversations": [{"content": p}, {"content": "-"}]} for p in asked["prompts"]]
        prompts.write_text("".join(json.dumps(turn) + "\n" for turn in turns))
        sys.argv = ["bench_serving", *arguments(asked, prompts, result)]
        runpy.run_module("sglang.bench_serving", run_name="__main__")
        found = json.loads(result.read_text())
    found["errors"] = [error[-ERROR_LENGTH:] for error in found["errors"]]
    return {name: found[name] for name in KEPT}


def arguments(asked: dict[str, Any], prompts: Path, result: Path) -> list[str]:
    """bench_serving's arguments for one round; warm-up rounds are asked for like any other."""
    return [
        "--backend", "sglang",
        "--base-url", asked["url"],
        "--model", asked["tokenizer"],
        "--dataset-name", "custom",
        "--dataset-path", str(prompts),
        "--num-prompts", str(len(asked["prompts"])),
        "--sharegpt-output-len", str(asked["tokens"]),
        "--max-concurrency", str(asked["concurrency"]),
        "--warmup-requests", "0",
        "--output-file", str(result),
        "--output-details",
        "--disable-tqdm",
        *(["--apply-chat-template"] if asked["chat"] else []),
    ]  # fmt: skip


def without_datasets() -> None:
    """Let bench_serving be imported where the package `datasets` is not installed.

    It imports every kind of data set, and one, MMMU, a benchmark of pictures, needs that package;
    the cpu variant has no use for its 130 MB of pyarrow. Drop when sglang imports it in the
    function that loads it, as its other kinds do.
    """
    if importlib.util.find_spec("datasets") is None:
        absent = ModuleType("sglang.benchmark.datasets.mmmu")
        absent.MMMUDataset = None  # type: ignore[attr-defined]
        sys.modules[absent.__name__] = absent


def main() -> None:
    # One thread a core is what torch would take, of the engine's own where they share a container.
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    # bench_serving prints what it does; that goes where errors go.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    without_datasets()
    for line in sys.stdin:
        answer: dict[str, Any]
        try:
            answer = one_round(json.loads(line))
        except (Exception, SystemExit) as error:
            answer = {"error": f"{type(error).__name__}: {error}"[:ERROR_LENGTH]}
        print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    main()
