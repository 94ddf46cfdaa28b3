"""Can this host take a deployment of this profile? All answers at once, before anything changes."""

from collections.abc import Collection, Mapping
from typing import Any

from dflash_kit.errors import InputError
from dflash_kit.host import checks_gpu, checks_link, checks_system
from dflash_kit.host.facts import Host
from dflash_kit.profiles.models import Profile
from dflash_kit.verdicts import Record, Verdict

CHECKS = (*checks_gpu.CHECKS, *checks_link.CHECKS, *checks_system.CHECKS)
CODES = tuple(dict.fromkeys(check.code for check in CHECKS))


def judge(
    collected: Mapping[str, Any], profile: Profile, demoted: Collection[str] = ()
) -> list[Record]:
    """One record a check that `profile` needs, in a fixed order.

    `collected` is the document of collect.py. A check named in `demoted` warns where it would fail
    or stay inconclusive.

    Raises:
        InputError: `demoted` names a check that does not exist.
    """
    if unknown := sorted(set(demoted) - set(CODES)):
        raise InputError(f"demoted: got {', '.join(unknown)}, wanted some of: {', '.join(CODES)}")
    host = Host(collected)
    records = [check.record(host, profile) for check in CHECKS if check.applies(profile)]
    return [_demote(record) if record.code in demoted else record for record in records]


def _demote(record: Record) -> Record:
    if record.verdict not in (Verdict.FAIL, Verdict.INCONCLUSIVE):
        return record
    return record.model_copy(update={"verdict": Verdict.WARN})


def unfit(collected: Mapping[str, Any], profile: Profile) -> list[Record]:
    """The checks by which `profile` cannot be served on these GPUs; empty if it can.

    Of `collected` only the command `gpus` is needed. What could not be told counts only where
    nothing is known to be wrong.
    """
    host = Host(collected)
    records = [check.record(host, profile) for check in checks_gpu.FIT if check.applies(profile)]
    failed = [record for record in records if record.verdict is Verdict.FAIL]
    return failed or [x for x in records if x.verdict is Verdict.INCONCLUSIVE]
