"""The releases side by side on this machine: exactness, start, memory, and speed in alternation.

Writes compare.json, with what the smoke test says and every round, and compare.md, a table of it.
Each release's cpu image runs by itself for the smoke test, with DFlash and without. Then all run at
once and are asked in turn, so that whatever else the machine does falls on all alike: the ratios
are the result, the absolute figures are this machine's.
"""

import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench import alternating, side
from of_releases import Parser

from dflash_kit import paths
from dflash_kit.smoke.speed_gate import LEAST_ROUNDS
from tests.e2e.node import KIT, Node, running

POINTS = ("latency", "throughput")
EXACT = ("known-answers", "known-answers-stream", "exact-c1", "exact-c4")
PORT = 30030
CONCURRENCIES = (1, 4)
SHORT_ROUNDS = 2
_READY = re.compile(r"ready: generated a token ([\d.]+) s after the start")


def proved(node: Node, release: str, point: str) -> dict[str, Any]:
    """The receipt of the smoke test, which may have failed."""
    with tempfile.TemporaryDirectory() as folder:
        keys = [node.key_file(name, Path(folder)) for name in ("user", "admin")]
        command: list[str | Path] = [
            KIT,
            "smoke",
            "--json",
            "--url",
            node.url,
            "--release",
            release,
        ]
        command += ["--key-file", keys[0], "--admin-key-file", keys[1], "--point", point]
        done = node.run(*command, check=False)
    try:
        return dict(json.loads(done.stdout))
    except ValueError:
        sys.exit(f"compare: {release}, {point}: {done.stderr.strip()}")


def resident_mib(node: Node) -> float:
    """What the container's processes hold in memory, files left out."""
    told: Any = node.container.stats(stream=False)
    stats = told["memory_stats"]["stats"]
    # cgroup v2 says anon, v1 rss.
    return float(stats.get("anon", stats.get("rss"))) / (1 << 20)


def alone(release: str, point: str) -> dict[str, Any]:
    """One release by itself: its start, its memory, what the smoke test says."""
    print(f"compare: {release}, {point}, by itself", file=sys.stderr)
    variables = {"DFLASH_KIT_RELEASE": release, "DFLASH_KIT_POINT": point}
    with running("dflash-kit-compare", PORT, **variables) as node:
        started = _READY.search(node.logs())
        idle = resident_mib(node)
        receipt = proved(node, release, point)
        checks = {check["code"]: check for check in receipt["checks"]}
        return {
            "verdict": receipt["verdict"],
            "exact": {
                code: f"{checks[code]['verdict']}: {checks[code]['measured']}" for code in EXACT
            },
            "accept_length": receipt["figures"].get("accept_length"),
            "start_s": float(started[1]) if started else None,
            "idle_mib": round(idle),
            "after_smoke_mib": round(resident_mib(node)),
            "smoke_s": round(receipt["seconds"], 1),
            "failed": [c["code"] for c in receipt["checks"] if c["verdict"] == "FAIL"],
        }


def speeds(releases: list[str], point: str, counted: int) -> dict[str, Any]:
    """Speed by concurrency and release, and its ratio to the first release, round by round."""
    print(f"compare: {point}, all at once", file=sys.stderr)
    found: dict[str, Any] = {}
    with ExitStack() as stack:
        sides = {
            release: stack.enter_context(
                side(
                    f"compare-{number}",
                    PORT + 1 + number,
                    DFLASH_KIT_RELEASE=release,
                    DFLASH_KIT_POINT=point,
                )
            )
            for number, release in enumerate(releases)
        }
        for concurrency in CONCURRENCIES:
            measured = alternating(sides, concurrency, counted)
            first = [each.tok_s for each in measured[releases[0]].rounds]
            found[f"c{concurrency}"] = {
                release: {
                    "tok_s": round(speed.tok_s, 1),
                    "noise": round(speed.noise, 3),
                    "accept_length": speed.accept_length,
                    "failed": speed.failed,
                    "ratio": round(
                        statistics.median(
                            each.tok_s / base
                            for each, base in zip(speed.rounds, first, strict=True)
                        ),
                        3,
                    ),
                    "rounds": [each.model_dump() for each in speed.rounds],
                }
                for release, speed in measured.items()
            }
    return found


def table(result: dict[str, Any]) -> str:
    """compare.md."""
    machine = ", ".join(f"{key} {value}" for key, value in result["machine"].items())
    counted = f"{result['rounds']} round{'s' * (result['rounds'] > 1)} each, in alternation"
    lines = [
        "<!-- By scripts/compare_releases.py, from compare.json: never edited. -->\n",
        "# The releases side by side on a CPU\n",
        f"{result['time']}, {machine}. Variant cpu, profile cpu-tiny; {counted}"
        f"{'; a short run, its speeds say little' if result['short'] else ''}. The ratio is to the "
        "first release, a median of rounds. Not run on a GPU.\n",
        "| release | point | smoke | exact at C=1 | at C=4 | acceptance | start s | idle MiB | "
        + " | ".join(f"C={c} tok/s | ratio" for c in CONCURRENCIES)
        + " |",
        "|" + "---|" * (8 + 2 * len(CONCURRENCIES)),
    ]
    for release, points in result["releases"].items():
        for point, seen in points.items():
            exact = [seen["exact"][code].partition(": ")[2] for code in ("exact-c1", "exact-c4")]
            accept = seen["accept_length"]
            cells = [release, point, seen["verdict"], *exact]
            cells += ["-" if accept is None else f"{accept:.2f}", str(seen["start_s"])]
            cells.append(str(seen["idle_mib"]))
            for concurrency in CONCURRENCIES:
                speed = result["speed"][point][f"c{concurrency}"][release]
                cells += [f"{speed['tok_s']} ±{speed['noise']:.0%}", str(speed["ratio"])]
            lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def main() -> int:
    """1 where a release fails its smoke test."""
    parser = Parser(__doc__)
    parser.add_argument("--short", action="store_true", help="two rounds instead of seven")
    given = parser.chosen()
    begin, counted = time.monotonic(), SHORT_ROUNDS if given.short else LEAST_ROUNDS
    for release in given.releases:
        subprocess.run([paths.ROOT / "scripts/image", "cpu", release], check=True)
    releases = {
        release: {point: alone(release, point) for point in POINTS} for release in given.releases
    }
    speed = {point: speeds(given.releases, point, counted) for point in POINTS}
    result = {
        "time": f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC",
        "machine": {"cores": os.cpu_count(), "load": round(os.getloadavg()[2], 1)},
        "short": given.short,
        "rounds": counted,
        "seconds": round(time.monotonic() - begin),
        "releases": releases,
        "speed": speed,
    }
    given.out.mkdir(parents=True, exist_ok=True)
    (given.out / "compare.json").write_text(json.dumps(result, indent=1) + "\n")
    (given.out / "compare.md").write_text(table(result))
    print(table(result))
    bad = [r for r, points in releases.items() if any(x["failed"] for x in points.values())]
    if bad:
        print(f"compare: failed its smoke test: {', '.join(bad)}", file=sys.stderr)
    return int(bool(bad))


if __name__ == "__main__":
    sys.exit(main())
