"""What becomes of the fake engine as it works: lateness, errors, wear, and its container."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import engine_logs
from fake_engine import KEYS, FakeEngine
from fake_faults import Fault

from dflash_kit import paths
from dflash_kit.errors import Undetermined
from dflash_kit.releases import catalogue
from dflash_kit.smoke.container import Process, Seen

LATE_SECONDS = 4.0
CRASH_AFTER, DIES_AFTER, ONE_IN = 20, 20, 50
CREEP_MIB = {Fault.MEMORY_CREEPS: 1.0, Fault.MEMORY_CREEPS_SLOWLY: 0.05}
LOOP = "It is so. " * 12
GARBAGE = "The answer \ufffd\ufffd is."
STARTED = "2026-01-01T00:00:00.0Z"
MAIN, SCHEDULER, DETOKENIZER = 11, 15, 16

# What a sound engine of the default release logs.
LOG = engine_logs.of(catalogue.load(paths.RELEASES_FILE).default)["sound"]["gpu"]
FORBIDDEN_LINE = "DFLASH block size mismatch: using speculative_num_draft_tokens=16"


class Failed(Exception):
    """A request that the engine answers by 500."""


def begin(engine: FakeEngine) -> None:
    """What happens when a request to generate comes in."""
    with engine.guard:
        engine.asked += 1
        asked = engine.asked
    if engine.has(Fault.FIRST_TOKEN_LATE):
        engine.ended.wait(LATE_SECONDS)
    if engine.has(Fault.CRASHES_AFTER_MANY) and asked > CRASH_AFTER:
        engine.end()
        raise ConnectionAbortedError
    if engine.has(Fault.SOME_500) and asked % ONE_IN == 0:
        raise Failed("now and then")


def step_seconds(engine: FakeEngine, tokens: int) -> float:
    """How long a request takes: where large batches are wrong, long enough for them to be large."""
    slow = engine.has(Fault.WRONG_IDS_AT_8, Fault.WRONG_IDS_AT_12) and tokens > 16
    return 0.4 if slow else 0.005


def meta(engine: FakeEngine, text: str) -> dict[str, Any]:
    """What an answer says of its prompt, which is in the cache from then on."""
    cached = text in engine.cached and not engine.has(Fault.NEVER_CACHED)
    engine.cached.add(text)
    return {"prompt_tokens": 9, "cached_tokens": 8 if cached else 0}


def wrong_ids(engine: FakeEngine, text: str, tokens: int) -> bool:
    """Whether an answer of known ids is wrong by the state that the engine is in."""
    known = next(e.output_ids for e in engine.known.exact if e.prompt_text == text)
    return (
        (engine.has(Fault.WRONG_IDS_AT_8) and engine.running >= 8)
        or (engine.has(Fault.WRONG_IDS_AT_12) and engine.running >= 12)
        or (engine.has(Fault.WRONG_IDS_MIXED) and engine.sampled > 0 and tokens < len(known))
        or (engine.has(Fault.WRONG_IDS_CACHED) and text in engine.cached and engine.asked > 3)
        or (engine.has(Fault.WRONG_AFTER_CONTEXT_END) and engine.context_ended)
    )


@dataclass(frozen=True)
class FakeContainer:
    """The fake's container, as docker would tell of it."""

    engine: FakeEngine

    def look(self) -> Seen:
        engine = self.engine
        if engine.has(Fault.CONTAINER_HIDDEN):
            raise Undetermined("docker: permission denied; give --outside")
        restarted = engine.has(Fault.RESTARTED) and engine.asked > DIES_AFTER
        running = not engine.ended.is_set()
        return Seen(
            id="c0ffee",
            image="sha256:1",
            running=running,
            started=STARTED + ("again" if restarted else ""),
            restarts=int(restarted),
            processes={p.pid: p for p in self._processes()} if running else {},
        )

    def _processes(self) -> list[Process]:
        engine = self.engine
        crept = CREEP_MIB.get(engine.fault, 0.0) * engine.asked
        died = engine.has(Fault.PROCESS_DIES) and engine.asked > DIES_AFTER
        zombie = engine.has(Fault.ZOMBIE) and engine.asked > DIES_AFTER
        found = [Process(MAIN, "python3 -m sglang.launch_server", "Ssl", 400 * 1024)]
        if not engine.has(Fault.RANK_MISSING):
            kib = int((900 + crept) * 1024)
            found.append(Process(SCHEDULER, "sglang::scheduler", "Sl", kib))
        if not died:
            state = "Z" if zombie else "Sl"
            found.append(Process(DETOKENIZER, "sglang::detokenizer", state, 300 * 1024))
        return found

    def log(self) -> list[str]:
        engine = self.engine
        if engine.has(Fault.CONTAINER_HIDDEN):
            raise Undetermined("docker: permission denied; give --outside")
        lines = list(LOG)
        if engine.has(Fault.LOG_FORBIDDEN):
            lines.append(FORBIDDEN_LINE)
        if engine.has(Fault.LOG_SHOWS_KEY):
            lines.append(f"server_args=ServerArgs(api_key='{KEYS.user}')")
        if engine.has(Fault.LOG_LACKS):
            lines = [line for line in lines if "runner ready" not in line]
        if engine.has(Fault.LOG_CUT):
            lines = lines[-1:]
        return lines
