"""Checks of what lies between the GPUs, and between them and a container."""

import re
from collections import Counter

from dflash_kit.host import parse
from dflash_kit.host.check import Check, Found, listed, over_nvlink, over_pcie, with_gpus
from dflash_kit.host.facts import Host, Unknown
from dflash_kit.profiles.models import NvLink, Profile
from dflash_kit.verdicts import Verdict

# What nvidia-smi calls two GPUs that meet over PCIe, the nearest first.
_PCIE_CLASSES = ("PIX", "PXB", "PHB", "NODE", "SYS")
# From here on it writes and refreshes the CDI specification by itself.
_TOOLKIT = (1, 18)


def topology(host: Host, profile: Profile) -> Found:
    """NVLink between all, or any kind of PCIe path, as the profile has it."""
    classes = _classes(host)
    link = profile.hardware.nvlink
    allowed = _PCIE_CLASSES if link is None else (f"NV{link.links}",)
    found = Counter(said for others in classes.values() for said in others.values())
    far = {gpu for gpu, others in classes.items() if not set(others.values()) <= set(allowed)}
    # One GPU without its links spoils a pair with every other: name it, not its peers.
    worst = Counter(
        gpu for gpu in far for said in classes[gpu].values() if said not in allowed
    ).most_common()
    named = [gpu for gpu, n in worst if n == worst[0][1]]
    measured = listed([f"{n // 2} x {said}" for said, n in sorted(found.items())])
    if named:
        measured += f" (by {listed(sorted(named))})"
    return Found(not far, measured, f"only {listed([*allowed])}")


def topology_odd(host: Host, profile: Profile) -> Found:
    """A GPU whose paths differ from those that all others have in common."""
    shapes = {gpu: tuple(sorted(others.values())) for gpu, others in _classes(host).items()}
    counts = Counter(shapes.values())
    odd = [gpu for gpu, shape in shapes.items() if counts[shape] == 1]
    one = len(odd) == 1 and len(shapes) > 2
    return Found(not one, f"odd GPU out: {odd[0] if one else 'none'}", "all GPUs alike")


def _classes(host: Host) -> parse.Matrix:
    classes = parse.matrix(host.said("topo-m"))
    if not any(classes.values()):
        raise Unknown("topo-m: nvidia-smi shows no pair of GPUs")
    return classes


def p2p(host: Host, profile: Profile) -> Found:
    pairs = parse.matrix(host.said("topo-p2p-r"))
    if not any(pairs.values()):
        raise Unknown("topo-p2p-r: nvidia-smi shows no pair of GPUs")
    bad = [
        f"{gpu}-{other} {said}"
        for gpu, others in pairs.items()
        for other, said in others.items()
        if said != "OK"
    ]
    return Found(not bad, listed(bad[:4]) + (" ..." if len(bad) > 4 else ""), "OK between all")


def iommu(host: Host, profile: Profile) -> Found:
    """Off, or passing GPUs through: translated addresses break or slow transfers between GPUs."""
    host.file("/proc/cmdline")  # without it nothing of the kernel was readable
    kinds = {text.strip() for text in host.files("/sys/bus/pci/drivers/nvidia/").values()}
    return Found(kinds <= {"identity"}, f"{listed(sorted(kinds))}", "off, or identity (iommu=pt)")


def acs(host: Host, profile: Profile) -> Found:
    bridges, said = parse.acs_bridges(host.said("lspci"))
    if not said:
        raise Unknown("lspci: shows no ACSCtl")
    return Found(not bridges, f"on at: {listed(bridges)}", "off on all bridges")


def aspm(host: Host, profile: Profile) -> Found:
    chosen = re.search(r"\[(\w+)\]", host.file("/sys/module/pcie_aspm/parameters/policy"))
    policy = chosen.group(1) if chosen else "unknown"
    off = "pcie_aspm=off" in host.file("/proc/cmdline").split()
    return Found(off or policy == "performance", policy, "off or performance")


def hmm(host: Host, profile: Profile) -> Found:
    state = host.file("/sys/module/nvidia_uvm/parameters/uvm_disable_hmm").strip()
    return Found(state == "Y", f"uvm_disable_hmm={state}", "uvm_disable_hmm=Y")


def rebar(host: Host, profile: Profile) -> Found:
    """Whether each GPU shows all its memory on the bus."""
    windows = parse.bar1_mib(host.said("gpu-memory"))
    if not windows:
        raise Unknown("gpu-memory: nvidia-smi shows no BAR1")
    wanted = profile.hardware.gpu_memory_mib or 0
    return Found(min(windows) >= wanted, f"BAR1 {min(windows):.0f} MiB", f"{wanted} MiB")


def nvlink_count(host: Host, profile: Profile) -> Found:
    wanted, links = _links(host, profile)
    up = {gpu: sum(speed > 0 for speed in speeds) for gpu, speeds in links.items()}
    short = [f"{gpu} {n}" for gpu, n in up.items() if n < wanted.links]
    return Found(not short, listed(short) if short else "all up", f"{wanted.links} links each")


def nvlink_speed(host: Host, profile: Profile) -> Found:
    wanted, links = _links(host, profile)
    slow = [
        f"{gpu} {min(running):g} GB/s"
        for gpu, speeds in links.items()
        if (running := [x for x in speeds if x]) and min(running) < wanted.gb_s
    ]
    good = f"at least {wanted.gb_s:g} GB/s a link"
    return Found(not slow, listed(slow) if slow else "all at full speed", good)


def _links(host: Host, profile: Profile) -> tuple[NvLink, dict[str, list[float]]]:
    links = parse.nvlinks(host.said("nvlink-status"))
    if not links or profile.hardware.nvlink is None:
        raise Unknown("nvlink-status: nvidia-smi shows no link")
    return profile.hardware.nvlink, links


def fabric_manager(host: Host, profile: Profile) -> Found:
    _, state = host.answer("fabricmanager-state")
    return Found(state.strip() == "active", state.strip(), "active")


def fabric_version(host: Host, profile: Profile) -> Found:
    """It refuses to work with any driver but its own."""
    version = parse.version_text(host.said("fabricmanager-version"))
    return Found(version == host.driver, version or "unknown", host.driver)


def fabric_state(host: Host, profile: Profile) -> Found:
    rows = parse.csv_rows(host.said("gpu-fabric"))
    bad = [
        f"GPU {row.get('index')} {row.get('fabric.state')} {row.get('fabric.status')}"
        for row in rows
        if (row.get("fabric.state"), row.get("fabric.status")) != ("Completed", "Success")
    ]
    if not rows:
        raise Unknown("gpu-fabric: nvidia-smi lists no GPU")
    return Found(not bad, listed(bad) if bad else "all Completed", "Completed, Success")


def nvlsm(host: Host, profile: Profile) -> Found:
    running = any(name == "nvlsm" for name, _ in host.processes().values())
    return Found(running, "running" if running else "not running", "running")


def ib_umad(host: Host, profile: Profile) -> Found:
    loaded = any(line.startswith("ib_umad ") for line in host.file("/proc/modules").splitlines())
    return Found(loaded, "loaded" if loaded else "not loaded", "loaded")


def toolkit(host: Host, profile: Profile) -> Found:
    wanted = f"at least {'.'.join(map(str, _TOOLKIT))}"
    if host.missing("nvidia-ctk"):
        return Found(False, "not installed", wanted)
    version = parse.version_text(host.said("nvidia-ctk"))
    # An older one works; only its CDI specification does not follow the driver by itself.
    good = parse.version(version) >= _TOOLKIT or (bool(version) and Verdict.WARN)
    return Found(good, version or "unknown", wanted)


def cdi(host: Host, profile: Profile) -> Found:
    """A specification that names the files of the driver that is loaded."""
    specs = {**host.files("/etc/cdi/"), **host.files("/var/run/cdi/")}
    ours = [path for path, text in specs.items() if "nvidia.com/gpu" in text]
    current = [path for path in ours if f".so.{host.driver}" in specs[path]]
    measured = listed(ours) + ("" if current or not ours else ", of another driver")
    return Found(bool(current), measured, f"a specification of driver {host.driver}")


_FABRIC = "start nvidia-fabricmanager of the driver's own version, then look into its log"
CHECKS = (
    Check("topology", topology, "look for links that are down or a GPU elsewhere", over_nvlink),
    Check("topology", topology, "see nvidia-smi topo -m", over_pcie),
    Check(
        "topology-odd",
        topology_odd,
        "move the GPU to the slot that its peers' pattern leaves empty",
        over_pcie,
        Verdict.WARN,
    ),
    Check("p2p", p2p, "switch ACS and the IOMMU off; see the driver's ForceP2P options", over_pcie),
    Check("iommu", iommu, "boot with iommu=off amd_iommu=off, or iommu=pt", over_pcie),
    Check("acs", acs, "switch ACS off in the firmware or by setpci (pciutils, as root)", over_pcie),
    Check("aspm", aspm, "boot with pcie_aspm=off", over_pcie, Verdict.WARN),
    Check("hmm", hmm, "options nvidia_uvm uvm_disable_hmm=1", over_pcie, Verdict.WARN),
    Check("rebar", rebar, "enable Above 4G Decoding and Resizable BAR in the firmware", over_pcie),
    Check("nvlink-count", nvlink_count, _FABRIC, over_nvlink),
    Check("nvlink-speed", nvlink_speed, _FABRIC, over_nvlink),
    Check("fabric-manager", fabric_manager, _FABRIC, over_nvlink),
    Check("fabric-version", fabric_version, _FABRIC, over_nvlink),
    Check("fabric-state", fabric_state, _FABRIC, over_nvlink),
    Check("nvlsm", nvlsm, "install nvlsm; nvidia-fabricmanager starts it", over_nvlink),
    Check("ib-umad", ib_umad, "modprobe ib_umad, and list it in /etc/modules-load.d", over_nvlink),
    Check("container-toolkit", toolkit, "install nvidia-container-toolkit", with_gpus),
    Check(
        "cdi",
        cdi,
        "nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml, again after each new driver",
        with_gpus,
    ),
)
