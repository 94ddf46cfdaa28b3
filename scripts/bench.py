"""Tokens per second with and without the draft: two engines of one image, measured in alternation.

Prints JSON. Both engines are up at once and one is asked at a time, so that whatever else the
machine does falls on both alike; the ratio is the result, the absolute figures are this machine's.
Each round is one of `dflash-kit bench`.
"""

import json
import os
import statistics
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from dflash_kit.engine.keys import Keys
from dflash_kit.profiles.load import load_pair
from dflash_kit.smoke import bench, bench_serving
from dflash_kit.smoke.client import Engine
from dflash_kit.smoke.speed import SpeedPoint
from dflash_kit.smoke.speed_gate import LEAST_ROUNDS
from tests.e2e.node import image, running

POINTS = {"latency": 30020, "throughput": 30021}


@dataclass(frozen=True)
class Side:
    """One of the two engines, and bench_serving in its container."""

    engine: Engine
    bench: bench.Bench


@contextmanager
def side(name: str, port: int, **variables: str) -> Iterator[Side]:
    """The engine with those variables of compose, until the block ends; `name` tells it apart."""
    with running(f"dflash-kit-bench-{name}", port, **variables) as node:
        command, inside = bench_serving.command(node.url, "compose service engine")
        engine = Engine(node.url, Keys(node.key("user"), node.key("admin")), "the container")
        with bench_serving.serving(
            ["env", f"COMPOSE_PROJECT_NAME={node.project}", *command]
        ) as run:
            yield Side(engine, bench.Bench(run, inside))


def alternating(
    sides: dict[str, Side], concurrency: int, counted: int = LEAST_ROUNDS
) -> dict[str, SpeedPoint]:
    """The speed of each side in so many rounds; a first round of each is not counted."""
    pair = load_pair("tiny")
    asked = {n: each.bench.asked(each.engine, pair, concurrency) for n, each in sides.items()}
    rounds = [
        {n: bench.one_round(each.bench.run, each.engine, asked[n])[0] for n, each in sides.items()}
        for _ in range(1 + counted)
    ]
    return {
        name: SpeedPoint(
            concurrency=concurrency,
            prompts=len(asked[name].prompts),
            rounds=[each[name] for each in rounds[1:]],
        )
        for name in sides
    }


def ratios(found: dict[str, SpeedPoint]) -> list[float]:
    """Tokens per second with the draft over those without, round by round."""
    with_draft, without = (found[point].rounds for point in POINTS)
    return [round(a.tok_s / b.tok_s, 3) for a, b in zip(with_draft, without, strict=True)]


def main() -> None:
    result: dict[str, object] = {"image": image(os.environ.get("DFLASH_KIT_VARIANT", "cpu"))}
    with ExitStack() as stack:
        sides = {
            point: stack.enter_context(side(point, port, DFLASH_KIT_POINT=point))
            for point, port in POINTS.items()
        }
        for concurrency in bench.CONCURRENCIES:
            found = alternating(sides, concurrency)
            result[f"c{concurrency}"] = {
                "ratio": statistics.median(ratios(found)),
                "ratios": ratios(found),
                **{point: str(speed) for point, speed in found.items()},
                "speed": [speed.model_dump() for speed in found.values()],
            }
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
