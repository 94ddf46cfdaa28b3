"""Sizes and build times of every release's image in both variants: images.json, and a table of it.

Reads the images that Docker has and the logs in build/logs, which `--build` writes: it builds each
image that is named, with `--no-cache` from nothing. What is not there is left as an earlier run saw
it, and named at the end.
"""

import json
import subprocess
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import docker
from docker.errors import ImageNotFound
from of_releases import Parser

from dflash_kit import paths
from dflash_kit.releases import build_log, lockfile

LOGS = paths.ROOT / "build" / "logs"


def build(release: str, variant: str, log: Path, no_cache: bool) -> None:
    """Build an image, its output shown and kept; ends the script where that fails."""
    command = [str(paths.ROOT / "scripts/image"), variant, release, "--progress", "plain"]
    log.parent.mkdir(parents=True, exist_ok=True)
    begin = time.monotonic()
    with log.open("w") as kept:
        running = subprocess.Popen(
            [*command, *["--no-cache"] * no_cache],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        assert running.stdout
        for line in running.stdout:
            print(line, end="", file=sys.stderr)
            kept.write(line)
        if running.wait() != 0:
            sys.exit(f"measure_images: {release} {variant} was not built; its log: {log}")
        kept.write(build_log.TOTAL.format(time.monotonic() - begin) + "\n")


def measured(release: str, variant: str, log: Path) -> dict[str, Any] | None:
    """An image's figures; None where Docker has none of it."""
    try:
        image = docker.from_env().images.get(f"dflash-kit/engine:{release}-{variant}")
    except ImageNotFound:
        return None
    found = {"bytes": image.attrs["Size"], "layers": len(image.attrs["RootFS"]["Layers"])}
    found["id"] = image.id
    return found | ({"build": asdict(build_log.read(log.read_text()))} if log.is_file() else {})


def table(result: dict[str, dict[str, Any]]) -> str:
    """images.md."""
    lines = [
        "<!-- By scripts/measure_images.py, from images.json: never edited. -->\n",
        "# Images: their size, and how long a build took\n",
        "| release | variant | GB | layers | build s | steps from the cache |",
        "|---|---|---|---|---|---|",
    ]
    for release, variants in result.items():
        for variant, seen in variants.items():
            built = seen.get("build")
            seconds = built and built["seconds"]
            cells = [release, variant, f"{seen['bytes'] / 1e9:.2f}", str(seen["layers"])]
            cells.append(f"{seconds:.0f}" if seconds else "not measured")
            cells.append(f"{built['cached']} of {built['steps']}" if built else "-")
            lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = Parser(__doc__)
    parser.add_argument("--variant", choices=lockfile.VARIANTS, help="default: both")
    parser.add_argument("--build", action="store_true", help="build them first, and time that")
    parser.add_argument("--no-cache", action="store_true", help="with --build: from nothing")
    parser.add_argument("--logs", type=Path, default=LOGS, help="RELEASE-VARIANT.log, by name")
    given = parser.chosen()
    file, missing = given.out / "images.json", []
    # What an earlier run saw of other images stays.
    result: dict[str, Any] = json.loads(file.read_text()) if file.is_file() else {}
    for release in given.releases:
        for variant in [given.variant] if given.variant else lockfile.VARIANTS:
            log = given.logs / f"{release}-{variant}.log"
            if given.build:
                build(release, variant, log, given.no_cache)
            if seen := measured(release, variant, log):
                result.setdefault(release, {})[variant] = seen
            else:
                missing.append(f"{release}-{variant}")
    given.out.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(result, indent=1) + "\n")
    (given.out / "images.md").write_text(table(result))
    print(table(result))
    if missing:
        print(f"measure_images: not built: {', '.join(missing)}; next: --build", file=sys.stderr)


if __name__ == "__main__":
    main()
