"""bench_noise.py RECEIPT...: how far benches of one deployment lie apart, as two tables.

For each concurrency and quantity the standard deviation of the ratio of two runs, and the largest
fall from one to another: what `start_noise` of a profile has to cover. Then what the gate says of
each run held to each other one, with several of it: all are equal, so that a FAIL is wrong.
"""

import itertools
import statistics
import sys
from collections import Counter
from pathlib import Path

from dflash_kit.smoke import receipt, speed_gate

MARGINS = (0.05, 0.08, 0.12, 0.15, 0.2)


def main(files: list[str]) -> None:
    receipts = [receipt.load(Path(file).read_bytes(), file) for file in files]
    if len(receipts) < 3 or len({each.names for each in receipts}) != 1:
        sys.exit("bench_noise.py: wanted three or more receipts of one deployment")
    print("| C | quantity | median | sd of the ratio | largest fall |\n|---|---|---|---|---|")
    for points in zip(*(each.speed for each in receipts), strict=True):
        for name, values in {
            "tok/s": [point.tok_s for point in points],
            "acceptance": [point.accept_length or 1.0 for point in points],
            "steps/s": [1000 / point.step_ms for point in points],
        }.items():
            ratios = [a / b for a, b in itertools.permutations(values, 2)]
            row = (
                points[0].concurrency,
                name,
                f"{statistics.median(values):.2f}",
                f"{statistics.stdev(ratios):.1%}",
                f"{1 - min(ratios):.1%}",
            )
            print("| " + " | ".join(map(str, row)) + " |")
    print("\n| start_noise | FAIL | INCONCLUSIVE | PASS |\n|---|---|---|---|")
    for margin in MARGINS:
        said = Counter(
            speed_gate.against(now, before, margin).verdict.value
            for points in zip(*(each.speed for each in receipts), strict=True)
            for now, before in itertools.permutations(points, 2)
        )
        print(f"| {margin:.0%} | {said['FAIL']} | {said['INCONCLUSIVE']} | {said['PASS']} |")


if __name__ == "__main__":
    main(sys.argv[1:])
