"""measure_smoke.py [FOLDER]: what the smoke test and the bench say of one sound engine, repeatedly.

Twenty runs of the quick tier, six benches, each of an engine started anew (the last is held to the
first), and a short soak, of the default release's cpu image under docker compose. FOLDER
(docs/measurements/smoke) gets `healthy.json`, a line of each quick run, the benches' receipts and
the soak's; bench_noise.py reads the benches. It wants a machine that does nothing else. Run by
scripts/with-docker.
"""

import json
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

from dflash_kit.paths import ROOT

sys.path.insert(0, str(ROOT))

from tests.e2e.node import KIT, Node, running  # noqa: E402

OUT = ROOT / "docs/measurements/smoke"
SMOKES, BENCHES, SOAK_HOURS = 20, 6, 0.05


def main(out: Path) -> None:
    with (
        running("dflash-kit-measured", 30022) as node,
        tempfile.TemporaryDirectory() as folder,
    ):
        ask = Asked(node)
        runs = [told(ask(Path(folder, "receipt"), "smoke")) for _ in range(SMOKES)]
        (out / "healthy.json").write_text("[\n" + ",\n".join(map(json.dumps, runs)) + "\n]\n")
        print(f"quick tier: {Counter(run['verdict'] for run in runs)}")
        files = [out / f"bench-{number}.json" for number in range(1, BENCHES + 1)]
        for file in files:
            before = node.started_at
            node.compose("restart", "engine")
            node.await_restart(before)
            against = ["--against", str(files[0])] if file == files[-1] else []
            print(told(ask(file, "bench", *against)))
        soak = ["--tier", "soak", "--hours", str(SOAK_HOURS)]
        print(told(ask(out / "soak.json", "smoke", *soak)))


class Asked:
    """Commands of the kit to one node, each giving its receipt."""

    def __init__(self, node: Node) -> None:
        self._node = node

    def __call__(self, file: Path, command: str, *options: str) -> dict[str, Any]:
        begin = time.monotonic()
        done = self._node.run(KIT, command, *options, "--receipt", file, check=False)
        if not file.exists():
            sys.exit(f"{command} wrote no receipt: {done.stdout}{done.stderr}")
        whole = json.loads(file.read_text())
        return dict(whole, rc=done.returncode, whole_seconds=round(time.monotonic() - begin, 1))


def told(receipt: dict[str, Any]) -> dict[str, Any]:
    """Of a receipt what a table has room for; every check that is neither passed nor skipped."""
    checks = receipt["checks"]
    return {
        "verdict": receipt["verdict"],
        "rc": receipt["rc"],
        "seconds": receipt["seconds"],
        "whole_seconds": receipt["whole_seconds"],
        "counts": Counter(check["verdict"] for check in checks),
        "others": [check for check in checks if check["verdict"] not in ("PASS", "SKIP")],
        "accept_length": receipt["figures"].get("accept_length"),
    }


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else OUT)
