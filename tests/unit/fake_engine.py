"""A pretended engine that misbehaves on command; fake_engine_http.py serves it."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from dflash_kit import paths
from dflash_kit.engine.keys import Keys
from dflash_kit.profiles.load import load_pair
from dflash_kit.releases import catalogue, lockfile
from dflash_kit.releases.lockfile import Lock
from dflash_kit.smoke.wanted import KnownAnswers, load_known_answers

KEYS = Keys(user="user-key-of-the-fake", admin="admin-key-of-the-fake")
CONTEXT = 1024
BLOCK = 8


class Fault(StrEnum):
    """What the fake does wrong."""

    NONE = "none"
    UNHEALTHY = "health says 503"
    WRONG_TEXT = "chat answers another text"
    WRONG_IDS = "one token id differs"
    WRONG_IDS_TOGETHER = "one token id differs when requests overlap"
    PERFECT = "no draft token is ever rejected"
    POOR = "hardly a draft token is accepted"
    DFLASH_OFF = "no draft at the point latency"
    DFLASH_ON = "a draft at the point throughput"
    DRAFT_EAGER = "the draft's passes run eagerly"
    DRAFT_UNCOUNTED = "the draft's passes are not counted"
    VERIFY_EAGER = "the target's passes run eagerly"
    NO_IDENTITY = "reports nothing of itself"
    OTHER_RELEASE = "reports another release"
    OTHER_TREE = "reports another tree"
    OTHER_PATCHES = "lacks a patch"
    NO_MODEL = "lists no model"
    KEY_NOT_ENFORCED = "takes any key and none"
    ADMIN_NOT_ENFORCED = "lets the user administrate"
    TRACE_LEVEL_OPEN = "lets the user set the trace level"
    OTHER_ADMIN_KEY = "has another admin key"
    KEY_LEAKED = "shows the admin key in /server_info"
    KEY_LEAKED_IN_ERROR = "shows the admin key in an error of /get_server_info"
    KEY_IN_ERROR = "shows the user key in an error"
    CHAT_WITHOUT_USAGE = "chat has no usage"
    CHAT_CUT = "chat ends by length"
    STREAM_WITHOUT_FINISH = "stream has no finish reason"
    STREAM_WITHOUT_USAGE = "stream has no usage"
    STREAM_WITHOUT_DONE = "stream has no [DONE]"
    STREAM_CUT = "stream ends before its text does"
    STREAM_STALLS = "stream stands still halfway"
    STREAM_AT_ONCE = "stream is one chunk"
    NO_METRICS = "/metrics is absent"
    METRICS_LACKING = "/metrics lacks the queue's length"
    METRICS_FROZEN = "the token counter stands still"
    MALFORMED_ACCEPTED = "malformed requests get 200"
    MALFORMED_CRASHES = "malformed requests get 500"
    MALFORMED_KILLS = "the first malformed request ends it"
    MALFORMED_CORRUPTS = "other answers after a malformed request"
    HANGS = "no generation is ever answered"
    CHAT_HANGS = "no chat is ever answered"
    DIES_MIDWAY = "ends at the first of the exact prompts"


class Malformed(Exception):
    """A request that an engine must refuse."""


def default_lock() -> Lock:
    return lockfile.read(paths.IMAGES / catalogue.load(paths.RELEASES_FILE).default)


def tiny_answers() -> KnownAnswers:
    return load_known_answers(load_pair("tiny"))


@dataclass
class FakeEngine:
    """An engine of the default release with the tiny pair; `port` is set when it serves."""

    fault: Fault = Fault.NONE
    point: str = "latency"
    profile: str = "cpu-tiny"
    lock: Lock = field(default_factory=default_lock)
    known: KnownAnswers = field(default_factory=tiny_answers)
    port: int = 0
    generated: int = 0
    passes: int = 0
    running: int = 0
    corrupted: bool = False
    ended: threading.Event = field(default_factory=threading.Event)
    guard: threading.Lock = field(default_factory=threading.Lock)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def has(self, *faults: Fault) -> bool:
        return self.fault in faults

    @property
    def drafting(self) -> bool:
        on = self.point == "latency" and not self.has(Fault.DFLASH_OFF)
        return on or self.has(Fault.DFLASH_ON)

    def identity(self) -> dict[str, Any]:
        patches = [patch.name for patch in self.lock.patches]
        other = self.has(Fault.OTHER_RELEASE)
        return {
            "release": "0.5.11-dflash.0" if other else self.lock.release,
            "patches": patches[1:] if self.has(Fault.OTHER_PATCHES) else patches,
            "tree": "0" * 64 if self.has(Fault.OTHER_TREE) else self.lock.tree,
            "profile": self.profile,
            "point": self.point,
        }

    def server_info(self) -> dict[str, Any]:
        eager = self.has(Fault.DRAFT_EAGER)
        passes = {"cuda_graph": 0 if eager else self.passes, "eager": self.passes if eager else 0}
        uncounted = self.has(Fault.DRAFT_UNCOUNTED) or not self.drafting
        info = {
            "version": self.lock.sglang,
            "speculative_algorithm": "DFLASH" if self.drafting else None,
            "admin_api_key": KEYS.admin if self.has(Fault.KEY_LEAKED) else "<redacted>",
            "internal_states": [{} if uncounted else {"draft_passes": passes}],
        }
        return info if self.has(Fault.NO_IDENTITY) else info | {"dflash_kit": self.identity()}

    def metrics(self) -> str:
        mode = "decode_none" if self.has(Fault.VERIFY_EAGER) else "decode_cuda_graph"
        label = '{model_name="tiny"}'
        count = 7 if self.has(Fault.METRICS_FROZEN) else self.generated
        names = [
            "num_running_reqs",
            "token_usage",
            "gen_throughput",
            "prompt_tokens_total",
            "num_requests_total",
            "spec_accept_length",
        ]
        names += ["time_to_first_token_seconds_count", "e2e_request_latency_seconds_count"]
        if not self.has(Fault.METRICS_LACKING):
            names.append("num_queue_reqs")
        lines = [f"sglang:{name}{label} 1.0" for name in names]
        lines.append(f"sglang:generation_tokens_total{label} {count}")
        lines.append(f'sglang:cuda_graph_passes_total{{mode="{mode}"}} {self.passes}')
        return "# HELP a comment\n" + "\n".join(lines) + "\n"

    def generate(self, text: str, tokens: int, together: bool) -> dict[str, Any]:
        ids = next((e.output_ids for e in self.known.exact if e.prompt_text == text), None)
        if self.has(Fault.DIES_MIDWAY) and ids:
            self.end()
            raise ConnectionAbortedError
        out = (ids or [1] * tokens)[:tokens]
        wrong = self.has(Fault.WRONG_IDS) or (self.has(Fault.WRONG_IDS_TOGETHER) and together)
        if ids and (wrong or self.corrupted):
            out = [*out[:5], out[5] + 1, *out[6:]]
        length = {Fault.PERFECT: BLOCK, Fault.POOR: 2}.get(self.fault, BLOCK - 1)
        passes = -(-(tokens - 1) // length)
        meta = {"completion_tokens": tokens}
        if self.drafting and passes:
            meta["spec_verify_ct"] = passes
        with self.guard:
            self.generated += tokens
            self.passes += passes
        return {"text": "x", "output_ids": out, "meta_info": meta}

    def answer(self, prompt: str) -> str:
        known = next((a.answer for a in self.known.answers if a.prompt == prompt), "What?")
        return f"{known[:-1]}?" if self.has(Fault.WRONG_TEXT) else known

    def end(self) -> None:
        """Stop serving, as a process that has died."""
        self.ended.set()
