"""What a check of a host is. The checks themselves are in the modules named checks_*."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from dflash_kit.host.facts import Host, Unknown
from dflash_kit.profiles.models import Profile
from dflash_kit.verdicts import Record, Verdict


class Found(NamedTuple):
    """The answer of one check; `verdict` True is PASS, False the check's own `bad` verdict."""

    verdict: bool | Verdict
    measured: str
    wanted: str


def always(profile: Profile) -> bool:
    """Applies to every profile."""
    return True


def with_gpus(profile: Profile) -> bool:
    """Applies where the profile uses GPUs."""
    return profile.hardware.count > 0


def over_pcie(profile: Profile) -> bool:
    """Applies where several GPUs speak to each other over PCIe."""
    return profile.hardware.count > 1 and profile.hardware.nvlink is None


def over_nvlink(profile: Profile) -> bool:
    """Applies where several GPUs speak to each other over NVLink."""
    return profile.hardware.count > 1 and profile.hardware.nvlink is not None


@dataclass(frozen=True)
class Check:
    """One check: a stable code, a pure judgement, and what to do where it does not pass."""

    code: str
    judge: Callable[[Host, Profile], Found]
    next_step: str
    applies: Callable[[Profile], bool] = always
    bad: Verdict = Verdict.FAIL

    def record(self, host: Host, profile: Profile) -> Record:
        """The check's record for `host`; INCONCLUSIVE where a fact that it needs is not there."""
        try:
            verdict, measured, wanted = self.judge(host, profile)
        except Unknown as reason:
            # Where a bad answer would only warn, no answer does not weigh more.
            unknown = Verdict.WARN if self.bad is Verdict.WARN else Verdict.INCONCLUSIVE
            verdict, measured, wanted = unknown, str(reason), "an answer"
        if not isinstance(verdict, Verdict):
            verdict = Verdict.PASS if verdict else self.bad
        well = verdict in (Verdict.PASS, Verdict.SKIP)
        return Record(
            code=self.code,
            verdict=verdict,
            measured=measured,
            wanted=wanted,
            next_step="" if well else self.next_step,
        )


def listed(items: list[str]) -> str:
    """`a, b, c`, or `none`."""
    return ", ".join(items) or "none"
