"""What can be wrong with a host: label, code, verdict, change to a healthy one, measured."""

from typing import Any

from host_documents import (
    MISSING,
    RTX,
    answer,
    bar1,
    csv,
    disk,
    file,
    gpu_answer,
    limits,
    listening,
    lspci,
    matrix,
    meminfo,
    nvlinks,
)

from dflash_kit.verdicts import Verdict

FAIL, WARN, INCONCLUSIVE = Verdict.FAIL, Verdict.WARN, Verdict.INCONCLUSIVE
NO_RIGHTS = file("Name:\tdockerd\nCapEff:\t0000000000000000\n")
Case = tuple[str, str, Verdict, dict[str, Any], str]


def commands(**values: Any) -> dict[str, Any]:
    return {"commands": {name.replace("_", "-"): value for name, value in values.items()}}


def files(**values: Any) -> dict[str, Any]:
    return {"files": values}


BUSY = csv("gpu_uuid, pid, process_name, used_gpu_memory [MiB]", "GPU-0, 900, python3, 90000 MiB")
ECC = "index, ecc.errors.uncorrected.volatile.total, ecc.errors.uncorrected.aggregate.total"
ROWS = "gpu_uuid, remapped_rows.uncorrectable, remapped_rows.pending, remapped_rows.failure"
PCIE = "index, pcie.link.gen.current, pcie.link.gen.max, pcie.link.width.current"
LOST = {(5, j): "SYS" for j in range(8)}
IOMMU = "/sys/bus/pci/drivers/nvidia/0000:01:00.0/iommu_group/type"
HMM = "/sys/module/nvidia_uvm/parameters/uvm_disable_hmm"
XID_8 = "Linux version 6.8\nNVRM: Xid (PCI:0000:01:00): 8, pid=1, name=python3\n"
XID_13 = "Linux version 6.8\nNVRM: Xid (PCI:0000:01:00): 13, Graphics Exception\n"
OLD_CDI = file("kind: nvidia.com/gpu\n/usr/lib/libcuda.so.575.57.08\n")
FABRIC = "index, fabric.state, fabric.status"

RTX_SICK: list[Case] = [
    ("seven-gpus", "gpu-count", FAIL, commands(gpus=gpu_answer(RTX, 7)), "7 GPUs"),
    ("no-driver", "gpu-count", FAIL, commands(gpus=MISSING), "0 GPUs"),
    (
        "driver-hangs",
        "gpu-count",
        INCONCLUSIVE,
        commands(gpus=answer(rc=124, stderr="no answer in 25 s")),
        "gpus: no answer in 25 s",
    ),
    (
        "wrong-card",
        "gpu-name",
        FAIL,
        commands(gpus=gpu_answer("NVIDIA GeForce RTX 5090")),
        "8 x NVIDIA GeForce RTX 5090",
    ),
    (
        "wrong-arch",
        "compute-capability",
        FAIL,
        commands(gpus=gpu_answer(RTX, capability="9.0")),
        "",
    ),
    ("half-memory", "gpu-memory", FAIL, commands(gpus=gpu_answer(RTX, memory="49140 MiB")), ""),
    ("mig-on", "mig", FAIL, commands(gpus=gpu_answer(RTX, mig="Enabled")), "GPU 0 Enabled"),
    ("old-driver", "driver", FAIL, commands(gpus=gpu_answer(RTX, driver="575.57.08")), "575.57.08"),
    (
        "closed-module",
        "kernel-module",
        FAIL,
        files(**{"/proc/driver/nvidia/version": file("NVRM version: NVIDIA UNIX x86_64 580.1\n")}),
        "NVIDIA UNIX x86_64",
    ),
    ("sleepy", "persistence", WARN, commands(gpus=gpu_answer(RTX, persistence="Disabled")), ""),
    ("ecc-now", "ecc", FAIL, commands(gpu_ecc=csv(ECC, "0, 0, 0", "1, 2, 2")), "GPU 1"),
    ("ecc-once", "ecc", WARN, commands(gpu_ecc=csv(ECC, "0, 0, 3")), "ever: GPU 0"),
    (
        "row-pending",
        "rows",
        FAIL,
        commands(gpu_rows=csv(ROWS, "GPU-3, 1, Yes, No")),
        "GPU-3 pending",
    ),
    (
        "row-failure",
        "rows",
        FAIL,
        commands(gpu_rows=csv(ROWS, "GPU-3, 9, No, Yes")),
        "GPU-3 failure",
    ),
    ("gpu-in-use", "gpu-processes", FAIL, commands(gpu_processes=BUSY), "python3 (pid 900)"),
    ("xid-of-the-gpu", "xid", FAIL, commands(journal=answer(XID_8)), "Xid 8 x 1"),
    ("xid-of-a-program", "xid", WARN, commands(journal=answer(XID_13)), "Xid 13 x 1"),
    (
        "log-unreadable",
        "xid",
        INCONCLUSIVE,
        commands(journal=answer(""), dmesg=answer(rc=1, stderr="Operation not permitted")),
        "the kernel log: not readable",
    ),
    (
        "lanes-missing",
        "pcie-width",
        FAIL,
        commands(gpu_pcie=csv(PCIE, "0, 5, 5, 16", "1, 5, 5, 8")),
        "GPU 1 x8",
    ),
    ("old-slot", "pcie-generation", FAIL, commands(gpu_pcie=csv(PCIE, "0, 1, 4, 16")), "GPU 0"),
    (
        "odd-gpu-out",
        "topology-odd",
        WARN,
        commands(topo_m=matrix("NODE", odd=LOST)),
        "odd GPU out: GPU5",
    ),
    (
        "nonsense-link",
        "topology",
        FAIL,
        commands(topo_m=matrix("NODE", odd={(0, 1): "??"})),
        "1 x ??",
    ),
    (
        "no-p2p",
        "p2p",
        FAIL,
        commands(topo_p2p_r=matrix("OK", odd={(2, 3): "CNS"})),
        "GPU2-GPU3 CNS",
    ),
    ("iommu-translates", "iommu", FAIL, files(**{IOMMU: file("DMA-FQ\n")}), "DMA-FQ"),
    (
        "acs-on",
        "acs",
        FAIL,
        commands(lspci=lspci("SrcValid+ TransBlk- ReqRedir+ CmpltRedir+")),
        "on at: 00:01.1",
    ),
    ("acs-hidden", "acs", INCONCLUSIVE, commands(lspci=answer("00:01.1 bridge\n")), "no ACSCtl"),
    ("aspm-on", "aspm", WARN, files(**{"/proc/cmdline": file("iommu=pt\n")}), "default"),
    ("hmm-on", "hmm", WARN, files(**{HMM: file("N\n")}), "uvm_disable_hmm=N"),
    ("small-bar", "rebar", FAIL, commands(gpu_memory=bar1("256")), "BAR1 256 MiB"),
    ("no-toolkit", "container-toolkit", FAIL, commands(nvidia_ctk=MISSING), "not installed"),
    ("old-toolkit", "container-toolkit", WARN, commands(nvidia_ctk=answer("version 1.16.2")), ""),
    ("no-cdi", "cdi", FAIL, files(**{"/etc/cdi/nvidia.yaml": None}), "none"),
    ("stale-cdi", "cdi", FAIL, files(**{"/etc/cdi/nvidia.yaml": OLD_CDI}), "of another driver"),
    (
        "no-lock",
        "ulimits",
        FAIL,
        files(**{"/proc/77/limits": limits(locked="65536"), "/proc/77/status": NO_RIGHTS}),
        "65536",
    ),
    ("no-shm", "shm", FAIL, files(**{"/proc/meminfo": meminfo(1024, 8)}), "8192 MiB available"),
    ("small-cache", "page-cache", WARN, files(**{"/proc/meminfo": meminfo(256, 200)}), "256 GiB"),
    ("no-room", "disk-weights", FAIL, commands(disk_weights=disk(120)), "120.0 GiB free"),
]
B300_SICK: list[Case] = [
    (
        "no-nvlink",
        "topology",
        FAIL,
        commands(topo_m=matrix("NV18", odd=LOST)),
        "7 x SYS (by GPU5)",
    ),
    ("one-link-down", "nvlink-count", FAIL, commands(nvlink_status=nvlinks((4, 9))), "GPU4 17"),
    ("slow-links", "nvlink-speed", FAIL, commands(nvlink_status=nvlinks(speed=26.562)), "GPU0"),
    (
        "fabric-dead",
        "fabric-manager",
        FAIL,
        commands(fabricmanager_state=answer("failed\n", 3)),
        "",
    ),
    (
        "fabric-of-another-driver",
        "fabric-version",
        FAIL,
        commands(fabricmanager_version=answer("Fabric Manager version is : 575.57.08\n")),
        "575.57.08",
    ),
    (
        "fabric-waits",
        "fabric-state",
        FAIL,
        commands(gpu_fabric=csv(FABRIC, "0, In Progress, N/A")),
        "",
    ),
    ("no-nvlsm", "nvlsm", FAIL, {"processes": {"78": None}}, "not running"),
    ("no-umad", "ib-umad", FAIL, files(**{"/proc/modules": file("nvidia 1 - - Live\n")}), ""),
    ("b200", "gpu-name", FAIL, commands(gpus=gpu_answer("NVIDIA B200", capability="10.0")), "B200"),
]
OTHERS = listening(22, 30000)
OLD_DOCKER = answer('{"Server":{"Version":"20.10.24"}}')
NO_LIMIT = answer('{"PidsLimit":true}')
CGROUP_1 = answer('{"CgroupVersion":"1"}')
FEW_FILES = {"/proc/77/limits": limits("1024"), "/proc/77/status": NO_RIGHTS}
CPU_SICK: list[Case] = [
    ("no-docker", "docker-version", FAIL, commands(docker_version=MISSING), "No such file"),
    ("old-docker", "docker-version", FAIL, commands(docker_version=OLD_DOCKER), "20.10.24"),
    ("no-compose", "compose-version", FAIL, commands(docker_compose=answer(rc=125)), "rc 125"),
    ("no-limits", "docker-features", FAIL, commands(docker_info=NO_LIMIT), "MemoryLimit"),
    ("cgroup-1", "cgroup", WARN, commands(docker_info=CGROUP_1), "version 1"),
    ("few-files", "ulimits", WARN, files(**FEW_FILES), "1024"),
    ("little-memory", "memory", FAIL, files(**{"/proc/meminfo": meminfo(1, 1)}), "1024 MiB"),
    ("full-disk", "disk-images", FAIL, commands(disk_images=disk(1)), "1.0 GiB free"),
    ("df-silent", "disk-images", INCONCLUSIVE, commands(disk_images=answer("df: no\n")), ""),
    ("odd-file-system", "file-system", WARN, commands(disk_weights=disk(9, "zfs")), "zfs"),
    ("clock-adrift", "clock", WARN, commands(clock=answer("NTPSynchronized=no\n")), "no"),
    ("no-name", "registry", FAIL, commands(registry=answer(rc=2)), "rc 2"),
    ("port-taken", "port", FAIL, files(**{"/proc/net/tcp6": OTHERS}), "30000 taken by another"),
]
SICK = [
    (name, *case)
    for name, cases in (
        ("rtx-pro-6000-x8", RTX_SICK),
        ("b300-x8", B300_SICK),
        ("cpu-tiny", CPU_SICK),
    )
    for case in cases
]
