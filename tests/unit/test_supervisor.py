"""The supervisor against a stand-in engine: real processes, real signals, real sockets."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from ports import free_port

# An HTTP server that answers the two questions of the probe. Files in its folder steer it, and
# tell what it did: `pids` all its processes, `asked` one line a question.
ENGINE = r"""
import os, pathlib, shutil, signal, subprocess, sys, threading, time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
folder, port, mode = pathlib.Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
def on_stop(*_):
    (folder / "term").touch()  # as upstream: drain, not die
    if mode == "idle": os.kill(os.getpid(), signal.SIGKILL)  # as upstream, once it is idle
signal.signal(signal.SIGTERM, on_stop)
child = subprocess.Popen(["sleep", "1000"], start_new_session=True)
(folder / "pids.new").write_text(f"{os.getpid()} {child.pid}")
os.rename(folder / "pids.new", folder / "pids")
if mode == "exit3": sys.exit(3)
if mode == "deaf": time.sleep(1000)
def wait_for(name):
    while not (folder / name).exists(): time.sleep(0.02)
def compile_once():
    if not (folder / "compile").exists(): return
    if (folder / "compiled").exists(): return (folder / "after").touch()
    shutil.copy(shutil.which("sleep"), folder / "nvcc")
    compiler = subprocess.Popen([folder / "nvcc", "1000"])
    wait_for("compiled")
    compiler.kill()
class Handler(BaseHTTPRequestHandler):
    def log_message(self, *_): pass
    def answer(self, body):
        self.send_response(200); self.end_headers(); self.wfile.write(body)
    def do_GET(self):
        with open(folder / "asked", "a") as f: f.write(self.path + "\n")
        if self.path == "/slow": wait_for("release")
        self.answer(b"finished")
    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        if mode == "full": wait_for("never")
        if mode == "compiles": compile_once()
        self.answer(b'{"meta_info": {"completion_tokens": 1}}')
ThreadingHTTPServer.daemon_threads = True
ThreadingHTTPServer(("127.0.0.1", port), Handler).serve_forever()
"""

SUPERVISE = """
import os, sys
from dflash_kit.engine.supervisor import supervise
from dflash_kit.profiles.models import Limits
port, *limits = sys.argv[1:4 + 1]
start, hang, drain = map(float, limits)
limits = Limits(start_seconds=start, hang_seconds=hang, drain_seconds=drain)
sys.exit(supervise(sys.argv[5:], dict(os.environ), int(port), "key", limits))
"""

# Put before SUPERVISE. What hangs in a driver ignores even SIGKILL.
UNKILLABLE = """
import os, signal
from dflash_kit.engine import processes
processes._KILL_SECONDS = 0.5
kill = os.kill
os.kill = lambda pid, number: None if number == signal.SIGKILL else kill(pid, number)
"""
COUNT_MEMORY_KILLS = """
from pathlib import Path
from dflash_kit.engine import processes
processes._OOM_COUNTERS = (Path({file!r}),)
"""

FAR = 1000.0  # seconds: a limit that a test must not reach


@dataclass
class Served:
    """A supervisor and its stand-in engine."""

    folder: Path
    port: int
    process: subprocess.Popen[str]

    def log(self) -> str:
        return (self.folder / "log").read_text()

    def wait_for(self, true: Callable[[], bool]) -> None:
        """Until `true`; a supervisor that ends meanwhile fails the test."""
        while not true():
            assert self.process.poll() is None, self.log()
            time.sleep(0.02)

    def wait_ready(self) -> None:
        self.wait_for(lambda: "ready: generated a token" in self.log())

    def pids(self) -> list[int]:
        return [int(pid) for pid in (self.folder / "pids").read_text().split()]

    def end(self) -> tuple[int, str]:
        """Exit code and log, once it has ended and after checking that nothing is left of it."""
        code = self.process.wait()
        left = [pid for pid in self.pids() if Path(f"/proc/{pid}").exists()]
        assert left == [], f"left over: {left}\n{self.log()}"
        return code, self.log()


Start = Callable[..., Served]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    started: list[Served] = []

    def _start(
        mode: str = "ok",
        start: float = FAR,
        hang: float = FAR,
        drain: float = FAR,
        prepare: str = "",
    ) -> Served:
        port = free_port()
        engine = [sys.executable, "-c", ENGINE, str(tmp_path), str(port), mode]
        limits = [str(start), str(hang), str(drain)]
        with open(tmp_path / "log", "w") as log:
            process = subprocess.Popen(
                [sys.executable, "-c", prepare + SUPERVISE, str(port), *limits, *engine],
                stderr=log,
                text=True,
            )
        started.append(Served(tmp_path, port, process))
        return started[-1]

    yield _start
    for served in started:
        if served.process.poll() is None:
            served.process.kill()
            served.process.wait()
            for pid in served.pids():
                os.kill(pid, signal.SIGKILL)


def slow_request(served: Served) -> socket.socket:
    """A request in flight: the engine has read it and answers once `release` exists."""
    client = socket.create_connection(("127.0.0.1", served.port))
    client.sendall(b"GET /slow HTTP/1.0\r\n\r\n")
    asked = served.folder / "asked"
    served.wait_for(lambda: asked.exists() and "/slow" in asked.read_text())
    return client


@pytest.mark.parametrize("mode", ["ok", "idle"])
@pytest.mark.parametrize("stop", [signal.SIGTERM, signal.SIGINT])
def test_idle_engine_stops_cleanly_and_leaves_no_process(
    start: Start, stop: signal.Signals, mode: str
) -> None:
    served = start(mode)
    served.wait_ready()
    served.process.send_signal(stop)
    code, log = served.end()
    assert code == 0
    assert "stopped in" in log


def test_request_in_flight_is_answered_before_the_stop(start: Start) -> None:
    served = start()
    served.wait_ready()
    with slow_request(served) as client:
        served.process.terminate()
        served.wait_for((served.folder / "term").exists)
        with pytest.raises(subprocess.TimeoutExpired):
            served.process.wait(timeout=1.0)  # several looks at the connections, none of them final
        (served.folder / "release").touch()
        received = b"".join(iter(lambda: client.recv(4096), b""))
    assert received.endswith(b"finished")
    assert served.end()[0] == 0


def test_a_crash_during_the_stop_is_no_clean_stop(start: Start) -> None:
    served = start()
    served.wait_ready()
    with slow_request(served):
        served.process.terminate()
        served.wait_for((served.folder / "term").exists)
        os.kill(served.pids()[0], signal.SIGABRT)
        code, log = served.end()
    assert code == 1
    assert "during the stop, 1 connection(s) still open, by signal SIGABRT" in log


def test_a_connection_kept_for_later_does_not_spoil_a_clean_stop(start: Start) -> None:
    served = start()
    served.wait_ready()
    with slow_request(served):
        served.process.terminate()
        served.wait_for((served.folder / "term").exists)
        os.kill(served.pids()[0], signal.SIGKILL)  # as upstream ends itself, once it is idle
        code, log = served.end()
    assert code == 0
    assert "stopped in" in log


def test_drain_longer_than_its_limit_is_killed(start: Start) -> None:
    served = start(drain=1.0)
    served.wait_ready()
    with slow_request(served):
        served.process.terminate()
        code, log = served.end()
    assert code == 1
    assert "1 connection(s) still open" in log and "drain_seconds 1" in log


def test_second_signal_kills_at_once(start: Start) -> None:
    served = start()
    served.wait_ready()
    with slow_request(served):
        served.process.terminate()
        served.wait_for((served.folder / "term").exists)
        served.process.send_signal(signal.SIGINT)
        code, log = served.end()
    assert code == 1
    assert "second SIGINT" in log


def test_stop_while_starting_is_clean(start: Start) -> None:
    served = start("deaf")
    served.wait_for((served.folder / "pids").exists)
    served.process.terminate()
    code, log = served.end()
    assert code == 0
    assert "while starting" in log


def test_start_longer_than_its_limit_is_killed(start: Start) -> None:
    served = start("deaf", start=4.0)
    code, log = served.end()
    assert code == 1
    assert "was not ready after" in log and "start_seconds 4" in log and "refused" in log


def test_stopped_engine_is_hung_and_killed(start: Start) -> None:
    served = start(hang=2.0)
    served.wait_ready()
    os.kill(served.pids()[0], signal.SIGSTOP)
    code, log = served.end()
    assert code == 1
    assert "is hung" in log and "hang_seconds 2" in log
    assert "(T)" in log, "the log has to show which process was stopped"


def test_engine_that_compiles_a_kernel_is_not_hung(start: Start, tmp_path: Path) -> None:
    served = start("compiles", hang=2.0, start=6.0)
    served.wait_ready()
    (tmp_path / "compile").touch()
    said = "as a kernel is being compiled: nvcc; waiting up to start_seconds"
    served.wait_for(lambda: said in served.log())
    (tmp_path / "compiled").touch()
    served.wait_for(lambda: (tmp_path / "after").exists())
    assert served.process.poll() is None
    # A compiler that never comes to its end is a hang, later.
    (tmp_path / "compiled").unlink()
    code, log = served.end()
    assert code == 1
    assert "is hung: it generated nothing for 6 s" in log and "nvcc (" in log
    assert log.count(said) == 2


def test_full_engine_is_not_hung(start: Start) -> None:
    served = start("full", hang=4.0)
    served.wait_ready()
    asked = served.folder / "asked"
    # Each question waits 2 s for its token, so the fourth comes well after hang_seconds.
    served.wait_for(lambda: asked.read_text().count("/health_generate") >= 4)
    served.process.terminate()
    code, log = served.end()
    assert code == 0
    assert "hung" not in log


def test_engine_that_exits_by_itself_is_never_a_success(start: Start) -> None:
    code, log = start("exit3").end()
    assert code == 1
    assert "ended by itself, with exit code 3" in log


def test_killed_engine_is_named_by_its_signal(start: Start) -> None:
    served = start()
    served.wait_ready()
    os.kill(served.pids()[0], signal.SIGKILL)
    code, log = served.end()
    assert code == 1
    assert "ended by itself, by signal SIGKILL" in log


def test_processes_that_cannot_be_killed_are_named_after_the_reason(start: Start) -> None:
    served = start("deaf", prepare=UNKILLABLE)
    served.wait_for((served.folder / "pids").exists)
    served.process.terminate()
    code = served.process.wait()
    reason, left = served.log().splitlines()
    for pid in served.pids():
        os.kill(pid, signal.SIGKILL)
        assert str(pid) in left
    assert code == 1
    assert "while starting" in reason
    assert "cannot be killed" in left and "sleep (S)" in left


def test_a_hang_after_the_memory_limit_struck_says_so(start: Start, tmp_path: Path) -> None:
    counter = tmp_path / "memory.events"
    counter.write_text("oom 3\noom_kill 1\n")
    served = start(hang=2.0, prepare=COUNT_MEMORY_KILLS.format(file=str(counter)))
    served.wait_ready()
    counter.write_text("oom 5\noom_kill 3\n")
    os.kill(served.pids()[0], signal.SIGSTOP)
    code, log = served.end()
    assert code == 1
    assert "is hung" in log and "the memory limit killed 2 process(es)" in log
