"""Whether an engine is slower than it was, beyond the noise, and what of it changed.

Tokens per second are acceptance times steps per second times the share of the time in which
requests decode at all. A better draft can hide a slower step, and the other way round: each is
judged by itself. A quantity is worse where two things hold: its median fell by more than the noise,
and each of its rounds is worse than each round of the earlier run. The second alone is wrong in 1
of 3432 pairs of equal runs with seven rounds each, however a round's figures are distributed. Where
only the first holds, nothing is proved, and the answer is neither PASS nor FAIL.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median

from dflash_kit.smoke.speed import SpeedPoint, noise
from dflash_kit.verdicts import Verdict

# Fewer say too little: equal runs of five rounds are apart in 1 of 252 pairs, of three in 1 of 20.
LEAST_ROUNDS = 7
# With more noise than this a slow-down by 30 % is often missed (tests/unit/test_smoke_speed_gate).
MOST_NOISE = 0.15


@dataclass(frozen=True)
class Judged:
    """The answer of a speed check."""

    verdict: Verdict
    measured: str
    wanted: str
    next_step: str = ""


@dataclass(frozen=True)
class Change:
    """One quantity, the more the better: now as a share of before, and what of that is noise."""

    ratio: float
    noise: float
    margin: float
    apart: bool

    @property
    def fell(self) -> bool:
        """The median did; `worse` if all rounds did."""
        return self.ratio < 1 - self.margin

    @property
    def worse(self) -> bool:
        return self.apart and self.fell

    @property
    def better(self) -> bool:
        return self.apart and 1 / self.ratio < 1 - self.margin

    @property
    def real(self) -> bool:
        return self.worse or self.better


def change(now: Sequence[float], before: Sequence[float], margin: float) -> Change:
    """Compare the rounds of two runs; `margin` is what two equal engines may differ by."""
    spread = max(noise(now), noise(before))
    apart = max(now) < min(before) or min(now) > max(before)
    return Change(median(now) / median(before), spread, max(margin, spread), apart)


def judge(
    now: SpeedPoint, before: SpeedPoint | None, step_ms: float | None, margin: float, error: str
) -> Judged:
    """The answer of one speed check: `before` is an earlier run of the same deployment family,
    `step_ms` the profile's limit, `error` why a request failed.

    With neither to hold it to, a run is no check and its figures are only recorded: SKIP. The first
    bench of a host must not look like a bench that went wrong.
    """
    if now.failed:
        asked = now.prompts * len(now.rounds)
        measured = f"{now.failed} of {asked} requests failed: {error}"
        return Judged(Verdict.FAIL, measured, "0 failed", "see the engine's log")
    held = within(now, step_ms) if step_ms else None
    if held and held.verdict is Verdict.FAIL or before is None:
        return held or Judged(Verdict.SKIP, f"no earlier receipt to compare with: {now}", "-")
    return against(now, before, margin)


def against(now: SpeedPoint, before: SpeedPoint, margin: float) -> Judged:
    """Hold a run to an earlier one of the same deployment family and concurrency."""
    wanted = f"the speed of the earlier receipt, less {margin:.0%} or the noise"
    for which, point in (("this run", now), ("the earlier receipt", before)):
        if point.failed or len(point.rounds) < LEAST_ROUNDS:
            measured = f"{which}: {len(point.rounds)} rounds, {point.failed} requests failed"
            step = f"run the bench again: {LEAST_ROUNDS} rounds without a failed request"
            return Judged(Verdict.INCONCLUSIVE, measured, wanted, step)
    if now.asked != before.asked:
        measured = f"{_asked(now)}; the earlier receipt: {_asked(before)}"
        return Judged(Verdict.INCONCLUSIVE, measured, wanted, "give both runs the same prompts")
    return _compare(now, before, margin, wanted)


def _asked(point: SpeedPoint) -> str:
    return "{} prompts, {} tokens in, {} out".format(*point.asked)


def within(now: SpeedPoint, step_ms: float) -> Judged:
    """Hold a run to the longest decode step that the profile allows."""
    slow = all(each.step_ms > step_ms for each in now.rounds)
    wanted = f"a step of at most {step_ms:g} ms"
    return Judged(Verdict.FAIL if slow else Verdict.PASS, f"{now}", wanted, STEPS["step"])


STEPS = {
    "acceptance": "the draft drafts worse: see the check accept-length, and what changed in it",
    "step": "steps take longer: see draft-graph and verify-graph, the GPUs' clocks, other load",
    "queueing": "requests wait: look for other users, the limit of running requests, slow prefills",
    "": "compare the two receipts with `dflash-kit report diff`",
}


def _compare(now: SpeedPoint, before: SpeedPoint, margin: float, wanted: str) -> Judged:
    def compared(name: str) -> Change:
        return change(_series(now, name), _series(before, name), margin)

    speed, acceptance, step = map(compared, ("tok_s", "acceptance", "step"))
    causes = {"acceptance": acceptance, "step": step, "queueing": compared("queueing")}
    said = [
        _said(name, now, before) for name, cause in causes.items() if cause.worse or cause.better
    ]
    what = "; ".join(said) or f"acceptance, step and queueing as before within {speed.margin:.0%}"
    measured = f"{now.tok_s:.1f} tok/s, {speed.ratio:.2f} of the earlier: {what}"
    gated = (speed, acceptance, step)
    if any(each.worse for each in gated):
        worse = [name for name, cause in causes.items() if cause.worse]
        first = min(worse, key=lambda name: causes[name].ratio, default="")
        return Judged(Verdict.FAIL, measured, wanted, STEPS[first])
    if any(each.fell for each in gated) or speed.noise > MOST_NOISE:
        measured = f"{measured}; rounds vary by {speed.noise:.0%} and overlap"
        again = "run the bench again while the host does nothing else"
        return Judged(Verdict.INCONCLUSIVE, measured, f"noise of at most {MOST_NOISE:.0%}", again)
    return Judged(Verdict.PASS, measured, wanted)


def _series(point: SpeedPoint, name: str) -> list[float]:
    """A quantity round by round, so that more is better."""
    values: dict[str, Iterable[float]] = {
        "tok_s": (each.tok_s for each in point.rounds),
        "acceptance": (each.accept_length or 1.0 for each in point.rounds),
        "step": (1 / each.step_ms for each in point.rounds),
        "queueing": (decoding(each.tok_s, each.tpot_ms, point) for each in point.rounds),
    }
    return list(values[name])


def decoding(tok_s: float, tpot_ms: float, point: SpeedPoint) -> float:
    """The share of the time in which a request decodes; the rest it waits, or is prefilled."""
    return tok_s * tpot_ms / (1000 * point.concurrency)


def _said(name: str, now: SpeedPoint, before: SpeedPoint) -> str:
    if name == "acceptance":
        return f"acceptance {now.accept_length or 1:.2f} after {before.accept_length or 1:.2f}"
    if name == "step":
        return f"step {now.step_ms:.2f} ms after {before.step_ms:.2f} ms"
    shares = [median(_series(point, name)) for point in (now, before)]
    said = f"queueing: requests decode {shares[0]:.0%} of the time after {shares[1]:.0%}"
    if now.queue_ms is not None and before.queue_ms is not None:
        said += f", wait {now.queue_ms:.0f} ms after {before.queue_ms:.0f} ms"
    return said
