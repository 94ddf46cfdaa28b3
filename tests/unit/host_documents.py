"""Hosts that do not exist: documents as collect.py writes them, healthy, to be changed."""

import copy
import json
from typing import Any

RTX = "NVIDIA RTX PRO 6000 Blackwell Server Edition"
B300 = "NVIDIA B300 SXM6 AC"
DRIVER = "580.126.09"
Document = dict[str, Any]


def answer(stdout: str = "", rc: int = 0, stderr: str = "") -> Document:
    return {"command": [], "rc": rc, "stdout": stdout, "stderr": stderr}


MISSING = answer(rc=127, stderr="No such file or directory")


def csv(header: str, *rows: str) -> Document:
    return answer("\n".join([header, *rows]) + "\n")


def gpu_answer(
    name: str,
    count: int = 8,
    driver: str = DRIVER,
    capability: str = "12.0",
    memory: str = "97887 MiB",
    persistence: str = "Enabled",
    mig: str = "Disabled",
) -> Document:
    rows = [
        f"{i}, {name}, GPU-{i}, 00000000:{i:02X}:00.0, {driver}, {capability}, {memory}, 0 MiB, "
        f"{persistence}, {mig}, Enabled"
        for i in range(count)
    ]
    return csv(
        "index, name, uuid, pci.bus_id, driver_version, compute_cap, memory.total [MiB], "
        "memory.used [MiB], persistence_mode, mig.mode.current, ecc.mode.current",
        *rows,
    )


def matrix(cell: str, count: int = 8, odd: dict[tuple[int, int], str] | None = None) -> Document:
    """`cell` between all pairs but those of `odd`, both ways; marked up as real ones."""
    odd = odd or {}
    names = [f"GPU{i}" for i in range(count)]
    lines = ["\t\x1b[4m" + "\t".join(names) + "\tNIC0\tCPU Affinity\tNUMA Affinity\x1b[0m"]
    for i, name in enumerate(names):
        cells = [
            " X " if i == j else odd.get((i, j)) or odd.get((j, i)) or cell for j in range(count)
        ]
        lines.append("\t".join([name, *cells, "NODE", "0-63", "0"]))
    lines += ["NIC0\t" + "\t".join(["NODE"] * count) + "\t X ", "", "Legend:", "", "  X    = Self"]
    return answer("\n".join(lines) + "\n")


def switches() -> Document:
    """Two PCIe switches of four GPUs each."""
    far = {(i, j): "NODE" for i in range(4) for j in range(4, 8)}
    return matrix("PIX", odd=far)


def nvlinks(down: tuple[int, int] | None = None, speed: float = 53.125) -> Document:
    lines = []
    for gpu in range(8):
        lines.append(f"GPU {gpu}: {B300} (UUID: GPU-{gpu})")
        for link in range(18):
            state = "<inactive>" if (gpu, link) == down else f"{speed:g} GB/s"
            lines.append(f"\t Link {link}: {state}")
    return answer("\n".join(lines) + "\n")


def bar1(total: str = "98304") -> Document:
    gpu = f"GPU 00000000:00:00.0\n    BAR1 Memory Usage\n        Total    : {total} MiB\n"
    return answer("Attached GPUs : 8\n" + gpu * 8)


def lspci(acs: str = "SrcValid- TransBlk- ReqRedir- CmpltRedir-") -> Document:
    return answer(
        "00:01.1 PCI bridge: Advanced Micro Devices\n"
        f"\t\tACSCtl:\t{acs} UpstreamFwd- EgressCtrl-\n"
        "01:00.0 3D controller: NVIDIA Corporation\n"
    )


def file(text: str) -> Document:
    return {"text": text, "mtime": 1.0}


def _docker(version: str = "28.3.0") -> dict[str, Document]:
    info = {
        "MemoryLimit": True,
        "PidsLimit": True,
        "SecurityOptions": ["name=seccomp,profile=builtin", "name=cgroupns"],
        "CgroupVersion": "2",
        "DockerRootDir": "/var/lib/docker",
    }
    return {
        "docker-version": answer(json.dumps({"Server": {"Version": version}})),
        "docker-info": answer(json.dumps(info)),
        "docker-compose": answer("2.39.1\n"),
        "containers": answer(""),
    }


def disk(free_gib: float, kind: str = "ext4") -> Document:
    header = "Filesystem Type 1-blocks Used Available Capacity Mounted on\n"
    return answer(f"{header}/dev/md0 {kind} 8000000000000 1 {int(free_gib * 2**30)} 1% /\n")


def meminfo(total_gib: int, free_gib: int) -> Document:
    return file(f"MemTotal: {total_gib * 2**20} kB\nMemAvailable: {free_gib * 2**20} kB\n")


def limits(files: str = "1048576", locked: str = "unlimited") -> Document:
    return file(
        "Limit                     Soft Limit           Hard Limit           Units     \n"
        f"Max open files            1024                 {files}              files     \n"
        f"Max locked memory         8388608              {locked}             bytes     \n"
    )


def listening(*ports: int) -> Document:
    lines = [
        f"   {i}: 00000000:{port:04X} 00000000:0000 0A 00000000:00000000 00:00000000 0 0 0"
        for i, port in enumerate(ports)
    ]
    return file("\n".join(lines) + "\n")


def cpu_box() -> Document:
    """An ordinary host with Docker and no GPU."""
    return {
        "schema": 1,
        "settings": {"registry": "registry.example.org", "weights": "/srv/models", "port": 30000},
        "commands": {
            **_docker(),
            "gpus": MISSING,
            "registry": answer("192.0.2.7   STREAM registry.example.org\n"),
            "clock": answer("NTP=yes\nNTPSynchronized=yes\n"),
            "disk-images": disk(900),
            "disk-weights": disk(900, "xfs"),
            "size-weights": answer("0\t/srv/models\n"),
            "dmesg": answer("[0.0] Linux version 6.8.0\n"),
            "journal": answer("Linux version 6.8.0\n"),
        },
        "files": {
            "/proc/meminfo": meminfo(1024, 900),
            "/proc/net/tcp": listening(22),
            "/proc/net/tcp6": listening(22),
            "/proc/77/limits": limits(),
            "/proc/77/status": file("Name:\tdockerd\nCapEff:\t000001ffffffffff\n"),
            "/proc/cmdline": file("BOOT_IMAGE=/vmlinuz iommu=pt pcie_aspm=off\n"),
            "/proc/modules": file("nvidia 14299136 - - Live 0x0 (O)\nib_umad 40960 8 - Live 0x0\n"),
        },
        "processes": {"77": {"name": "dockerd", "cgroup": "0::/system.slice/docker.service"}},
    }


def _gpu_box(gpus: Document, links: dict[str, Document]) -> Document:
    box = cpu_box()
    box["commands"] |= {
        "gpus": gpus,
        "gpu-pcie": csv(
            "index, pcie.link.gen.current, pcie.link.gen.max, pcie.link.width.current, "
            "pcie.link.width.max",
            *(f"{i}, 1, 5, 16, 16" for i in range(8)),  # idle: the link sleeps
        ),
        "gpu-ecc": csv(
            "index, ecc.errors.uncorrected.volatile.total, ecc.errors.uncorrected.aggregate.total",
            *(f"{i}, 0, 0" for i in range(8)),
        ),
        "gpu-rows": csv(
            "gpu_uuid, remapped_rows.uncorrectable, remapped_rows.pending, remapped_rows.failure",
            *(f"GPU-{i}, 0, No, No" for i in range(8)),
        ),
        "gpu-processes": csv("gpu_uuid, pid, process_name, used_gpu_memory [MiB]"),
        "gpu-memory": bar1(),
        "topo-p2p-r": matrix("OK"),
        "lspci": lspci(),
        "nvidia-ctk": answer("NVIDIA Container Toolkit CLI version 1.19.1\ncommit: 5505e2f\n"),
        **links,
    }
    box["files"] |= {
        "/proc/driver/nvidia/version": file(
            f"NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  {DRIVER}  Release Build\n"
        ),
        "/etc/cdi/nvidia.yaml": file(f"kind: nvidia.com/gpu\n/usr/lib/libcuda.so.{DRIVER}\n"),
        "/sys/module/nvidia_uvm/parameters/uvm_disable_hmm": file("Y\n"),
        "/sys/module/pcie_aspm/parameters/policy": file("[default] performance powersave\n"),
        "/sys/bus/pci/drivers/nvidia/0000:01:00.0/iommu_group/type": file("identity\n"),
    }
    return box


def rtx_box() -> Document:
    """Eight RTX PRO 6000 behind two PCIe switches, all as it should be."""
    return _gpu_box(gpu_answer(RTX), {"topo-m": switches()})


def b300_box() -> Document:
    """Eight B300 on NVLink, all as it should be."""
    box = _gpu_box(
        gpu_answer(B300, capability="10.3", memory="275040 MiB"),
        {
            "topo-m": matrix("NV18"),
            "nvlink-status": nvlinks(),
            "gpu-fabric": csv(
                "index, fabric.state, fabric.status",
                *(f"{i}, Completed, Success" for i in range(8)),
            ),
            "fabricmanager-version": answer(f"Fabric Manager version is : {DRIVER}\n"),
            "fabricmanager-state": answer("active\n"),
        },
    )
    box["processes"]["78"] = {"name": "nvlsm", "cgroup": "0::/system.slice/fm.service"}
    return box


def changed(box: Document, **parts: Any) -> Document:
    """A copy of `box`: `commands`, `files`, `processes`, `settings` updated; None removes."""
    box = copy.deepcopy(box)
    for part, values in parts.items():
        for key, value in values.items():
            if value is None:
                box[part].pop(key)
            else:
                box[part][key] = value
    return box
