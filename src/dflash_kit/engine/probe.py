#!/usr/bin/python3 -ISB
"""Can the engine generate a token? The container's health check and the supervisor's one question.

Run as `python3 -ISB probe.py KEY_FILE [PORT] [SECONDS]`: exit 0 only if it can, else one line says
why not. A container runs it every 2 s while the engine loads, so it imports almost nothing.

The answer is yes if the engine generates one token for a request with the user key. Where that
request has to wait, the engine may merely be full: then /health_generate is asked as well, which
answers 200 as soon as the scheduler has finished any batch since. So neither a full queue nor a
long prompt (prefilled in chunks, each a batch) is taken for a hang.
"""

import sys
from _socket import socket  # not `socket`: it and what it imports would triple the start
from select import select
from time import monotonic

DEFAULT_PORT = 30000
DEFAULT_SECONDS = 8.0
# An idle engine answers in milliseconds; after this long the request is waiting behind others.
PATIENCE_SECONDS = 2.0

_BODY = '{"input_ids":[1],"sampling_params":{"max_new_tokens":1,"temperature":0,"ignore_eos":true}}'


def probe(port: int, key: str, seconds: float = DEFAULT_SECONDS) -> str | None:
    """None if the engine on `port` generates within `seconds`, else one line that says why not."""
    deadline = monotonic() + seconds
    received: dict[socket, bytes] = {}
    try:
        token = _ask(port, "POST", "/generate", key, _BODY)
        received[token] = b""
        answered = _answered([token], received, min(deadline, monotonic() + PATIENCE_SECONDS))
        if not answered or _busy(received[token]):
            health = _ask(port, "GET", "/health_generate", key, "")
            received[health] = b""
            waiting = [health] if answered else [token, health]
            answered = _answered(waiting, received, deadline)
            if answered is token and _busy(received[token]):  # its queue is full: one hope is left
                answered = _answered([health], received, deadline)
    except OSError as error:
        return f"port {port}: {error}"
    finally:
        for each in received:
            each.close()
    if not answered:
        return f"no token and no finished batch in {seconds:g} s"
    answer = received[answered]
    if b" 200 " not in _status(answer):
        return f"cannot generate: {_text(answer)}"
    return _judge_token(answer) if answered is token else None


def _ask(port: int, method: str, path: str, key: str, body: str) -> socket:
    connection = socket()
    connection.settimeout(PATIENCE_SECONDS)
    try:
        connection.connect(("127.0.0.1", port))
        connection.send(
            f"{method} {path} HTTP/1.0\r\nHost: localhost\r\nAuthorization: Bearer {key}\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode()
        )
    except OSError:
        connection.close()
        raise
    return connection


def _answered(
    waiting: list[socket], received: dict[socket, bytes], deadline: float
) -> socket | None:
    """The first of `waiting` whose whole answer is in `received`; None if `deadline` is first."""
    while (left := deadline - monotonic()) > 0:
        for each in select(waiting, [], [], left)[0]:
            part = each.recv(65536)
            received[each] += part
            if not part:  # HTTP/1.0: the end of the connection is the end of the answer
                received[each] = received[each] or b"nothing at all"
                return each
    return None


def _busy(answer: bytes) -> bool:
    return b" 503 " in _status(answer)


def _judge_token(answer: bytes) -> str | None:
    if b'"completion_tokens":1' not in answer.replace(b" ", b""):
        return "cannot generate: the answer holds no token"
    return None


def _status(answer: bytes) -> bytes:
    return answer.split(b"\r\n", 1)[0]


def _text(answer: bytes) -> str:
    return _status(answer).decode(errors="replace")


def main(arguments: list[str]) -> str | None:
    """Read KEY_FILE [PORT] [SECONDS] and probe."""
    port = int(arguments[1]) if len(arguments) > 1 else DEFAULT_PORT
    seconds = float(arguments[2]) if len(arguments) > 2 else DEFAULT_SECONDS
    try:
        with open(arguments[0]) as file:
            key = file.read().strip()
    except (OSError, IndexError) as error:
        return f"no user key yet: {error}"
    return probe(port, key, seconds)


if __name__ == "__main__":
    if problem := main(sys.argv[1:]):
        sys.exit(f"cannot serve: {problem}")
