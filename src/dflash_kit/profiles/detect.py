"""Which GPUs this host has, and which profile goes with them."""

from collections import Counter
from pathlib import Path

from dflash_kit.errors import InputError, Undetermined
from dflash_kit.host import collect
from dflash_kit.host.facts import Host, Unknown
from dflash_kit.host.preflight import unfit
from dflash_kit.profiles.load import load_profile, profile_names
from dflash_kit.profiles.models import NO_ACCELERATOR, Profile

_TIMEOUT_SECONDS = 30.0
_DEVICES = Path("/dev")


def here() -> Host:
    """The GPUs of this host and their driver, as far as a profile asks for them.

    Undetermined where a GPU's device file exists but the driver does not say what it is.
    """
    answer = collect.run(collect.COMMANDS["gpus"], _TIMEOUT_SECONDS)
    if answer["rc"] == collect.TIMEOUT_RC:
        raise Undetermined(
            f"GPU: nvidia-smi gave {answer['stderr']}: the driver hangs; restart the host"
        )
    host = Host({"commands": {"gpus": answer}})
    devices = sorted(str(path) for path in _DEVICES.glob("nvidia[0-9]*"))
    try:
        found = bool(host.gpus)
        reason = "nvidia-smi is not on the PATH" if host.missing("gpus") else "it lists none"
    except Unknown as error:
        found, reason = False, str(error)
    if devices and not found:
        raise Undetermined(f"GPU: {', '.join(devices)} exist, but: {reason}; name a profile")
    return host if found else Host({"commands": {"gpus": answer | {"rc": collect.MISSING_RC}}})


def names(host: Host) -> list[str]:
    """Product names of the GPUs of `host`, one entry a GPU."""
    return [gpu.name for gpu in host.gpus]


def accepts(profile: Profile, found: list[str]) -> bool:
    """Whether `profile` is made for the GPUs `found`; one without needs none."""
    hardware = profile.hardware
    if hardware.accelerator == NO_ACCELERATOR:
        return True
    return any(found == [name] * hardware.count for name in hardware.accelerators)


def detect(found: list[str]) -> Profile:
    """The one profile made for the GPUs `found`, or InputError naming them and the profiles."""
    profiles = [p for p in map(load_profile, profile_names()) if p.detected]
    # A profile that needs no GPU would be accepted anywhere; it is chosen only where there is none.
    fitting = [p for p in profiles if accepts(p, found) and bool(p.hardware.count) == bool(found)]
    if len(fitting) == 1:
        return fitting[0]
    known = ", ".join(f"{p.name} ({describe_hardware(p)})" for p in profiles) or "none"
    count = "no" if not fitting else "more than one"
    raise InputError(
        f"{count} profile is made for this host: found {describe(found)}; profiles: {known}; "
        "name one with --profile"
    )


def refuse_unfit(profile: Profile, host: Host) -> None:
    """InputError, which names both, where `profile` cannot be served on the GPUs of `host`."""
    if records := unfit(host.collected, profile):
        got = [f"{x.code}: got {x.measured}, wanted {x.wanted}" for x in records]
        raise InputError(
            f"profile {profile.name}: wanted {describe_hardware(profile)}, this host has "
            f"{describe(names(host))}: {'; '.join(got)}; next: {records[0].next_step}"
        )


def describe(found: list[str]) -> str:
    """`8 x NVIDIA B300`, or `no GPU`."""
    return ", ".join(f"{n} x {name}" for name, n in Counter(found).items()) or "no GPU"


def describe_hardware(profile: Profile) -> str:
    """What `profile` needs, in the same words."""
    hardware = profile.hardware
    return describe([hardware.accelerator] * hardware.count)
