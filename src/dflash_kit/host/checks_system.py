"""Checks of what every host needs: Docker, disk, memory, clock, name service, a free port."""

import re

from dflash_kit.host import parse
from dflash_kit.host.check import Check, Found, listed, with_gpus
from dflash_kit.host.facts import Host, Unknown
from dflash_kit.profiles.load import load_pair
from dflash_kit.profiles.models import Profile
from dflash_kit.verdicts import Verdict

GIB = 2**30
# The health check's start_interval, which tells of a started engine within a second.
_DOCKER = (25, 0)
_COMPOSE = (2, 21)
# Two images side by side while one replaces the other; the cuda variant is the large one.
_IMAGES_GIB = {"cpu": 5, "cuda": 40}
# Sockets and files of an engine that serves many clients at once.
_OPEN_FILES = 65536
_CAP_SYS_RESOURCE = 24
# Docker's overlay2 and the page cache work well on these.
_FILE_SYSTEMS = ("ext4", "xfs", "btrfs")


def docker_version(host: Host, profile: Profile) -> Found:
    wanted = f"at least {_dotted(_DOCKER)}"
    runs, said = host.answer("docker-version")
    if not runs:  # no Docker, or its daemon does not answer
        return Found(False, said, wanted)
    server = parse.json_object(said).get("Server")
    version = str(server.get("Version")) if isinstance(server, dict) else "no server"
    return Found(parse.version(version) >= _DOCKER, version, wanted)


def compose_version(host: Host, profile: Profile) -> Found:
    installed, said = host.answer("docker-compose")
    good = installed and parse.version(said) >= _COMPOSE
    return Found(good, said.strip(), f"at least {_dotted(_COMPOSE)}")


def docker_features(host: Host, profile: Profile) -> Found:
    info = parse.json_object(host.said("docker-info"))
    wanted = ("MemoryLimit", "PidsLimit", "seccomp")
    options = str(info.get("SecurityOptions"))
    missing = [name for name in wanted if not (info.get(name) or name in options)]
    return Found(not missing, f"missing: {listed(missing)}", f"all of {listed([*wanted])}")


def cgroup(host: Host, profile: Profile) -> Found:
    info = parse.json_object(host.said("docker-info"))
    version = str(info.get("CgroupVersion") or "unknown")
    return Found(version == "2", f"version {version}", "version 2")


def ulimits(host: Host, profile: Profile) -> Found:
    """What the Docker daemon can give to a container."""
    limits = parse.hard_limits(_daemon_file(host, "limits"))
    files = limits.get("Max open files", "unknown")
    locked = limits.get("Max locked memory", "unknown")
    # Root with this capability raises a limit beyond its own.
    free = _may_raise_limits(host)
    many = free or files == "unlimited" or (parse.number(files) or 0) >= _OPEN_FILES
    # NCCL and pinned buffers lock memory without limit.
    lockable = free or locked == "unlimited" or not with_gpus(profile)
    return Found(
        lockable and (many or Verdict.WARN),
        f"open files {files}, locked memory {locked}",
        f"open files {_OPEN_FILES}" + (", locked memory unlimited" * with_gpus(profile)),
    )


def _may_raise_limits(host: Host) -> bool:
    capabilities = parse.fields(_daemon_file(host, "status"), ":").get("CapEff", "")
    return bool(
        re.fullmatch(r"[0-9a-f]{1,16}", capabilities)
        and int(capabilities, 16) >> _CAP_SYS_RESOURCE & 1
    )


def _daemon_file(host: Host, name: str) -> str:
    for path, content in host.files("/proc/").items():
        if re.fullmatch(rf"/proc/\d+/{name}", path):
            return content
    raise Unknown(f"/proc/PID/{name} of dockerd: not readable")


def memory(host: Host, profile: Profile) -> Found:
    wanted = profile.hardware.memory_mib
    return Found(host.memory_mib >= wanted, f"{host.memory_mib:.0f} MiB", f"{wanted} MiB")


def shm(host: Host, profile: Profile) -> Found:
    """Shared memory of a container is main memory that is free when it is used."""
    free = parse.number(parse.fields(host.file("/proc/meminfo"), ":").get("MemAvailable", ""))
    if free is None:
        raise Unknown("/proc/meminfo: no MemAvailable")
    wanted = profile.hardware.shm_mib
    return Found(free / 1024 >= wanted, f"{free / 1024:.0f} MiB available", f"{wanted} MiB")


def page_cache(host: Host, profile: Profile) -> Found:
    """Weights that stay in memory load in minutes less after a restart."""
    weights = load_pair(profile.pair).gib
    measured = f"{host.memory_mib / 1024:.0f} GiB of memory"
    return Found(host.memory_mib / 1024 > weights, measured, f"above {weights:.0f} GiB of weights")


def disk_images(host: Host, profile: Profile) -> Found:
    wanted = _IMAGES_GIB["cuda" if with_gpus(profile) else "cpu"]
    free = _file_system(host, "disk-images").free_bytes / GIB
    return Found(free >= wanted, f"{free:.1f} GiB free", f"{wanted} GiB")


def disk_weights(host: Host, profile: Profile) -> Found:
    if not host.setting("weights"):
        return Found(Verdict.SKIP, "no folder for weights was named", "a folder")
    wanted = load_pair(profile.pair).gib
    free = _file_system(host, "disk-weights").free_bytes / GIB
    try:
        there = (parse.number(host.said("size-weights")) or 0) / GIB
    except Unknown:  # the folder is still to be made
        there = 0.0
    measured = f"{free:.1f} GiB free, {there:.1f} GiB there"
    return Found(free + there >= wanted, measured, f"{wanted:.1f} GiB in {host.setting('weights')}")


def file_systems(host: Host, profile: Profile) -> Found:
    names = ["disk-images"] + ["disk-weights"] * bool(host.setting("weights"))
    kinds = [f"{name.removeprefix('disk-')} {_file_system(host, name).kind}" for name in names]
    good = all(kind.split()[1] in _FILE_SYSTEMS for kind in kinds)
    return Found(good, listed(kinds), f"each one of {listed([*_FILE_SYSTEMS])}")


def _file_system(host: Host, name: str) -> parse.FileSystem:
    found = parse.file_system(host.said(name))
    if found is None:
        raise Unknown(f"{name}: df does not say")
    return found


def clock(host: Host, profile: Profile) -> Found:
    state = parse.fields(host.said("clock"), "=").get("NTPSynchronized", "unknown")
    return Found(state == "yes", f"synchronised: {state}", "synchronised: yes")


def registry(host: Host, profile: Profile) -> Found:
    name = host.setting("registry")
    if not name:
        return Found(Verdict.SKIP, "no registry was named", "a registry")
    found, said = host.answer("registry")
    first = listed(said.split()[:1]) if found else said
    return Found(found and bool(said.split()), first, f"an address of {name}")


def port(host: Host, profile: Profile) -> Found:
    wanted = host.setting("port") or str(profile.engine.arguments["port"])
    tables = host.files("/proc/net/tcp")
    if not tables:
        raise Unknown("/proc/net/tcp: not readable")
    taken = set[int]().union(*(parse.ports(table) for table in tables.values()))
    if int(parse.number(wanted) or 0) not in taken:
        return Found(True, f"{wanted} free", "free, or this kit's own engine")
    published = [str(row.get("Ports")) for row in host.own_containers()]
    own = any(f":{wanted}->" in ports for ports in published)
    measured = f"{wanted} taken by {'an engine of this kit' if own else 'another program'}"
    return Found(own, measured, "free, or this kit's own engine")


def _dotted(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))


CHECKS = (
    Check("docker-version", docker_version, "install or upgrade Docker Engine, and start it"),
    Check("compose-version", compose_version, "install or upgrade Docker's compose plugin"),
    Check(
        "docker-features",
        docker_features,
        "enable the memory and pids controllers (kernel command line: cgroup_enable=memory) and "
        "Docker's seccomp profile",
    ),
    Check("cgroup", cgroup, "boot with systemd.unified_cgroup_hierarchy=1", bad=Verdict.WARN),
    Check("ulimits", ulimits, "raise LimitNOFILE and LimitMEMLOCK of docker.service"),
    Check("memory", memory, "use a host with more memory, or another profile"),
    Check("shm", shm, "end what else uses the memory of this host"),
    Check(
        "page-cache",
        page_cache,
        "expect 10 to 15 minutes to load the weights after each start, or add memory",
        with_gpus,
        bad=Verdict.WARN,
    ),
    Check("disk-images", disk_images, "free space where Docker keeps its images (docker info)"),
    Check("disk-weights", disk_weights, "free space in the folder of the weights, or name another"),
    Check(
        "file-system",
        file_systems,
        "expect slower loading; keep images and weights on ext4 or xfs",
        bad=Verdict.WARN,
    ),
    Check("clock", clock, "install chrony or enable systemd-timesyncd", bad=Verdict.WARN),
    Check("registry", registry, "mend the name service, or deliver the image as an archive"),
    Check("port", port, "end what listens there, or choose another port"),
)
