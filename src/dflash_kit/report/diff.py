"""What two receipts differ in: what went in, and what came of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from statistics import median
from typing import Any

from dflash_kit.errors import InputError
from dflash_kit.profiles.load import load_profile
from dflash_kit.profiles.models import Profile
from dflash_kit.smoke.receipt import Receipt
from dflash_kit.smoke.speed import Round, SpeedPoint
from dflash_kit.smoke.speed_gate import LEAST_ROUNDS, change
from dflash_kit.verdicts import Verdict

QUANTITIES: dict[str, Callable[[Round], float | None]] = {
    "tok/s": lambda each: each.tok_s,
    "acceptance": lambda each: each.accept_length,
    "step ms": lambda each: each.step_ms,
    "queue ms": lambda each: each.queue_ms,
    "first token ms, p50": lambda each: each.ttft_ms.p50,
    "first token ms, p99": lambda each: each.ttft_ms.p99,
    "between tokens ms, p50": lambda each: each.itl_ms.p50,
    "between tokens ms, p99": lambda each: each.itl_ms.p99,
    "whole request ms, p50": lambda each: each.e2e_ms.p50,
    "whole request ms, p99": lambda each: each.e2e_ms.p99,
}
MORE_IS_BETTER = {"tok/s", "acceptance"}
NOT_MEASURED = "not measured"


@dataclass(frozen=True)
class Input:
    """Something that went in, and differs."""

    name: str
    a: str
    b: str


@dataclass(frozen=True)
class Check:
    """A check whose answer differs; None where a receipt has no such check."""

    code: str
    a: Verdict | None
    b: Verdict | None
    measured: str
    next_step: str

    @property
    def worse(self) -> bool:
        return self.b is Verdict.FAIL and self.a is not Verdict.FAIL

    @property
    def lost(self) -> bool:
        """It passed, and B can no longer say so."""
        return self.a is Verdict.PASS and self.b in (None, Verdict.INCONCLUSIVE)


@dataclass(frozen=True)
class Figure:
    """A figure of both; `ratio` is B's as a share of A's, `noise` None where nothing was repeated.

    meaning: better, worse, within noise, or why that cannot be said.
    """

    name: str
    a: float | None
    b: float | None
    ratio: float | None
    noise: float | None
    meaning: str


@dataclass(frozen=True)
class Diff:
    """B against A."""

    verdicts: tuple[Verdict, Verdict]
    inputs: Sequence[Input]
    patches_added: Sequence[str]
    patches_removed: Sequence[str]
    checks: Sequence[Check]
    figures: Sequence[Figure]

    @property
    def verdict(self) -> Verdict:
        """FAIL: B is worse. INCONCLUSIVE: B no longer proves what A did. Else PASS."""
        slower = any(figure.meaning == "worse" for figure in self.figures)
        if slower or any(check.worse for check in self.checks):
            return Verdict.FAIL
        lost = any(check.lost for check in self.checks)
        return Verdict.INCONCLUSIVE if lost else Verdict.PASS


def compare(a: Receipt, b: Receipt) -> Diff:
    """What changed from receipt `a` to receipt `b`."""
    before, after = _patches(a), _patches(b)
    return Diff(
        verdicts=(a.verdict, b.verdict),
        inputs=list(_inputs(a, b)),
        patches_added=[name for name in after if name not in before],
        patches_removed=[name for name in before if name not in after],
        checks=list(_checks(a, b)),
        figures=[*_figures(a, b), *_speeds(a, b)],
    )


def _patches(receipt: Receipt) -> list[str]:
    patches = receipt.identity.get("patches")
    return [str(name) for name in patches] if isinstance(patches, list) else []


def _facts(receipt: Receipt) -> dict[str, Any]:
    """What decides a run's outcome, by name."""
    ours = receipt.model_dump(mode="json")
    named = ("release", "image", "profile", "point", "tier", "deployment", "url", "schema_version")
    facts = {name: ours[name] for name in named}
    facts |= {f"host {name}": value for name, value in ours["host"].items()}
    # Patches are told one by one, and the GPUs are those of the host.
    apart = ("patches", "gpus", "driver")
    told = {name: value for name, value in receipt.identity.items() if name not in apart}
    facts |= {f"identity {name}": value for name, value in told.items()}
    return facts | {f"engine {name}": value for name, value in receipt.engine.items()}


def _inputs(a: Receipt, b: Receipt) -> Iterator[Input]:
    before, after = _facts(a), _facts(b)
    for name in dict.fromkeys([*before, *after]):
        if before.get(name) != after.get(name):
            yield Input(name, _shown(before.get(name)), _shown(after.get(name)))


def _shown(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "none"
    return "unknown" if value is None else str(value)


def _checks(a: Receipt, b: Receipt) -> Iterator[Check]:
    before, after = ({x.code: x for x in receipt.checks} for receipt in (a, b))
    for code in dict.fromkeys([*before, *after]):
        old, new = before.get(code), after.get(code)
        was, now = old.verdict if old else None, new.verdict if new else None
        if was is not now:
            measured, step = (new.measured, new.next_step) if new else ("not asked", "")
            yield Check(code, was, now, measured, step)


def _figures(a: Receipt, b: Receipt) -> Iterator[Figure]:
    """Figures of a single measurement: their ratio says nothing by itself."""
    for name in dict.fromkeys([*a.figures, *b.figures]):
        yield _single(name, a.figures.get(name), b.figures.get(name))


def _single(name: str, a: float | None, b: float | None) -> Figure:
    if a is None or b is None:
        return Figure(name, a, b, None, None, NOT_MEASURED + (" in A" if a is None else " in B"))
    meaning = "the same" if a == b else "noise not measured"
    return Figure(name, a, b, b / a if a else None, None, meaning)


def _margin(*receipts: Receipt) -> float:
    """What two starts of one deployment may differ by, as their profiles say."""
    known = [float(Profile.model_fields["start_noise"].default)]
    for receipt in receipts:
        try:
            known.append(load_profile(receipt.profile or "").start_noise)
        except InputError:
            continue  # a profile of another kit
    return max(known)


def _speeds(a: Receipt, b: Receipt) -> Iterator[Figure]:
    margin = _margin(a, b)
    before, after = ({x.concurrency: x for x in receipt.speed} for receipt in (a, b))
    for concurrency in sorted(before | after):
        for name in QUANTITIES:
            figure = _quantity(name, before.get(concurrency), after.get(concurrency), margin)
            if figure.a is not None or figure.b is not None:
                yield replace(figure, name=f"C={concurrency} {name}")


def _quantity(name: str, a: SpeedPoint | None, b: SpeedPoint | None, margin: float) -> Figure:
    old, new = _rounds(name, a), _rounds(name, b)
    single = _single(name, median(old) if old else None, median(new) if new else None)
    if not old or not new or min(*old, *new) <= 0:  # a figure of 0 is no share of anything
        return single
    if a and b and a.asked != b.asked:
        return replace(single, meaning="other prompts")
    if min(len(old), len(new)) < LEAST_ROUNDS:
        return replace(single, meaning=f"fewer than {LEAST_ROUNDS} rounds")
    more = name in MORE_IS_BETTER
    found = change(new if more else _inverse(new), old if more else _inverse(old), margin)
    meaning = "worse" if found.worse else "better" if found.better else "within noise"
    return replace(single, noise=found.noise, meaning=meaning)


def _rounds(name: str, point: SpeedPoint | None) -> list[float]:
    values = [QUANTITIES[name](each) for each in point.rounds] if point else []
    return [value for value in values if value is not None]


def _inverse(values: Sequence[float]) -> list[float]:
    return [1 / value for value in values]


def as_plain(diff: Diff) -> Mapping[str, Any]:
    """For JSON."""
    return {"verdict": diff.verdict, **asdict(diff)}
