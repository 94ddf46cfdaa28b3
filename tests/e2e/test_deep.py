"""The deep tier's real processes, in the cpu image over loopback instead of between GPUs."""

import json

import docker
import pytest

from tests.e2e.node import image

RUN = """
import json
from dflash_kit.host import deep
ranks = deep.run_ranks(3, "gloo", deadline={deadline}, repeats=1)
print(json.dumps([record.model_dump(mode="json") for record in deep.judge(ranks)]))
"""
# A module in front of the rank's own, which changes what one rank does.
FAULTS = {
    "hangs": "import time; dist.all_reduce = lambda _: time.sleep(600)",
    "wrong": "real = dist.all_reduce; dist.all_reduce = lambda x: (real(x), x[7:8].add_(1))",
    "ends": "dist.all_reduce = lambda _: 1 / 0",
}


def judged(fault: str = "", deadline: float = 240.0) -> dict[str, dict[str, str]]:
    script = "set -e; cd /tmp; "
    if fault:
        code = (
            f"import sys\nif sys.argv[2:3] == ['1']:\n import torch.distributed as dist; {fault}\n"
        )
        script += f"cat > sitecustomize.py <<'PY'\n{code}PY\n"
    script += f"PYTHONPATH=/tmp python3 -c '{RUN.format(deadline=deadline)}'"
    said = docker.from_env().containers.run(
        image("cpu"), ["-c", script], entrypoint=["sh"], read_only=True, tmpfs={"/tmp": ""},
        remove=True, environment={"OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    return {record["code"]: record for record in json.loads(said.decode().splitlines()[-1])}


def test_healthy() -> None:
    records = judged()
    assert records["all-reduce"]["verdict"] == "PASS", records
    # How fast each pair is, is noise here; that its data were right is not.
    assert "6 of 6 pairs" in records["pair-bandwidth"]["measured"], records
    assert records["pair-bandwidth"]["verdict"] in ("PASS", "WARN"), records


@pytest.mark.parametrize(
    ("fault", "deadline", "shown"),
    [
        ("hangs", 60.0, "hung in 6"),
        ("wrong", 240.0, "wrong sums on ranks [1]"),
        ("ends", 240.0, "ZeroDivisionError"),
    ],
)
def test_faults(fault: str, deadline: float, shown: str) -> None:
    record = judged(FAULTS[fault], deadline)["all-reduce"]
    assert record["verdict"] == "FAIL"
    assert shown in record["measured"], record
