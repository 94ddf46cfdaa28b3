"""What an engine that is starting says of itself, read from its container."""

from __future__ import annotations

import json
import re
import shlex
from dataclasses import dataclass

# Warnings of libraries say nothing about the progress; the engine's lines begin with their time.
_TELLING = re.compile(r"^(\[20|dflash-kit: )")
# What serve prints before every start is no reason for anything.
_PLAN = re.compile(r"^dflash-kit: (release|patches|tree|profile|point|port|command|environment): ")
_LINE_LENGTH = 110
_TAIL = 60
_MARK = "---dflash-kit---"


@dataclass(frozen=True)
class Seen:
    """One look: `stage` in a word or two, `line` the engine's last telling one."""

    ready: bool
    ended: bool
    stage: str
    line: str
    reasons: tuple[str, ...]


def command(project: str, service: str) -> str:
    """A shell command whose output read() takes."""
    filters = f"label=com.docker.compose.project={project}"
    return (
        f"id=$(docker ps --all --quiet --filter {shlex.quote(filters)} "
        f"--filter label=com.docker.compose.service={shlex.quote(service)} "
        "--filter label=com.docker.compose.oneoff=False | head -n 1); "
        f"echo {_MARK}; "
        "docker inspect --format '{{json .State}} {{.RestartCount}}' \"$id\"; "
        f'echo {_MARK}; docker logs --tail {_TAIL} "$id" 2>&1'
    )


def read(output: str) -> Seen:
    """The output of command(), whatever it holds."""
    # What a host's sshd prints on a terminal comes first.
    _, _, rest = output.partition(_MARK)
    head, _, log = rest.partition(_MARK)
    telling = [line for line in log.splitlines() if _TELLING.match(line)]
    own = tuple(
        line for line in telling if line.startswith("dflash-kit: ") and not _PLAN.match(line)
    )[-3:]
    line = telling[-1][:_LINE_LENGTH] if telling else "nothing yet"
    try:
        state, restarts = json.JSONDecoder().raw_decode(head.strip())
        status = str(state["Status"])
        health = (state.get("Health") or {}).get("Status", "none")
    except (ValueError, LookupError, TypeError, AttributeError):  # cut off, or an error's text
        return Seen(False, False, "container not seen", line, own)
    restarted = head.strip()[restarts:].strip() not in ("", "0")
    ended = restarted or status in ("exited", "dead", "removing", "restarting")
    stage = "restarted" if restarted else f"{status}, {health}"
    return Seen(status == "running" and health == "healthy", ended, stage, line, own)


def refusal(host: str, seen: Seen, seconds: float, limit: float) -> str:
    """Why the wait ended badly, one line."""
    what = (
        f"the engine ended ({seen.stage}) after {seconds:.0f} s"
        if seen.ended
        else f"the engine generated nothing in {seconds:.0f} s"
    )
    said = "; ".join(seen.reasons) or seen.line
    return f"{host}: {what}, wanted a token within {limit:.0f} s; it said: {said}"
