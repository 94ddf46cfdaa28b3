"""Runs the engine as a child: passes signals on, watches that it generates, and ends it cleanly.

Docker restarts a dead engine but never a hung one, and the engine's own exit codes mean little (a
clean stop ends in 137). So this process decides:

- a stop (SIGTERM or SIGINT) lets requests in flight finish and is exit 0; one that takes longer
  than `drain_seconds`, or a second signal, kills the engine and is exit 1;
- an engine that does not generate within `start_seconds`, or for longer than `hang_seconds`
  later, is killed, and one that ends by itself was not meant to: exit 1, each with the reason.

What a hang is: probe.probe() asks again and again, one question at a time, and each answer moves a
clock. Neither a token nor a finished batch for `hang_seconds` is a hang. A busy engine finishes
batches, so the limit has to be longer than the longest batch, not the longest request. A kernel
that a request is the first to need is no hang while its compiler runs, for up to `start_seconds`.
"""

import os
import signal
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from dflash_kit.engine import processes
from dflash_kit.engine.probe import probe
from dflash_kit.profiles.models import Limits

_STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)
_SIGNALS = (*_STOP_SIGNALS, signal.SIGCHLD)
# How often limits and connections are looked at while no signal comes.
_TICK_SECONDS = 0.2
# The same during a stop, and for how long no client may be seen before the engine counts as idle.
_DRAIN_TICK_SECONDS = 0.02
_IDLE_SECONDS = 0.3
# Between a good answer and the next question (but several questions within hang_seconds), and
# between a bad one and the next.
_PAUSE_GOOD_SECONDS = 5.0
_PAUSE_BAD_SECONDS = 0.5
_QUESTIONS_WITHIN_HANG = 4


@dataclass(frozen=True)
class Outcome:
    """How it ended: 0 after a clean stop, else 1; `reason` is for the log."""

    exit_code: int
    reason: str


def say(text: str) -> None:
    """One line of the kit in the engine's log."""
    print(f"dflash-kit: {text}", file=sys.stderr, flush=True)


def hold_signals() -> None:
    """Keep stop signals pending until supervise() takes them: PID 1 would lose them otherwise."""
    signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)


@dataclass
class Watch:
    """Probes the engine in a thread and keeps when it last generated (monotonic seconds)."""

    port: int
    key: str = field(repr=False)
    hang_seconds: float
    last_good: float | None = None
    last_problem: str = "none yet"
    _done: threading.Event = field(default_factory=threading.Event)

    def start(self) -> None:
        threading.Thread(target=self._loop, name="watch", daemon=True).start()

    def stop(self) -> None:
        self._done.set()

    def _loop(self) -> None:
        pause = 0.0
        good_pause = min(_PAUSE_GOOD_SECONDS, self.hang_seconds / _QUESTIONS_WITHIN_HANG)
        while not self._done.wait(pause):
            problem = probe(self.port, self.key, self.hang_seconds)
            if problem is None:
                self.last_good = time.monotonic()
            self.last_problem = problem or "none to the question since then"
            pause = _PAUSE_BAD_SECONDS if problem else good_pause


class Supervisor:
    """One engine process from its start to its end."""

    def __init__(
        self, command: Sequence[str], environment: dict[str, str], watch: Watch, limits: Limits
    ) -> None:
        self.watch = watch
        self.limits = limits
        self.oom_kills = processes.oom_kills()
        self.started = time.monotonic()
        self.stopping: float | None = None
        self.clients = 0  # the last that were seen waiting, during a stop
        self.idle_since: float | None = None
        self.ready = self.compiling = False
        # A session of its own: a Ctrl-C at the terminal reaches this process alone, which then
        # decides how the engine ends.
        self.pid = os.posix_spawnp(
            command[0], list(command), environment, setsid=True, setsigmask=[]
        )

    def run(self) -> Outcome:
        """Until the engine has ended or has to be ended."""
        while True:
            tick = _DRAIN_TICK_SECONDS if self.stopping else _TICK_SECONDS
            received = signal.sigtimedwait(_SIGNALS, tick)
            if received and received.si_signo in _STOP_SIGNALS:
                outcome = self._on_stop(signal.Signals(received.si_signo).name)
            else:
                outcome = self._on_end() or (self._drain() if self.stopping else self._judge())
            if outcome:
                return outcome

    def _on_stop(self, name: str) -> Outcome | None:
        if self.stopping:
            return Outcome(1, f"second {name}: killed without waiting for requests in flight")
        self.stopping = time.monotonic()
        self.watch.stop()
        if not self.ready:
            return Outcome(0, f"{name} while starting: nothing was in flight")
        say(f"{name}: stopping; requests in flight may take {self.limits.drain_seconds:g} s")
        self.clients = processes.waiting_clients(self.watch.port)
        os.kill(self.pid, signal.SIGTERM)
        return None

    def _on_end(self) -> Outcome | None:
        for pid, code in processes.reap():
            if pid == self.pid:
                return self._explain_end(code)
        return None

    def _explain_end(self, code: int) -> Outcome:
        # Once it finds no request running after a SIGTERM, it kills itself. An open connection is
        # then one that a client keeps for its next request: the kernel cannot tell it from a wait.
        if self.stopping and code == -signal.SIGKILL and not self._memory_kills():
            return Outcome(0, f"stopped in {time.monotonic() - self.stopping:.1f} s")
        how = f"by signal {signal.Signals(-code).name}" if code < 0 else f"with exit code {code}"
        during = (
            f" during the stop, {self.clients} connection(s) still open" if self.stopping else ""
        )
        return Outcome(
            1,
            f"the engine ended by itself{during}, {how}; its last lines above may say why"
            f"{self._memory_kills()}",
        )

    def _memory_kills(self) -> str:
        killed = processes.oom_kills() - self.oom_kills
        if killed <= 0:
            return ""
        return f"; the memory limit killed {killed} process(es): raise the container's limit"

    def _drain(self) -> Outcome | None:
        """The engine looks every 5 s whether it is idle; no waiting client means that it is."""
        assert self.stopping is not None
        took = time.monotonic() - self.stopping
        clients = processes.waiting_clients(self.watch.port)
        if clients == 0:
            # A process that falls loses its connections a moment before it can be reaped.
            self.idle_since = self.idle_since or time.monotonic()
            if time.monotonic() - self.idle_since < _IDLE_SECONDS:
                return None
            return Outcome(0, f"stopped in {took:.1f} s")
        self.clients, self.idle_since = clients, None
        if took > self.limits.drain_seconds:
            return Outcome(
                1,
                f"{self.clients} connection(s) still open {took:.0f} s after the stop "
                f"(drain_seconds {self.limits.drain_seconds:g}): killed",
            )
        return None

    def _judge(self) -> Outcome | None:
        now = time.monotonic()
        good = self.watch.last_good
        if good is None:
            if now - self.started <= self.limits.start_seconds:
                return None
            return self._give_up("was not ready after", now - self.started, "start_seconds")
        if not self.ready:
            self.ready = True
            say(f"ready: generated a token {good - self.started:.1f} s after the start")
        if now - good <= self.limits.hang_seconds:
            self.compiling = False
            return None
        if now - good <= self.limits.start_seconds and (compilers := processes.compilers()):
            if not self.compiling:
                self.compiling = True
                say(
                    f"nothing generated for {now - good:.0f} s, as a kernel is being compiled: "
                    f"{', '.join(compilers)}; waiting up to start_seconds"
                )
            return None
        return self._give_up("is hung: it generated nothing for", now - good, "hang_seconds")

    def _give_up(self, what: str, seconds: float, limit: str) -> Outcome:
        states = ", ".join(processes.descendants().values())
        return Outcome(
            1,
            f"the engine {what} {seconds:.0f} s ({limit} "
            f"{getattr(self.limits, limit):g}); last answer: {self.watch.last_problem}; "
            f"processes: {states}{self._memory_kills()}; killed",
        )


def supervise(
    command: Sequence[str],
    environment: dict[str, str],
    port: int,
    key: str,
    limits: Limits,
) -> int:
    """Run `command` until it ends; leave no process of it behind; return the exit code.

    A process that cannot be killed is exit 1: the end of the container has to take it.

    `port` and `key` are where and how to ask it for a token. A stop signal that hold_signals()
    kept is honoured.
    """
    hold_signals()
    processes.adopt_orphans()
    watch = Watch(port, key, limits.hang_seconds)
    try:
        supervisor = Supervisor(command, environment, watch, limits)
        watch.start()
        outcome = supervisor.run()
        say(outcome.reason)
    finally:
        watch.stop()
        left = processes.kill_descendants()
    if left:
        names = ", ".join(f"{pid} {text}" for pid, text in left.items())
        say(f"cannot be killed: {names}; left to the end of the container")
        return 1
    return outcome.exit_code
