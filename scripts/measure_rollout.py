"""measure_rollout.py [OUT]: where the time of a rollout goes, on the two hosts of the tests.

A first deploy, one with nothing to do, an upgrade, and one back whose image is there already; the
seconds of every task by Ansible's profile_tasks. OUT (docs/measurements/rollout/times.json) gets
them; a table is printed. Run by scripts/with-docker, from the project's root.
"""

import json
import os
import re
import sys
import tempfile
from collections import defaultdict
from pathlib import Path
from typing import Any

from dflash_kit.paths import ROOT

sys.path.insert(0, str(ROOT))

from tests.e2e.fleet.fleet import Fleet  # noqa: E402
from tests.e2e.fleet.play import Play  # noqa: E402
from tests.e2e.rollout import FIRST, SECOND, Rollout  # noqa: E402

OUT = ROOT / "docs/measurements/rollout/times.json"
STEPS = {
    "first deploy": FIRST,
    "again, nothing to do": FIRST,
    "upgrade": SECOND,
    "back, the image is there": FIRST,
}
# The engine's own: its start until it generates, and what the smoke suite asks of it.
ENGINE = (
    "engine : Ensure that the engine generates",
    "smoke : Ensure that the smoke suite has run",
)
_TASK = re.compile(r"^(\S.*?) -+ ([\d.]+)s$", re.MULTILINE)


def main(out: Path) -> None:
    os.environ["ANSIBLE_CALLBACKS_ENABLED"] = "dflash_kit_fleet,ansible.posix.profile_tasks"
    os.environ["PROFILE_TASKS_TASK_OUTPUT_LIMIT"] = "all"
    fleet, found = Fleet(), {}
    try:
        fleet.up()
        with tempfile.TemporaryDirectory() as folder:
            rollout = Rollout(fleet, Path(folder))
            for step, release in STEPS.items():
                os.environ["PYTEST_CURRENT_TEST"] = f"::{step}"
                found[step] = times(rollout.deploy(release), len(fleet.hosts))
    finally:
        fleet.down()
    out.write_text(json.dumps(found, indent=1) + "\n")
    print("| deploy of two hosts | s | engine's start and smoke test, a host | the rest, a host |")
    print("|---|---|---|---|")
    for step, each in found.items():
        print(
            f"| {step} | {each['seconds']} | {each['engine_per_host']} | {each['rest_per_host']} |"
        )


def times(done: Play, hosts: int) -> dict[str, Any]:
    """Seconds of a play, of the engine's own tasks and of all else, and of each task."""
    if done.rc != 0:
        sys.exit(done.out)
    tasks: dict[str, float] = defaultdict(float)
    for name, seconds in _TASK.findall(done.out):
        tasks[name] += float(seconds)
    engine = sum(tasks.get(name, 0.0) for name in ENGINE)
    return {
        "seconds": round(done.seconds, 1),
        "engine_per_host": round(engine / hosts, 1),
        "rest_per_host": round((done.seconds - engine) / hosts, 1),
        "tasks": {name: round(s, 2) for name, s in sorted(tasks.items(), key=lambda t: -t[1])},
    }


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else OUT)
