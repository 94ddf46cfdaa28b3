"""Checks of the GPUs themselves and of their driver."""

from collections import Counter
from collections.abc import Callable

from dflash_kit.host import parse
from dflash_kit.host.check import Check, Found, listed, with_gpus
from dflash_kit.host.driver import cuda_version, first_driver
from dflash_kit.host.facts import Host, Unknown
from dflash_kit.profiles.models import Profile
from dflash_kit.releases.current import default_release
from dflash_kit.verdicts import Verdict

# Faults of a program, not of the GPU: https://docs.nvidia.com/deploy/xid-errors/
_PROGRAM_XIDS = (13, 31, 43, 45)


def count(host: Host, profile: Profile) -> Found:
    found, wanted = len(host.gpus), profile.hardware.count
    return Found(found == wanted, _number_of(found), _number_of(wanted))


def name(host: Host, profile: Profile) -> Found:
    names = Counter(gpu.name for gpu in _gpus(host))
    wanted = profile.hardware.accelerators
    good = len(names) == 1 and names.keys() <= set(wanted)
    measured = listed([f"{n} x {name}" for name, n in names.items()])
    return Found(good, measured, f"all alike, one of: {listed(wanted)}")


def capability(host: Host, profile: Profile) -> Found:
    wanted = profile.hardware.compute_capability
    if wanted is None:
        return _not_asked()
    return _each(host, lambda gpu: gpu.capability, lambda said: said == wanted, wanted)


def memory(host: Host, profile: Profile) -> Found:
    wanted = profile.hardware.gpu_memory_mib
    if wanted is None:
        return _not_asked()
    return _each(
        host,
        lambda gpu: "unknown" if gpu.memory_mib is None else f"{gpu.memory_mib:.0f} MiB",
        lambda said: (parse.number(said) or 0) >= wanted,
        f"{wanted} MiB",
    )


def mig(host: Host, profile: Profile) -> Found:
    # Cards without MIG say [N/A].
    return _each(host, lambda gpu: gpu.mig, lambda said: said != "Enabled", "Disabled")


def persistence(host: Host, profile: Profile) -> Found:
    return _each(host, lambda gpu: gpu.persistence, lambda said: said == "Enabled", "Enabled")


def driver(host: Host, profile: Profile) -> Found:
    cuda = cuda_version(default_release())
    wanted = first_driver(cuda)
    return _each(
        host,
        lambda gpu: gpu.driver,
        lambda said: parse.version(said) >= parse.version(wanted),
        f"{wanted} or newer for CUDA {cuda}",
    )


def kernel_module(host: Host, profile: Profile) -> Found:
    said = host.file("/proc/driver/nvidia/version")
    first = said.splitlines()[0] if said.strip() else "nothing"
    return Found("Open Kernel Module" in first, first.strip(), "the open kernel module")


def ecc(host: Host, profile: Profile) -> Found:
    now, ever = [], []
    for row in parse.csv_rows(host.said("gpu-ecc")):
        gpu = f"GPU {row.get('index')}"
        if parse.number(row.get("ecc.errors.uncorrected.volatile.total", "")):
            now.append(gpu)
        if parse.number(row.get("ecc.errors.uncorrected.aggregate.total", "")):
            ever.append(gpu)
    measured = f"uncorrected since the driver was loaded: {listed(now)}; ever: {listed(ever)}"
    return Found(not now and (Verdict.WARN if ever else True), measured, "none")


def rows(host: Host, profile: Profile) -> Found:
    """Memory rows that are to be, or could not be, replaced."""
    marked = [
        f"{row.get('gpu_uuid')} {what}"
        for row in parse.csv_rows(host.said("gpu-rows"))
        for what in ("pending", "failure")
        if row.get(f"remapped_rows.{what}") == "Yes"
    ]
    return Found(not marked, listed(marked), "no row pending or failed")


def processes(host: Host, profile: Profile) -> Found:
    """An engine of this kit may run: it is what a deploy replaces."""
    rows = parse.csv_rows(host.said("gpu-processes"))
    cgroups = {pid: cgroup for pid, (_, cgroup) in host.processes().items()}
    own = [str(row.get("ID")) for row in host.own_containers()] if rows else []
    others = [
        f"{row.get('process_name')} (pid {row.get('pid')})"
        for row in rows
        if not any(ident in cgroups.get(row.get("pid", ""), "") for ident in own if ident)
    ]
    return Found(not others, listed(others), "none but an engine of this kit")


def xid(host: Host, profile: Profile) -> Found:
    codes = parse.xids(kernel_log(host))
    counts = listed([f"Xid {code} x {n}" for code, n in sorted(Counter(codes).items())])
    mild = all(code in _PROGRAM_XIDS for code in codes)
    return Found(not codes or (mild and Verdict.WARN), counts, "no Xid since the start")


def kernel_log(host: Host) -> str:
    """The lines kept of the kernel's log; Unknown where nobody may read it."""
    for source in ("journal", "dmesg"):
        try:
            if log := host.said(source):
                return log
        except Unknown:
            continue
    raise Unknown("the kernel log: not readable")


def pcie_width(host: Host, profile: Profile) -> Found:
    wanted = profile.hardware.pcie
    if wanted is None:
        return _not_asked()
    return _slots(host, "pcie.link.width.current", "x", wanted.width)


def pcie_generation(host: Host, profile: Profile) -> Found:
    """What the link can do: an idle GPU runs it slower."""
    wanted = profile.hardware.pcie
    if wanted is None:
        return _not_asked()
    return _slots(host, "pcie.link.gen.max", "generation ", wanted.generation)


def _slots(host: Host, field: str, unit: str, wanted: int) -> Found:
    rows = parse.csv_rows(host.said("gpu-pcie"))
    if not rows:
        raise Unknown("gpu-pcie: nvidia-smi lists no GPU")
    slow = [
        f"GPU {row.get('index')} {unit}{row.get(field)}"
        for row in rows
        if (parse.number(row.get(field, "")) or 0) < wanted
    ]
    return Found(not slow, listed(slow) if slow else f"all {unit}{wanted}", f"{unit}{wanted}")


def _number_of(gpus: int) -> str:
    return f"{gpus} GPU" if gpus == 1 else f"{gpus} GPUs"


def _gpus(host: Host) -> list[parse.Gpu]:
    if not host.gpus:
        raise Unknown("no GPU")
    return host.gpus


def _each(
    host: Host, tell: Callable[[parse.Gpu], str], good: Callable[[str], bool], wanted: str
) -> Found:
    """Whether all GPUs are `good` in what `tell` says of them; the others are named."""
    bad = [f"GPU {gpu.index} {tell(gpu)}" for gpu in _gpus(host) if not good(tell(gpu))]
    same = sorted({tell(gpu) for gpu in host.gpus})
    return Found(not bad, listed(bad or same), wanted)


def _not_asked() -> Found:
    return Found(Verdict.SKIP, "not asked for by the profile", "nothing")


FIT = (
    Check("gpu-count", count, "seat, power or reset the missing GPUs (dmesg, lspci)", with_gpus),
    Check("gpu-name", name, "use the profile of this host's GPUs (profile detect)", with_gpus),
    Check(
        "compute-capability",
        capability,
        "use the profile of this host's GPUs (profile detect)",
        with_gpus,
    ),
    Check("gpu-memory", memory, "use the profile of this host's GPUs (profile detect)", with_gpus),
    Check("mig", mig, "switch MIG off: nvidia-smi -mig 0, then reset the GPUs", with_gpus),
    Check(
        "driver", driver, "upgrade the GPU driver, or take a release of an older CUDA", with_gpus
    ),
)
CHECKS = (
    *FIT,
    Check(
        "kernel-module",
        kernel_module,
        "install the driver's open kernel module: Blackwell has no other",
        with_gpus,
    ),
    Check(
        "persistence",
        persistence,
        "enable nvidia-persistenced, or nvidia-smi -pm 1",
        with_gpus,
        Verdict.WARN,
    ),
    Check("ecc", ecc, "run dcgmi diag -r 1; have the GPU replaced where errors return", with_gpus),
    Check("rows", rows, "reset the GPU; have it replaced where a remapping failed", with_gpus),
    Check("gpu-processes", processes, "end what else uses the GPUs", with_gpus),
    Check(
        "xid",
        xid,
        "look the number up in NVIDIA's list of Xid errors; reset the GPU or restart the host",
        with_gpus,
    ),
    Check("pcie-width", pcie_width, "reseat the GPU or its riser: lanes are missing", with_gpus),
    Check(
        "pcie-generation",
        pcie_generation,
        "set the slot to its full generation in the firmware",
        with_gpus,
    ),
)
