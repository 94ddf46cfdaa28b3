"""The probe as the health check runs it: a process of its own against a real socket."""

import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from dflash_kit.engine import probe

TOKEN = b'{"text": "x", "meta_info": {"completion_tokens": 1}}'
# How long a late answer of /generate stands before that of /health_generate.
LEAD_SECONDS = 0.5
NO_TOKEN = b'{"text": "", "meta_info": {"completion_tokens": 0}}'


@contextmanager
def engine(
    generate: tuple[int, bytes] | None, health: int | None, *, late: bool = False
) -> Iterator[int]:
    """A port whose /generate and /health_generate answer so; None: they never do.

    `late`: /generate answers once /health_generate is asked, which answers after it.
    """
    never, asked, answered = threading.Event(), threading.Event(), threading.Event()

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            pass

        def _answer(self, status: int, body: bytes) -> None:
            self.send_response(status)
            self.end_headers()
            self.wfile.write(body)

        def do_GET(self) -> None:
            asked.set()
            if late:
                answered.wait()
            if health is None:
                never.wait()
            else:
                self._answer(health, b"")

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            if self.headers["Authorization"] != "Bearer right":
                self._answer(401, b"")
            elif generate is None:
                never.wait()
            else:
                if late:
                    asked.wait()
                self._answer(*generate)
                self.connection.shutdown(socket.SHUT_WR)
                time.sleep(LEAD_SECONDS if late else 0)
                answered.set()

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield server.server_address[1]
    finally:
        never.set()
        server.shutdown()
        server.server_close()


def test_a_token_is_a_yes() -> None:
    with engine((200, TOKEN), health=503) as port:
        assert probe.probe(port, "right") is None


@pytest.mark.parametrize(
    ("generate", "said"),
    [((200, NO_TOKEN), "holds no token"), ((500, b""), "500"), ((400, TOKEN), "400")],
)
def test_an_answer_without_a_token_is_a_no(generate: tuple[int, bytes], said: str) -> None:
    with engine(generate, health=200) as port:
        problem = probe.probe(port, "right")
    assert problem is not None and said in problem


def test_a_wrong_key_is_a_no() -> None:
    with engine((200, TOKEN), health=200) as port:
        assert "401" in (probe.probe(port, "wrong") or "")


@pytest.mark.parametrize("generate", [None, (503, b"queue full")])
def test_a_full_engine_that_finishes_batches_is_a_yes(generate: tuple[int, bytes] | None) -> None:
    with engine(generate, health=200) as port:
        assert probe.probe(port, "right") is None


def test_an_engine_that_finishes_nothing_is_a_no() -> None:
    with engine(None, health=503) as port:
        assert "503" in (probe.probe(port, "right") or "")
    with engine(None, health=None) as port:
        assert "no token and no finished batch" in (probe.probe(port, "right", 3.0) or "")


@pytest.mark.parametrize(
    ("generate", "said"),
    [((200, TOKEN), None), ((200, NO_TOKEN), "holds no token"), ((500, b""), "500")],
)
def test_a_late_answer_is_judged_as_a_prompt_one(
    generate: tuple[int, bytes], said: str | None
) -> None:
    with engine(generate, health=None, late=True) as port:
        problem = probe.probe(port, "right")
    assert problem is None if said is None else said in (problem or "")


def test_a_late_refusal_leaves_the_word_to_the_finished_batches() -> None:
    with engine((503, b"queue full"), health=200, late=True) as port:
        assert probe.probe(port, "right") is None
    with engine((503, b"queue full"), health=500, late=True) as port:
        assert "500" in (probe.probe(port, "right") or "")


def run_script(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-ISB", probe.__file__, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_the_script_needs_nothing_but_python(tmp_path: Path) -> None:
    key = tmp_path / "user"
    key.write_text("right\n")
    with engine((200, TOKEN), health=200) as port:
        good = run_script(str(key), str(port))
        assert (good.returncode, good.stderr) == (0, "")
        key.write_text("wrong\n")
        assert run_script(str(key), str(port)).returncode == 1


def test_before_the_start_the_script_says_why_not_in_one_line(tmp_path: Path) -> None:
    missing = run_script(str(tmp_path / "user"))
    assert missing.returncode == 1
    assert "no user key yet" in missing.stderr
    (tmp_path / "user").write_text("right")
    with engine((200, TOKEN), health=200) as port:
        pass
    refused = run_script(str(tmp_path / "user"), str(port))
    assert refused.returncode == 1
    assert "refused" in refused.stderr
    assert len(refused.stderr.splitlines()) == 1
