"""tok/s with and without the draft: two engines of the same image, measured in alternation.

Prints JSON. Both engines are up at once and one is asked at a time, so that whatever else the
machine does falls on both alike; the ratio is the result, the absolute figures are this machine's.
"""

import json
import os
import statistics
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from dflash_kit.engine.keys import Keys
from dflash_kit.profiles.load import load_pair
from dflash_kit.smoke import exact
from dflash_kit.smoke.client import Engine
from dflash_kit.smoke.wanted import load_known_answers
from tests.e2e.node import Node, image, running

ROUNDS = 5
CONCURRENCIES = (1, 4)


def engine(node: Node) -> Engine:
    return Engine(node.url, Keys(node.key("user"), node.key("admin")), "the container")


def main() -> None:
    prompts = load_known_answers(load_pair("tiny")).exact
    with (
        running("dflash-kit-bench-dflash", 30020, DFLASH_KIT_POINT="latency") as latency,
        running("dflash-kit-bench-plain", 30021, DFLASH_KIT_POINT="throughput") as throughput,
    ):
        engines = {"dflash": engine(latency), "no_draft": engine(throughput)}
        runs: dict[str, dict[str, list[float]]] = {name: {} for name in engines}
        equal = {name: 0 for name in engines}
        accept = []
        for side in engines.values():
            exact.run(side, prompts, 1)  # the first requests warm caches
        for concurrency in CONCURRENCIES:
            for _ in range(ROUNDS):
                for name, side in engines.items():
                    done = exact.run(side, prompts, concurrency)
                    key = f"tok_s_c{concurrency}"
                    runs[name].setdefault(key, []).append(round(done.tokens / done.seconds, 1))
                    equal[name] += sum(result.difference is None for result in done.results)
                    if name == "dflash":
                        accept.append(done.accept_length)
        asked = ROUNDS * len(CONCURRENCIES) * len(prompts)
        result = {
            "image": image(os.environ.get("DFLASH_KIT_VARIANT", "cpu")),
            "rounds": runs,
            "median": {n: {k: statistics.median(v) for k, v in r.items()} for n, r in runs.items()},
            "ratio": {
                key: round(
                    statistics.median(
                        a / b
                        for a, b in zip(runs["dflash"][key], runs["no_draft"][key], strict=True)
                    ),
                    2,
                )
                for key in runs["dflash"]
            },
            "accept_length": round(statistics.mean(accept), 3),
            "equal_to_transformers": {name: f"{count} of {asked}" for name, count in equal.items()},
        }
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
