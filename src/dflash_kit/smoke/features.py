"""Whether a deployment supports a feature of the API, and the verdict on what came of asking."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from dflash_kit.errors import InputError
from dflash_kit.profiles.models import NO_ACCELERATOR, Profile
from dflash_kit.releases import engine_data
from dflash_kit.smoke.client import Refused
from dflash_kit.smoke.suite import Check

SUPPORTED = "supported"
UPDATE = "works: update the data in images/{release}/engine.yaml"


@dataclass(frozen=True)
class Support:
    """What the data of `release` say of a feature at this deployment; `why` if it is missing."""

    release: str
    why: str = ""


def support(name: str, release: str, profile: Profile, dflash: bool) -> Support:
    """What is declared of feature `name`.

    Raises:
        InputError: the release's data do not know the feature.
    """
    features = engine_data.load(release).features
    if name not in features:
        raise InputError(f"images/{release}/engine.yaml: features: lacks {name}; declare it")
    feature = features[name]
    gpu = profile.hardware.accelerator != NO_ACCELERATOR
    applies = {"always": True, "dflash": dflash, "dflash-cpu": dflash and not gpu}[feature.when]
    missing = not feature.supported and applies
    return Support(release, f"{release}: {feature.why}" if missing else "")


def judge(check: Check, declared: Support, probe: Callable[[], list[str]]) -> None:
    """Hold what `probe` finds wrong against what is declared.

    What is declared as missing is skipped if it is refused or does not work, and is a WARN if it
    works after all. Whatever fails otherwise than by 4xx fails the check in either case.
    """
    try:
        problems = probe()
    except Refused as refusal:
        problems = [str(refusal)]
    if declared.why:
        if problems:
            check.skip(declared.why)
        check.warn(
            f"{SUPPORTED}, though declared otherwise",
            declared.why,
            UPDATE.format(release=declared.release),
        )
        return
    check(
        ok=not problems,
        measured="; ".join(problems) or "as asked",
        wanted=SUPPORTED,
        next_step="see the engine's log; if the release is not meant to do this, say so in "
        f"images/{declared.release}/engine.yaml",
    )
