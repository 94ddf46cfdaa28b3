import json
import subprocess
from pathlib import Path

import pytest

from dflash_kit.rollout import start

MARK = "---dflash-kit---"
LOG = """\
/usr/lib/python3/x.py:1: UserWarning: nobody needs this
dflash-kit: serve: profile cpu-tiny
[2026-05-01 12:00:01] Load weight begin.
Traceback of a library
"""


def output(status: str, health: str | None, restarts: int = 0, log: str = LOG) -> str:
    state = {"Status": status, "Health": {"Status": health} if health else None}
    return f"{MARK}\n{json.dumps(state)} {restarts}\n{MARK}\n{log}"


@pytest.mark.parametrize(
    ("status", "health", "restarts", "ready", "ended", "stage"),
    [
        ("running", "healthy", 0, True, False, "running, healthy"),
        ("running", "starting", 0, False, False, "running, starting"),
        ("running", "unhealthy", 0, False, False, "running, unhealthy"),
        ("running", None, 0, False, False, "running, none"),
        ("created", "starting", 0, False, False, "created, starting"),
        ("exited", "unhealthy", 0, False, True, "exited, unhealthy"),
        ("exited", "healthy", 0, False, True, "exited, healthy"),
        ("dead", None, 0, False, True, "dead, none"),
        ("removing", None, 0, False, True, "removing, none"),
        ("restarting", "starting", 0, False, True, "restarting, starting"),
        ("running", "starting", 1, False, True, "restarted"),
    ],
)
def test_one_look_tells_ready_ended_or_neither(
    status: str, health: str | None, restarts: int, ready: bool, ended: bool, stage: str
) -> None:
    seen = start.read(output(status, health, restarts))
    assert (seen.ready, seen.ended, seen.stage) == (ready, ended, stage)


def test_the_line_is_the_engines_last_and_the_reasons_are_the_kits() -> None:
    seen = start.read(output("running", "starting"))
    assert seen.line == "[2026-05-01 12:00:01] Load weight begin."
    assert seen.reasons == ("dflash-kit: serve: profile cpu-tiny",)


def test_what_a_host_prints_first_is_left_out() -> None:
    text = output("running", "healthy")
    assert start.read("Connection to gpu-01 closed. {}\n" + text) == start.read(text)


def test_only_the_last_three_reasons_and_a_line_that_fits_are_kept() -> None:
    log = "".join(f"dflash-kit: {number} {'x' * 200}\n" for number in range(5))
    seen = start.read(output("running", "starting", log=log))
    assert [reason[:13] for reason in seen.reasons] == [f"dflash-kit: {n}" for n in (2, 3, 4)]
    assert seen.line == log.splitlines()[-1][:110]


def test_a_log_that_tells_nothing_is_said_to() -> None:
    assert start.read(output("running", "starting", log="warning\n")).line == "nothing yet"


@pytest.mark.parametrize(
    "text",
    [
        "",
        f"{MARK}\n",
        f"{MARK}\n\n{MARK}\nError: No such container\n",
        f'{MARK}\n{{"Status": "run',
        f"{MARK}\n3 0\n{MARK}\n",
        f"{MARK}\n{{}} 0\n{MARK}\n",
        f'{MARK}\n{{"Status": "running", "Health": 3}} 0\n{MARK}\n',
        f"{MARK}\n[]\n{MARK}\n",
        f"{MARK}\nCannot connect to the Docker daemon\n{MARK}\n",
    ],
)
def test_what_is_no_container_is_neither_ready_nor_ended(text: str) -> None:
    seen = start.read(text)
    assert (seen.ready, seen.ended, seen.stage) == (False, False, "container not seen")


def test_a_refusal_says_how_it_ended_and_what_the_engine_said() -> None:
    ended = start.read(output("exited", "unhealthy", log="dflash-kit: no draft\ndflash-kit: end\n"))
    assert start.refusal("gpu-01", ended, 12.4, 600) == (
        "gpu-01: the engine ended (exited, unhealthy) after 12 s, wanted a token within 600 s; "
        "it said: dflash-kit: no draft; dflash-kit: end"
    )
    late = start.read(output("running", "starting", log="[2026-05-01] Capture\n"))
    assert start.refusal("gpu-01", late, 601, 600) == (
        "gpu-01: the engine generated nothing in 601 s, wanted a token within 600 s; "
        "it said: [2026-05-01] Capture"
    )


DOCKER = """\
#!/bin/bash
case $1 in
  ps) printf '%s\\n' "$@" > "${0%/*}/asked"; cat "${0%/*}/ids" ;;
  inspect) [[ $4 == c1 ]] || { echo "no such object" >&2; exit 1; }
    echo '{"Status": "running", "Health": {"Status": "healthy"}} 0' ;;
  logs) [[ $4 == c1 ]] && echo 'dflash-kit: serve' || { echo "no container" >&2; exit 1; } ;;
esac
"""


@pytest.mark.parametrize(("ids", "ready"), [("c1\nc2\n", True), ("", False)])
def test_the_command_prints_what_read_takes(tmp_path: Path, ids: str, ready: bool) -> None:
    (tmp_path / "docker").write_text(DOCKER)
    (tmp_path / "docker").chmod(0o755)
    (tmp_path / "ids").write_text(ids)
    done = subprocess.run(
        ["/bin/sh", "-c", start.command("pro ject", "engine-gpu")],
        env={"PATH": f"{tmp_path}:/usr/bin:/bin"},
        stdout=subprocess.PIPE,
        text=True,
    )
    seen = start.read(done.stdout)
    assert seen.ready == ready
    assert seen.reasons == (("dflash-kit: serve",) if ready else ())
    asked = (tmp_path / "asked").read_text().splitlines()
    assert "label=com.docker.compose.project=pro ject" in asked
    assert "label=com.docker.compose.service=engine-gpu" in asked
    assert "label=com.docker.compose.oneoff=False" in asked


def test_what_serve_prints_before_a_start_is_no_reason() -> None:
    plan = "dflash-kit: release: 0.5.11-dflash.2\ndflash-kit: environment: A=1\n"
    log = f"{plan}dflash-kit: the engine was not ready after 20 s\n{plan}"
    seen = start.read(output("running", "starting", 1, log))
    assert seen.reasons == ("dflash-kit: the engine was not ready after 20 s",)
