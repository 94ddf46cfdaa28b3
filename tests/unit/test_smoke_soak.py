"""The soak ends at the first wrong thing; stopped by hand, it says what was seen until then."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from fake_engine import KEYS, FakeEngine
from fake_engine_http import serving
from fake_faults import Fault
from fake_state import FakeContainer

from dflash_kit.smoke import soak
from dflash_kit.smoke.checks import Tier
from dflash_kit.smoke.client import Engine
from dflash_kit.smoke.suite import Suite
from dflash_kit.smoke.wanted import Wanted

HOUR = 3600
LONG = 60 / HOUR
COMMAND = Path(sys.executable).parent / "dflash-kit"


@pytest.fixture(autouse=True)
def short_phases(monkeypatch):
    monkeypatch.setattr(soak, "PHASE_SECONDS", 0.3)


def run(fault, hours=LONG, seconds=10.0, said=None):
    with serving(FakeEngine(fault)) as fake:
        suite = Suite(Engine(fake.url, KEYS, "a test", seconds), Wanted(fake.lock), Tier.SOAK)
        suite.container, suite.hours = FakeContainer(fake), hours
        suite.say = (said if said is not None else []).append
        return soak.run(suite, fake.known)


def test_soak_of_a_good_engine_counts_what_it_did():
    said = []
    result = run(Fault.NONE, 2 / HOUR, said=said)
    assert (result.problem, result.interrupted) == ("", False)
    assert result.requests > 10
    assert result.steps > 2 * soak.LEAST_STEPS_S
    assert 2 <= result.seconds < 10
    assert len(said) >= 2 and "steps" in said[-1] and "of 0.000555556 h" in said[-1]


@pytest.mark.parametrize(
    ("fault", "problem"),
    [
        (Fault.WRONG_IDS, "a greedy answer is not the reference's"),
        (Fault.LOOPS, "token 7 "),
        (Fault.SOME_500, "/generate answered 500"),
        (Fault.CRASHES_AFTER_MANY, "no answer (ConnectionError)"),
        (Fault.RESTARTED, "restarted: 1 times, before 0"),
        (Fault.PROCESS_DIES, "sglang::detokenizer (16) has ended"),
    ],
)
def test_soak_ends_at_the_first_wrong_thing(fault, problem):
    started = time.monotonic()
    result = run(fault)
    assert problem in result.problem
    assert time.monotonic() - started < LONG * HOUR / 2


def test_soak_ends_at_an_engine_that_hangs():
    assert run(Fault.HANGS, seconds=1.0).problem == "no answer within 1 s"


def samples(*mib):
    return [(float(at * 60), float(value)) for at, value in enumerate(mib)]


def test_what_fills_at_first_does_not_creep():
    assert soak.creep(samples(100, 900, 1400, 1490, *[1500, 1502, 1499, 1501] * 6)) == ""


def test_a_few_samples_prove_no_creeping():
    assert soak.creep(samples(100, 900, 1400)) == ""


def test_steady_growth_creeps():
    found = soak.creep(samples(*range(1000, 1400, 10)))
    assert found.startswith("grew by 290 MiB, 600 MiB an hour")


def test_ctrl_c_ends_with_a_receipt(tmp_path):
    """Whatever was seen until then is worth keeping, and is no PASS."""
    for role in ("user", "admin"):
        (tmp_path / role).write_text(getattr(KEYS, role))
        (tmp_path / role).chmod(0o600)
    file = tmp_path / "receipt.json"
    keys = ["--key-file", tmp_path / "user", "--admin-key-file", tmp_path / "admin"]
    with serving(FakeEngine()) as fake:
        command = [COMMAND, "smoke", "--url", fake.url, "--tier", "soak", "--hours", "1"]
        running = subprocess.Popen(
            [str(part) for part in [*command, "--outside", "--receipt", file, *keys]],
            env={**os.environ, "COLUMNS": "200"},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            # Background jobs of a shell ignore it, and so would what they start.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )
        begun = next(line for line in running.stderr if line.startswith("soak "))
        running.send_signal(signal.SIGINT)
        out, _ = running.communicate(timeout=300)
    assert re.match(r"soak 0:00:00 of 1 h, 1 at a time, 0 requests, 0 steps", begun)
    assert running.returncode == 3, out
    found = {check["code"]: check for check in json.loads(file.read_text())["checks"]}
    assert found["soak"]["verdict"] == "INCONCLUSIVE"
    assert found["soak"]["measured"].startswith("interrupted; ")
    assert found["alive-at-end"]["verdict"] == "PASS"
