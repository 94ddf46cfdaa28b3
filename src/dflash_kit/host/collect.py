#!/usr/bin/env python3
"""Gather a host's raw facts as one JSON document on stdout; judge nothing, change nothing.

Runs on the host itself, so it needs only Python >= 3.9 and its standard library. Ansible's `script`
module sends this one file. A command that is missing (rc 127), fails or hangs (rc 124) is recorded,
never raised:

    {"schema": 1, "settings": {...}, "commands": {NAME: {"command", "rc", "stdout", "stderr"}},
     "files": {PATH: {"text", "mtime"}}, "processes": {PID: {"name", "cgroup"}}}

Run as root: ACS, the kernel log and other users' processes are hidden from everyone else.
"""

from __future__ import annotations

import argparse
import glob
import json
import os
import re
import signal
import subprocess
from concurrent.futures import ThreadPoolExecutor
from typing import Any

SCHEMA = 1
TIMEOUT_SECONDS = 25.0
TIMEOUT_RC, MISSING_RC = 124, 127
MAX_CHARACTERS = 1_000_000
MAX_BYTES = 16_000_000

SMI = ["nvidia-smi", "--format=csv"]
COMMANDS = {
    "gpus": [
        *SMI,
        "--query-gpu=index,name,uuid,pci.bus_id,driver_version,compute_cap,memory.total,"
        "memory.used,persistence_mode,mig.mode.current,ecc.mode.current",
    ],
    # Queries of their own: a driver that does not know one field refuses the whole query.
    "gpu-pcie": [
        *SMI,
        "--query-gpu=index,pcie.link.gen.current,pcie.link.gen.max,pcie.link.width.current,"
        "pcie.link.width.max",
    ],
    "gpu-ecc": [
        *SMI,
        "--query-gpu=index,ecc.errors.uncorrected.volatile.total,"
        "ecc.errors.uncorrected.aggregate.total",
    ],
    "gpu-rows": [
        *SMI,
        "--query-remapped-rows=gpu_uuid,remapped_rows.uncorrectable,remapped_rows.pending,"
        "remapped_rows.failure",
    ],
    "gpu-processes": [*SMI, "--query-compute-apps=gpu_uuid,pid,process_name,used_memory"],
    "gpu-fabric": [*SMI, "--query-gpu=index,fabric.state,fabric.status"],
    "gpu-memory": ["nvidia-smi", "-q", "-d", "MEMORY"],
    "topo-m": ["nvidia-smi", "topo", "-m"],
    "topo-p2p-r": ["nvidia-smi", "topo", "-p2p", "r"],
    "nvlink-status": ["nvidia-smi", "nvlink", "--status"],
    "modinfo-nvidia": ["modinfo", "nvidia"],
    "fabricmanager-version": ["nv-fabricmanager", "--version"],
    "fabricmanager-state": ["systemctl", "is-active", "nvidia-fabricmanager"],
    "nvidia-ctk": ["nvidia-ctk", "--version"],
    "lspci": ["lspci", "-vvv"],
    "journal": ["journalctl", "--dmesg", "--boot", "--quiet", "--no-pager"],
    "dmesg": ["dmesg"],
    "docker-version": ["docker", "version", "--format", "{{json .}}"],
    "docker-info": ["docker", "info", "--format", "{{json .}}"],
    "docker-compose": ["docker", "compose", "version", "--short"],
    "containers": ["docker", "ps", "--no-trunc", "--format", "{{json .}}"],
    "clock": ["timedatectl", "show"],
}
# Megabytes of text in which a few lines matter; the first pattern of a log proves it readable.
ONLY_LINES = {
    "/proc/net/tcp": r"^ *\d+: \S+ \S+ 0A ",  # 0A: listening
    "/proc/net/tcp6": r"^ *\d+: \S+ \S+ 0A ",
    "lspci": r"^\S|ACSCtl:",
    "journal": r"Linux version|NVRM|pcieport.*AER",
    "dmesg": r"Linux version|NVRM|pcieport.*AER",
}
FILES = [
    "/etc/cdi/*",
    "/var/run/cdi/*",
    "/etc/os-release",
    "/proc/cmdline",
    "/proc/driver/nvidia/params",
    "/proc/driver/nvidia/version",
    "/proc/meminfo",
    "/proc/modules",
    "/proc/net/tcp",
    "/proc/net/tcp6",
    "/sys/bus/pci/drivers/nvidia/*/iommu_group/type",
    "/sys/module/nvidia_uvm/parameters/uvm_disable_hmm",
    "/sys/module/pcie_aspm/parameters/policy",
]


def run(command: list[str], timeout: float = TIMEOUT_SECONDS) -> dict[str, Any]:
    """{"command", "rc", "stdout", "stderr"} of `command`; never raises, never waits for ever."""
    result: dict[str, Any] = {"command": command, "rc": MISSING_RC, "stdout": "", "stderr": ""}
    path = f"{os.environ.get('PATH', '')}:/usr/local/sbin:/usr/sbin:/sbin:/usr/bin:/bin"
    try:
        # Not subprocess.run: it waits for what it has killed, and a process that hangs in a driver
        # cannot be killed.
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, "LC_ALL": "C", "PATH": path},
            start_new_session=True,
        )
    except OSError as error:
        return {**result, "stderr": f"{command[0]}: {error.strerror}"}
    try:
        out, err = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except OSError:
            process.kill()
        return {**result, "rc": TIMEOUT_RC, "stderr": f"no answer in {timeout:g} s"}
    result.update(rc=process.returncode, stdout=text(out), stderr=text(err))
    return result


def text(raw: bytes) -> str:
    """Bytes as text, whatever they are."""
    return raw.decode("utf-8", "replace")


def shortened(source: str, content: str) -> str:
    """`content` of a command or file, as far as it matters, of bounded length."""
    if pattern := ONLY_LINES.get(source):
        lines = content.splitlines(keepends=True)
        content = "".join(line for line in lines if re.search(pattern, line))
    return content[:MAX_CHARACTERS]


def collect_commands(settings: dict[str, Any]) -> dict[str, Any]:
    """Run all commands side by side, so that one driver that hangs costs its time once."""
    commands = dict(COMMANDS)
    if settings["registry"]:
        commands["registry"] = ["getent", "ahosts", settings["registry"]]
    with ThreadPoolExecutor(max_workers=8) as pool:
        running = {name: pool.submit(run, command) for name, command in commands.items()}
    results = {name: future.result() for name, future in running.items()}
    for name, result in results.items():
        result["stdout"] = shortened(name, result["stdout"])
    # After the others: Docker says where its images lie.
    images = docker_root(results["docker-info"]["stdout"])
    for name, folder in (("disk-images", images), ("disk-weights", settings["weights"])):
        if folder:
            results[name] = run(["df", "-PT", "-B1", existing(folder)])
    if settings["weights"]:
        results["size-weights"] = run(["du", "-sbL", settings["weights"]])
    return results


def docker_root(info: str) -> str:
    """Docker's data folder, from `docker info`; empty where it does not say."""
    try:
        return str(json.loads(info)["DockerRootDir"])
    except (ValueError, KeyError, TypeError):
        return ""


def existing(folder: str) -> str:
    """`folder`, or its nearest parent that exists: a folder to come lies on that file system."""
    folder = os.path.abspath(folder)
    while not os.path.exists(folder):
        folder = os.path.dirname(folder)
    return folder


def collect_files(processes: dict[str, dict[str, str]]) -> dict[str, Any]:
    """Contents of FILES and of the Docker daemon's limits; one that cannot be read is left out."""
    daemons = [pid for pid, process in processes.items() if process["name"] == "dockerd"]
    patterns = FILES + [f"/proc/{pid}/{name}" for pid in daemons for name in ("limits", "status")]
    files = {}
    for path in sorted(path for pattern in patterns for path in glob.glob(pattern)):
        content = read(path)
        if content is not None:
            files[path] = content
    return files


def read(path: str) -> dict[str, Any] | None:
    """{"text", "mtime"} of a file, or None."""
    try:
        with open(path, "rb") as stream:
            content = shortened(path, text(stream.read(MAX_BYTES)))
        return {"text": content, "mtime": os.stat(path).st_mtime}
    except OSError:
        return None


def collect_processes() -> dict[str, dict[str, str]]:
    """{PID: {"name", "cgroup"}}; the cgroup names the container that a process belongs to."""
    processes = {}
    for folder in glob.glob("/proc/[0-9]*"):
        name, cgroup = read(f"{folder}/comm"), read(f"{folder}/cgroup")
        if name and cgroup:
            lines = cgroup["text"].splitlines()
            processes[os.path.basename(folder)] = {
                "name": name["text"].strip(),
                "cgroup": lines[-1] if lines else "",
            }
    return processes


def collect(registry: str = "", weights: str = "", port: int = 0) -> dict[str, Any]:
    """The whole document."""
    settings: dict[str, Any] = {"registry": registry, "weights": weights, "port": port}
    processes = collect_processes()
    return {
        "schema": SCHEMA,
        "settings": settings,
        "commands": collect_commands(settings),
        "files": collect_files(processes),
        "processes": processes,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--registry", default="", help="host name that images are pulled from")
    parser.add_argument("--weights", default="", help="folder that the weights lie in, or will")
    parser.add_argument("--port", type=int, default=0, help="port that the engine is published on")
    print(json.dumps(collect(**vars(parser.parse_args()))))


if __name__ == "__main__":
    main()
