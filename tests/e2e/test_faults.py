"""What happens when a part of the engine dies, hangs, or is stopped."""

import json
import re
import threading

import pytest
import requests

from tests.e2e.node import ROOT, Node, running


def said(node: Node, fault: str, seconds: float) -> str:
    """The kit's last word before the restart; shown with the seconds that the fault cost."""
    lines = [line for line in node.logs().splitlines() if "dflash-kit: the engine" in line]
    print(f"{fault}: serving again after {seconds:.1f} s; log: {lines[-1:]}")
    return "\n".join(lines[-1:])


ENDED, HUNG = "the engine ended by itself, by signal", "the engine is hung"
KILLED = {
    "sglang::scheduler": ENDED,
    "sglang::detokenizer": f"{ENDED}|{HUNG}",  # 0.5.11 ends with it, 0.5.17 stays and says nothing
    "sglang.launch_server": ENDED,
}


@pytest.mark.parametrize("process", KILLED)
def test_a_killed_process_is_served_again(victim: Node, process: str) -> None:
    before = victim.started_at
    victim.signal(process, "SIGKILL")
    seconds = victim.await_restart(before)
    assert re.search(KILLED[process], said(victim, f"{process} killed", seconds))


def test_a_hung_scheduler_is_ended_with_the_reason(victim: Node) -> None:
    before = victim.started_at
    victim.signal("sglang::scheduler", "SIGSTOP")
    seconds = victim.await_restart(before)
    assert HUNG in said(victim, "scheduler stopped", seconds)


def test_a_clean_stop_lets_the_running_request_end(victim: Node) -> None:
    body = {
        "text": "x",
        "stream": True,
        "sampling_params": {"max_new_tokens": 900, "temperature": 0, "ignore_eos": True},
    }
    answer = requests.post(
        f"{victim.url}/generate", json=body, headers=victim.headers(), stream=True, timeout=120
    )
    events = (
        line.removeprefix("data: ") for line in answer.iter_lines(decode_unicode=True) if line
    )
    assert json.loads(next(events))["meta_info"]["completion_tokens"] < 900
    stop = threading.Thread(target=victim.compose, args=("stop", "engine"))
    stop.start()
    *_, last, end = events
    stop.join()
    assert end == "[DONE]"
    assert json.loads(last)["meta_info"]["completion_tokens"] == 900
    assert victim.container.attrs["State"]["ExitCode"] == 0


def test_an_idle_stop_is_clean() -> None:
    with running("dflash-kit-e2e-stop", 30012) as node:
        node.compose("stop", "engine")
        assert node.container.attrs["State"]["ExitCode"] == 0


@pytest.mark.parametrize(
    ("variable", "value", "line"),
    [
        ("DFLASH_KIT_MEMORY", "600m", "profile cpu-tiny: memory: got 600 MiB"),
        ("DFLASH_KIT_PROFILE", "nope", "unknown profile 'nope'"),
    ],
)
def test_a_refused_start_says_why_and_ends(variable: str, value: str, line: str) -> None:
    node = Node("dflash-kit-e2e-refused", 30013, **{variable: value})
    try:
        done = node.run(ROOT / "scripts" / "start", check=False)
        assert done.returncode == 1
        assert f"dflash-kit: {line}" in done.stderr
        assert node.container.attrs["State"]["Running"] is False
    finally:
        node.down()
