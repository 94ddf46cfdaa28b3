"""Build the cuda variant for every card and for each alone, and look into it: raw JSON beside this.

scripts/with-docker python docs/measurements/image/measure.py RELEASE
"""

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
CARDS = ("", "12.0", "10.3", "9.0")
PACKAGES = "/opt/venv/lib/python3.11/site-packages"
LOOK = ["run", "--rm", "--network=none", "--entrypoint=python3"]


def docker(*words: str) -> str:
    return subprocess.run(["docker", *words], check=True, capture_output=True, text=True).stdout


def build(release: str, capabilities: str) -> tuple[str, float]:
    """An image's tag, and the seconds of its build with what the builder still had."""
    tag = f"dflash-kit/measured:{capabilities or 'all'}"
    options = ["--set", f"*.args.CAPABILITIES={capabilities}", "--set", f"*.tags={tag}"]
    started = time.monotonic()
    subprocess.run([ROOT / "scripts/image", "cuda", release, *options], check=True)
    return tag, time.monotonic() - started


def measured(release: str, capabilities: str) -> dict[str, Any]:
    """One build: how long it took, how large it is, and its layers, the newest first."""
    tag, seconds = build(release, capabilities)
    history = docker("history", "--no-trunc", "--human=false", "--format", "{{json .}}", tag)
    layers = [json.loads(line) for line in history.splitlines()]
    return {
        "capabilities": capabilities,
        "seconds": round(seconds),
        "bytes": int(docker("image", "inspect", "--format", "{{.Size}}", tag)),
        "layers": [[int(x["Size"]), x["CreatedBy"][:100]] for x in layers if x["Size"] != "0"],
    }


def write(name: str, content: Any) -> None:
    (HERE / name).write_text(json.dumps(content, indent=1) + "\n")


def main() -> None:
    release, *again = sys.argv[1:]
    file = HERE / f"sizes-{release}.json"
    builds = {x["capabilities"]: x for x in json.loads(file.read_text())} if again else {}
    if not again:
        tag, _ = build(release, "")
        look = ["-m", "dflash_kit.releases.architectures", PACKAGES]
        write(f"architectures-{release}.json", json.loads(docker(*LOOK, tag, *look)))
    for capabilities in again or CARDS:
        builds[capabilities] = measured(release, capabilities)
        write(file.name, list(builds.values()))


if __name__ == "__main__":
    main()
