"""What one smoke run knows: the engine, what it is held to, and what was found so far."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NoReturn

import pytest
import requests

from dflash_kit.errors import KitError, Undetermined
from dflash_kit.smoke.bench import Bench
from dflash_kit.smoke.checks import RUNGS, Tier
from dflash_kit.smoke.client import Engine
from dflash_kit.smoke.container import Container, Seen
from dflash_kit.smoke.speed import SpeedPoint
from dflash_kit.smoke.wanted import Wanted
from dflash_kit.verdicts import Record, Verdict

# An engine that is slower than this is not judged to the end: the run must not hold up a rollout.
RUN_SECONDS = {Tier.QUICK: 300.0, Tier.FULL: 1800.0, Tier.SOAK: 1800.0, Tier.BENCH: 7200.0}
NOT_RUN = "run the smoke test again when the engine answers"


@dataclass
class Suite:
    """State of one run.

    `container` is None where the engine is asked from outside, `before` is how it was when the run
    began. `hours` is how long a soak lasts; `say` shows how far it is. `first_token` is in seconds.
    `gone` says since when the engine no longer answers, if it does not.
    """

    engine: Engine
    wanted: Wanted
    tier: Tier = Tier.QUICK
    records: dict[str, Record] = field(default_factory=dict)
    figures: dict[str, float] = field(default_factory=dict)
    identity: dict[str, Any] = field(default_factory=dict)
    facts: dict[str, Any] = field(default_factory=dict)
    profile: str | None = None
    point: str | None = None
    bench: Bench | None = None
    speed: list[SpeedPoint] = field(default_factory=list)
    accept_by_position: list[float] = field(default_factory=list)
    metrics_before: dict[str, float] | None = None
    container: Container | None = None
    before: Seen | Undetermined | None = None
    hours: float = 1.0
    say: Callable[[str], object] = lambda _: None
    first_token: float | None = None
    gone: str = ""
    started: float = field(default_factory=time.monotonic)

    @property
    def stopped(self) -> str:
        """Why no further check may run; empty while the engine answers in time."""
        limit = RUN_SECONDS[self.tier] + (self.hours * 3600 if self.tier is Tier.SOAK else 0)
        if not self.gone and time.monotonic() - self.started > limit:
            self.gone = f"the run took longer than {limit:.0f} s"
        return self.gone

    def look(self) -> None:
        """Keep how the container is before anything is asked."""
        if self.container is not None:
            try:
                self.before = self.container.look()
            except Undetermined as error:
                self.before = error

    def at_start(self) -> Seen:
        """How the container was then; Undetermined where it could not be seen."""
        if not isinstance(self.before, Seen):
            raise self.before or Undetermined("the container was not looked at")
        return self.before

    def record(
        self, code: str, verdict: Verdict, measured: object, wanted: object, next_step: str = ""
    ) -> None:
        """Keep one check's answer."""
        self.records[code] = Record(
            code=code,
            verdict=verdict,
            measured=str(measured),
            wanted=str(wanted),
            next_step=next_step,
        )
        if code in RUNGS and verdict is not Verdict.PASS:
            self.gone = f"{code} did not pass"

    def record_error(self, code: str, wanted: str, error: BaseException) -> None:
        """Judge a check that ended in an exception: no answer proves nothing, a wrong one fails."""
        if isinstance(error, json.JSONDecodeError):  # requests' own is a RequestException as well
            self.record(
                code, Verdict.FAIL, describe(error, self.engine), wanted, "see the engine's log"
            )
        elif isinstance(error, requests.RequestException):
            self.record(code, Verdict.INCONCLUSIVE, describe(error, self.engine), wanted, NOT_RUN)
            if not self._still_generates():
                self.gone = f"the engine stopped answering during {code}"
        elif isinstance(error, KitError):
            unknown = isinstance(error, Undetermined)
            verdict = Verdict.INCONCLUSIVE if unknown else Verdict.FAIL
            self.record(code, verdict, error, wanted, "see the engine's log")
        else:
            measured = f"unexpected answer: {type(error).__name__}: {error}"
            self.record(code, Verdict.FAIL, measured, wanted, "see the engine's log")

    def _still_generates(self) -> bool:
        try:
            self.engine.generate("Hello", 1)
        except (requests.RequestException, KitError):
            return False
        return True


@dataclass(frozen=True)
class Check:
    """A test's handle to give its one verdict."""

    suite: Suite
    code: str

    def __call__(self, *, ok: bool, measured: object, wanted: object, next_step: str) -> None:
        """PASS or FAIL; a FAIL also ends the test."""
        verdict = Verdict.PASS if ok else Verdict.FAIL
        self.suite.record(self.code, verdict, measured, wanted, "" if ok else next_step)
        if not ok:
            pytest.fail(f"{self.code}: {measured}, wanted {wanted}", pytrace=False)

    def warn(self, measured: object, wanted: object, next_step: str) -> None:
        """Nothing is wrong with the engine, but somebody should look at it."""
        self.suite.record(self.code, Verdict.WARN, measured, wanted, next_step)

    def skip(self, why: str) -> NoReturn:
        """The check has no meaning for this deployment."""
        self.suite.record(self.code, Verdict.SKIP, why, "-")
        pytest.skip(why)

    def undetermined(self, measured: object, wanted: object, next_step: str) -> NoReturn:
        """The check could not be judged."""
        self.suite.record(self.code, Verdict.INCONCLUSIVE, measured, wanted, next_step)
        pytest.fail(f"{self.code}: {measured}, wanted {wanted}", pytrace=False)


def status_of(engine: Engine, path: str, body: object) -> int | str:
    """The status of a POST with the user key, or why there is none; bytes are sent as they are."""
    sent = {"raw": body} if isinstance(body, bytes) else {"body": body}
    try:
        return engine.request("POST", path, key=engine.keys.user, **sent).status_code
    except requests.RequestException as error:
        return describe(error, engine)


def describe(error: Exception, engine: Engine) -> str:
    """What is wrong with an answer, or that there is none, in a few words."""
    if isinstance(error, json.JSONDecodeError):
        return "the answer is not JSON"
    if isinstance(error, requests.Timeout):
        return f"no answer within {engine.seconds:.0f} s"
    return f"no answer ({type(error).__name__})"
