"""Which GPUs this host has, and which profile goes with them."""

import shutil
import subprocess
from collections import Counter
from pathlib import Path

from dflash_kit.errors import InputError, Undetermined
from dflash_kit.profiles.load import load_profile, profile_names
from dflash_kit.profiles.models import NO_ACCELERATOR, Profile

_NVIDIA_SMI = "nvidia-smi"
# A driver that hangs would hold this process for ever.
_TIMEOUT_SECONDS = 30.0
_DEVICES = Path("/dev")


def gpus() -> list[str]:
    """Product names of the GPUs here, one entry a GPU; empty where there is none.

    Undetermined where a GPU's device file exists but the driver does not say what it is.
    """
    return _query("name")


def driver() -> str:
    """The version of the GPU driver; Undetermined as gpus()."""
    return ", ".join(sorted(set(_query("driver_version"))))


def _query(field: str) -> list[str]:
    """`field` of each GPU, as nvidia-smi prints it."""
    if shutil.which(_NVIDIA_SMI):
        code, said = _run([_NVIDIA_SMI, f"--query-gpu={field}", "--format=csv,noheader"])
        if code == 0:
            return [line.strip() for line in said.splitlines() if line.strip()]
        reason = said.strip().replace("\n", " ")
    else:
        reason = f"{_NVIDIA_SMI} is not on the PATH"
    devices = sorted(str(path) for path in _DEVICES.glob("nvidia[0-9]*"))
    if devices:
        raise Undetermined(f"GPU: {', '.join(devices)} exist, but: {reason}; name a profile")
    return []


def _run(command: list[str]) -> tuple[int, str]:
    """Exit code and output; Undetermined where it does not end."""
    # Not subprocess.run: it waits for what it has killed, and a process that hangs in the driver
    # cannot be killed.
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
    )
    try:
        said, _ = process.communicate(timeout=_TIMEOUT_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        raise Undetermined(
            f"GPU: {command[0]} gave no answer in {_TIMEOUT_SECONDS:g} s: the driver hangs; "
            "restart the host"
        ) from None
    return process.returncode, said


def accepts(profile: Profile, found: list[str]) -> bool:
    """Whether `profile` can be served where the GPUs `found` are; one without needs none."""
    hardware = profile.hardware
    return hardware.accelerator == NO_ACCELERATOR or found == (
        [hardware.accelerator] * hardware.count
    )


def detect(found: list[str]) -> Profile:
    """The one profile made for the GPUs `found`, or InputError naming them and the profiles."""
    profiles = [load_profile(name) for name in profile_names()]
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


def describe(found: list[str]) -> str:
    """`8 x NVIDIA B300`, or `no GPU`."""
    return ", ".join(f"{n} x {name}" for name, n in Counter(found).items()) or "no GPU"


def describe_hardware(profile: Profile) -> str:
    """What `profile` needs, in the same words."""
    hardware = profile.hardware
    return describe([hardware.accelerator] * hardware.count)
