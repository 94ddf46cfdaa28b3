"""What is measured and compared of engines with dummy weights; each returns plain data."""

from __future__ import annotations

import gzip
import random
import re
import threading
import time
import urllib.error
import uuid
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from engine import LARGEST_GRAPH, Engine
from steptrace import summarise

NEW_TOKENS, KNOWN_TOKENS, TRACED_TOKENS = 192, 48, 400
SIZES = (1, 4, LARGEST_GRAPH)
SOAK_STEPS = 2000
_random = random.Random(0)
PROMPTS = [[_random.randrange(10, 30000) for _ in range(64)] for _ in range(16)]
# Batches that no graph fits, by the number of tokens that each request asks for.
ODD_BATCHES = {
    "padded": [KNOWN_TOKENS] * 5,
    "shrinking while it runs": [3, 9, 14, 20, 27, 33, 40, KNOWN_TOKENS],
    "above the largest graph": [KNOWN_TOKENS] * (LARGEST_GRAPH + 4),
}
# The frames of the crash under expert parallelism, outermost first.
CRASH = re.compile(
    r"in replay\n.*in replay_prepare\n.*in populate_from_forward_batch\n"
    r".*in _grouped_foreach_copy_\n.*'NoneType' object has no attribute 'dtype'",
    re.DOTALL,
)
Tokens = dict[str, list[list[int]]]


def speed(engines: Sequence[Engine], rounds: int = 3) -> tuple[Any, dict[str, Tokens]]:
    """Steps/s of each engine at each of SIZES, in alternation, and the tokens by engine and batch.

    Draft and target have nothing in common with dummy weights, so that each step makes one token
    of each request. The prompt's time is left out. Rounds are kept one by one.
    """
    figures: dict[str, Any] = {engine.name: {} for engine in engines}
    tokens: dict[str, Tokens] = {engine.name: {} for engine in engines}
    for size in SIZES:
        for engine in engines:
            engine.tokens(PROMPTS[:size], max_new_tokens=24)
        for _ in range(rounds):
            for engine in engines:
                begun = time.monotonic()
                engine.tokens(PROMPTS[:size], max_new_tokens=1)
                middle = time.monotonic()
                made = engine.tokens(PROMPTS[:size], max_new_tokens=NEW_TOKENS)
                spent = (time.monotonic() - middle) - (middle - begun)
                steps_s = round((NEW_TOKENS - 1) / spent, 2)
                figures[engine.name].setdefault(f"C={size}", []).append(steps_s)
                tokens[engine.name][f"C={size}"] = made
    for engine in engines:
        for what, lengths in ODD_BATCHES.items():
            prompts = PROMPTS[: len(lengths)]
            tokens[engine.name][what] = engine.tokens(prompts, lengths=lengths)
    return figures, tokens


def equal(engines: dict[str, Tokens]) -> dict[str, bool]:
    """For each batch, whether all engines gave the same tokens."""
    first, *others = engines.values()
    return {what: all(other[what] == first[what] for other in others) for what in first}


def profile(engine: Engine, size: int, folder: Path, steps: int = 12) -> dict[str, Any]:
    """One decode step under torch's profiler, which stretches the host's part of it."""
    folder.mkdir(parents=True)
    asked = {"output_dir": str(folder), "num_steps": steps, "activities": ["CPU", "GPU"]}
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(engine.tokens, PROMPTS[:size], max_new_tokens=TRACED_TOKENS)
        time.sleep(0.8)
        engine.post("/start_profile", asked)
        running.result()
    deadline = time.monotonic() + 60
    while True:
        try:
            return summarise(next(folder.glob("*.json.gz")))
        except (StopIteration, EOFError, gzip.BadGzipFile):  # not there, or not complete yet
            if time.monotonic() > deadline:
                raise RuntimeError(f"{engine.name}: no complete trace in {folder}") from None
            time.sleep(0.5)


def crash(engine: Engine, seconds: float = 300) -> dict[str, Any]:
    """Whether the engine dies in its first draft replay, after how many captures, and its words."""
    while time.monotonic() - engine.started < seconds and engine.process.poll() is None:
        if CRASH.search(engine.text()):
            break
        try:
            engine.get("/health_generate", timeout=20)
            break
        except (urllib.error.URLError, OSError):
            time.sleep(1)
    engine.stop()
    text = engine.text()
    said = re.findall(r"File \".*/(\S+\.py)\", line (\d+), in (\w+)", text)
    return {
        "crashed": bool(CRASH.search(text)),
        "captures before": engine.captures(),
        "innermost frames": [" ".join(frame) for frame in said[-4:]],
    }


def soak(engine: Engine, clients: int = LARGEST_GRAPH) -> dict[str, Any]:
    """SOAK_STEPS steps of requests that come, go, sample and are aborted.

    With no more clients than the largest graph every pass runs in a graph. Greedy answers have
    known tokens.
    """
    known = [engine.tokens([prompt], max_new_tokens=KNOWN_TOKENS)[0] for prompt in PROMPTS]
    before = engine.passes()
    counts = {"greedy": 0, "greedy that differ": 0, "sampled": 0, "aborted": 0}
    over, lock = threading.Event(), threading.Lock()

    def client(number: int) -> None:
        dice = random.Random(number)
        while not over.is_set():
            chosen, length = dice.randrange(len(PROMPTS)), dice.choice([3, 17, 40, KNOWN_TOKENS])
            kind = dice.choices(["greedy", "sampled", "aborted"], [6, 2, 2])[0]
            differs = False
            if kind == "greedy":
                got = engine.tokens([PROMPTS[chosen]], max_new_tokens=length)[0]
                differs = got != known[chosen][:length]
            elif kind == "sampled":
                warm = {"temperature": 0.8, "top_p": 0.9, "max_new_tokens": length}
                engine.tokens([PROMPTS[chosen]], **warm)
            else:
                _abort_midway(engine, PROMPTS[chosen])
            with lock:
                counts[kind] += 1
                counts["greedy that differ"] += differs

    with ThreadPoolExecutor(clients) as pool:
        running = [pool.submit(client, number) for number in range(clients)]
        while _steps(before, engine.passes()) < SOAK_STEPS and not any(f.done() for f in running):
            time.sleep(0.5)
        over.set()
    for each in running:
        each.result()
    after = engine.passes()
    passes = {name: after[name] - before.get(name, 0) for name in after}
    errors = len(re.findall(r"Traceback|memory leak", engine.text()))
    return counts | {"passes": passes, "errors in the log": errors}


def _steps(before: dict[str, int], after: dict[str, int]) -> int:
    name = "verify in a graph"
    return after.get(name, 0) - before.get(name, 0)


def _abort_midway(engine: Engine, prompt: list[int]) -> None:
    name = uuid.uuid4().hex
    body = {
        "rid": name,
        "input_ids": prompt,
        "sampling_params": {"temperature": 0, "max_new_tokens": 2000, "ignore_eos": True},
    }
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(engine.post, "/generate", body)
        time.sleep(0.15)
        engine.post("/abort_request", {"rid": name})
        answer.exception()  # How an aborted request ends is not looked at here.
