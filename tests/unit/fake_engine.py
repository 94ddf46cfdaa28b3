"""A pretended engine that misbehaves on command: its state, and what it generates.

fake_engine_http.py serves it, fake_chat.py and fake_generate.py answer requests, fake_observed.py
says what can be seen of it, fake_faults.py lists what it can do wrong.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from functools import cached_property
from random import Random
from typing import Any

from fake_faults import Fault

from dflash_kit import paths
from dflash_kit.engine.keys import Keys
from dflash_kit.profiles.load import load_pair, load_profile
from dflash_kit.profiles.models import NO_ACCELERATOR, Profile
from dflash_kit.releases import catalogue, lockfile
from dflash_kit.releases.lockfile import Lock
from dflash_kit.smoke.wanted import KnownAnswers, load_known_answers

KEYS = Keys(user="user-key-of-the-fake", admin="admin-key-of-the-fake")
CONTEXT = 1024
BLOCK = 8


def default_lock() -> Lock:
    return lockfile.read(paths.IMAGES / catalogue.load(paths.RELEASES_FILE).default)


def tiny_answers() -> KnownAnswers:
    return load_known_answers(load_pair("tiny"))


def damaged(ids: list[int]) -> list[int]:
    """The same token ids but for one."""
    at = min(5, len(ids) - 1)
    return [*ids[:at], ids[at] + 1, *ids[at + 1 :]]


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
    waits: int = 0
    waited_s: float = 0.0
    sampled: int = 0
    leaked: int = 0
    held: int = 0
    bad: int = 0
    long: int = 0
    hurt: bool = False
    aborted: set[str] = field(default_factory=set)
    asked: int = 0
    cached: set[str] = field(default_factory=set)
    context_ended: bool = False
    corrupted: bool = False
    ended: threading.Event = field(default_factory=threading.Event)
    guard: threading.Lock = field(default_factory=threading.Lock)
    reading: threading.Lock = field(default_factory=threading.Lock)
    random: Random = field(default_factory=Random)

    @cached_property
    def known_prompts(self) -> set[str]:
        return {exact.prompt_text for exact in self.known.exact}

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def has(self, *faults: Fault) -> bool:
        return self.fault in faults

    @property
    def accept_length(self) -> float:
        """Tokens per verify pass, as /server_info averages them."""
        if not self.drafting:
            return 1.0
        return (BLOCK - 1) / (2 if self.has(Fault.HALF_ACCEPTANCE) else 1)

    @property
    def drafting(self) -> bool:
        on = self.point == "latency" and not self.has(Fault.DFLASH_OFF)
        return on or self.has(Fault.DFLASH_ON)

    @cached_property
    def settings(self) -> Profile:
        return load_profile(self.profile)

    @property
    def arguments(self) -> dict[str, Any]:
        return self.settings.engine.arguments

    @property
    def samples(self) -> bool:
        """Without a GPU drafts are verified greedily at any temperature."""
        gpu = self.settings.hardware.accelerator != NO_ACCELERATOR
        return (gpu or not self.drafting) and not self.has(Fault.TEMPERATURE_IGNORED)

    def sample(self, tokens: int, min_p: float) -> list[int] | None:
        """Token ids at a temperature; None where they are the greedy ones."""
        narrow = min_p == 1.0 and not self.drafting and not self.has(Fault.MIN_P_IGNORED)
        if narrow or not self.samples:
            return None
        return self.random.choices(range(4), k=tokens)

    def generate(self, text: str, tokens: int, together: bool) -> dict[str, Any]:
        ids = next((e.output_ids for e in self.known.exact if e.prompt_text == text), None)
        if self.has(Fault.DIES_MIDWAY) and ids:
            self.end()
            raise ConnectionAbortedError
        out = (ids or [1] * tokens)[:tokens]
        wrong = self.has(Fault.WRONG_IDS) or (self.has(Fault.WRONG_IDS_TOGETHER) and together)
        wrong |= self.hurt or (self.has(Fault.SAMPLED_HURT_GREEDY) and self.sampled > 0)
        if ids and (wrong or self.corrupted):
            out = damaged(out)
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
