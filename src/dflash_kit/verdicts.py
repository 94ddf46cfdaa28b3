"""The answer of a check, and the record of one: the smoke test and the preflight speak the same."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

from pydantic import BaseModel


class Verdict(StrEnum):
    """The answer of one check. SKIP: the check has no meaning for this deployment."""

    PASS = "PASS"
    FAIL = "FAIL"
    WARN = "WARN"
    INCONCLUSIVE = "INCONCLUSIVE"
    SKIP = "SKIP"


class Record(BaseModel):
    """One check: its stable code, what was measured, what was wanted, what to do next."""

    code: str
    verdict: Verdict
    measured: str
    wanted: str
    next_step: str = ""
    seconds: float = 0.0


def overall(records: Iterable[Record]) -> Verdict:
    """FAIL if any check failed, else INCONCLUSIVE if any could not be judged, else PASS."""
    verdicts = {record.verdict for record in records}
    for worst in (Verdict.FAIL, Verdict.INCONCLUSIVE):
        if worst in verdicts:
            return worst
    return Verdict.PASS


# The exit code of a command whose checks come to this verdict together.
EXIT_CODES = {Verdict.PASS: 0, Verdict.FAIL: 1, Verdict.INCONCLUSIVE: 3}
