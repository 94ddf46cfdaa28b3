"""What is measured and compared; each returns plain data for the report."""

from __future__ import annotations

import json
import random
import re
import threading
import time
import urllib.error
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from engine import LARGEST_GRAPH, Engine
from steptrace import summarise

NEW_TOKENS, KNOWN_TOKENS = 192, 48
_random = random.Random(0)
PROMPTS = [[_random.randrange(10, 30000) for _ in range(64)] for _ in range(16)]
# The frames of the crash under expert parallelism, outermost first.
CRASH = re.compile(
    r"in replay\n.*in replay_prepare\n.*in populate_from_forward_batch\n"
    r".*in _grouped_foreach_copy_\n.*'NoneType' object has no attribute 'dtype'",
    re.DOTALL,
)


def speed(engines: Sequence[Engine], sizes: Sequence[int] = (1, 8), rounds: int = 3) -> Any:
    """Tokens/s of each engine and number of requests, in alternation, and the tokens.

    Draft and target have nothing in common with dummy weights: one token a step and request.
    The milliseconds a token leave out the prompt.
    """
    figures: dict[str, Any] = {engine.name: {} for engine in engines}
    tokens: dict[str, Any] = {engine.name: {} for engine in engines}
    for size in sizes:
        for engine in engines:
            engine.tokens(PROMPTS[:size], max_new_tokens=24)
        for _ in range(rounds):
            for engine in engines:
                begun = time.monotonic()
                engine.tokens(PROMPTS[:size], max_new_tokens=1)
                middle = time.monotonic()
                tokens[engine.name][size] = engine.tokens(PROMPTS[:size], max_new_tokens=NEW_TOKENS)
                spent, first = time.monotonic() - middle, middle - begun
                row = figures[engine.name].setdefault(f"C={size}", {"tok_s": [], "step_ms": []})
                row["tok_s"].append(round(size * NEW_TOKENS / spent, 1))
                row["step_ms"].append(round((spent - first) / (NEW_TOKENS - 1) * 1e3, 3))
    return figures, tokens


def same(ours: dict[int, Any], theirs: dict[int, Any]) -> bool:
    """Whether two engines gave the same tokens for every size that both were asked for."""
    return all(ours[size] == theirs[size] for size in ours.keys() & theirs.keys())


def odd_batches(engines: Sequence[Engine]) -> dict[str, bool]:
    """Batches that no graph fits: whether all engines give the same tokens for each."""
    shrinking = [3, 9, 14, 20, 27, 33, 40, KNOWN_TOKENS]
    lengths = {
        "padded": [KNOWN_TOKENS] * 5,
        "shrinking while it runs": shrinking,
        "above the largest graph": [KNOWN_TOKENS] * (LARGEST_GRAPH + 4),
    }
    return {
        what: all(
            engine.tokens(PROMPTS[: len(each)], lengths=each)
            == engines[0].tokens(PROMPTS[: len(each)], lengths=each)
            for engine in engines[1:]
        )
        for what, each in lengths.items()
    }


def profile(engine: Engine, size: int, folder: Path, steps: int = 12) -> dict[str, Any]:
    """One decode step under torch's profiler, which stretches the host's part of it."""
    folder.mkdir(parents=True)
    asked = {"output_dir": str(folder), "num_steps": steps, "activities": ["CPU", "GPU"]}
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(engine.tokens, PROMPTS[:size], max_new_tokens=400)
        time.sleep(0.8)
        engine.post("/start_profile", asked)
        running.result()
    deadline = time.monotonic() + 60
    while not (written := sorted(folder.glob("*.json.gz"))) and time.monotonic() < deadline:
        time.sleep(0.5)
    time.sleep(2)  # The file appears before it is complete.
    return summarise(written[0])


def crash(engine: Engine, seconds: float = 300) -> bool:
    """Whether the engine dies in its first draft replay, after its captures."""
    while time.monotonic() - engine.started < seconds:
        if CRASH.search(engine.text()) or engine.process.poll() is not None:
            break
        try:
            engine.get("/health_generate", timeout=20)
            break
        except (urllib.error.URLError, OSError):
            time.sleep(1)
    crashed = bool(CRASH.search(engine.text()))
    engine.stop()
    return crashed


def churn(engine: Engine, seconds: float, clients: int = LARGEST_GRAPH) -> dict[str, Any]:
    """Requests that come, go, sample and are aborted; the greedy ones must not differ.

    With no more clients than the largest graph every pass runs in a graph.
    """
    known = [engine.tokens([prompt], max_new_tokens=KNOWN_TOKENS)[0] for prompt in PROMPTS]
    before = engine.state()["draft_passes"]
    counts = {"greedy": 0, "greedy that differ": 0, "sampled": 0, "aborted": 0}
    stop, lock = time.monotonic() + seconds, threading.Lock()

    def client(number: int) -> None:
        dice = random.Random(number)
        while time.monotonic() < stop:
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
                _abort_midway(engine, PROMPTS[chosen], f"{number}-{dice.random()}")
            with lock:
                counts[kind] += 1
                counts["greedy that differ"] += differs

    with ThreadPoolExecutor(clients) as pool:
        list(pool.map(client, range(clients)))
    return counts | {
        "draft passes": [before, engine.state()["draft_passes"]],
        "errors in the log": len(re.findall(r"Traceback|memory leak", engine.text())),
    }


def _abort_midway(engine: Engine, prompt: list[int], name: str) -> None:
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


def tiny(engine: Engine, answers: Path) -> dict[str, Any]:
    """The trained pair: exact answers alone, in one batch and mixed, and its acceptance."""
    exact = json.loads(answers.read_text())["exact"]
    texts = [each["prompt_text"] for each in exact]
    wanted = [each["output_ids"] for each in exact]
    alone = [engine.generate([text], max_new_tokens=64)[0] for text in texts]
    batch = engine.tokens(texts, max_new_tokens=64)
    tokens = sum(each["meta_info"]["completion_tokens"] for each in alone)
    passes = [each["meta_info"]["spec_verify_ct"] for each in alone]

    def mixed(number: int) -> bool:
        which, length = number % len(texts), 3 + 7 * number % 61
        got = engine.tokens([texts[which]], max_new_tokens=length)[0]
        return bool(got == wanted[which][:length])

    with ThreadPoolExecutor(12) as pool:
        right = sum(pool.map(mixed, range(96)))
    return {
        "prompts": len(texts),
        "exact alone": sum(a["output_ids"] == w for a, w in zip(alone, wanted, strict=True)),
        "exact in a batch": sum(b == w for b, w in zip(batch, wanted, strict=True)),
        "exact mixed, of 96": right,
        "tokens a verify": round(tokens / sum(passes), 4),
        "verify passes": passes,
    }
