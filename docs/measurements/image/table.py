"""Print what measure.py wrote as tables: python docs/measurements/image/table.py RELEASE"""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from dflash_kit.releases.architectures import Architecture

HERE = Path(__file__).parent
CARDS = ("9.0", "10.3", "12.0")
PARTS = {
    "/split/nvidia": "nvidia",
    "/split/torch": "torch",
    "/opt/venv": "other wheels",
    "/opt/sglang": "sglang",
    "/kernels": "kernels",
}


def table(head: list[str], rows: Iterator[list[str]]) -> None:
    for row in (head, ["---"] * len(head), *rows):
        print(f"| {' | '.join(row)} |")
    print()


def held(libraries: dict[str, Any]) -> Iterator[list[str]]:
    """Library, its size, and for each card the code that it would run: its own first."""
    for name, row in sorted(libraries.items(), key=lambda item: -item[1]["bytes"]):
        codes = [Architecture.named(code) for code in row["codes"]]
        fits = [[c for c in codes if c.runs_on(card)] for card in CARDS]
        runs = [
            str(max(each, key=lambda c: (not c.ptx, c.number, c.suffix))) if each else "-"
            for each in fits
        ]
        yield [f"{row['bytes'] / 1e6:.1f}", name, " ".join(row["codes"]), *runs]


def sizes(builds: list[dict[str, Any]]) -> Iterator[list[str]]:
    """What a build is for, its seconds and size, and the size of each part, in GB."""
    for build in builds:
        parts = dict.fromkeys([*PARTS.values(), "the rest"], 0)
        for size, made in build["layers"]:
            part = next((name for path, name in PARTS.items() if f"{path} /" in made), "the rest")
            parts[part] += size
        whole = f"{build['bytes'] / 1e9:.2f}"
        split = [f"{size / 1e9:.2f}" for size in parts.values()]
        yield [build["capabilities"] or "every card", str(build["seconds"]), whole, *split]


def read(name: str) -> Any:
    return json.loads((HERE / name).read_text())


def main() -> None:
    release = sys.argv[1]
    head = ["CAPABILITIES", "build, s", "GB", *PARTS.values(), "the rest"]
    table(head, sizes(read(f"sizes-{release}.json")))
    head = ["MB", "library", "code for", *(f"runs on {card}" for card in CARDS)]
    for name in (f"architectures-{release}", "sglang-kernel-0.4.5", "sglang-kernel-0.4.10"):
        print(f"{name}.json:\n")
        table(head, held(read(f"{name}.json")))


if __name__ == "__main__":
    main()
