"""What can be seen of the engine's container from outside the engine: its state, processes, log.

On a node the docker CLI says it. Inside an image there is no docker: the role smoke writes what
docker says into a folder (--container-facts), and the processes are those of the host's /proc.
"""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlsplit

from dflash_kit import paths
from dflash_kit.engine import processes
from dflash_kit.errors import InputError, Undetermined
from dflash_kit.smoke.credentials import is_here

DOCKER_SECONDS = 30
INSPECT, LOG = "inspect.json", "log"
# pid, state, resident KiB, and the title that a process gave itself.
_PS = ("-eo", "pid,stat,rss,args")
_GPU_PROCESSES = ("--query-compute-apps=pid,used_memory", "--format=csv,noheader,nounits")
HOW = "give --container NAME on the engine's host, or --outside from another machine"


@dataclass(frozen=True)
class Process:
    """One process of the engine; `gpu_mib` is None where no GPU can be seen."""

    pid: int
    title: str
    state: str
    resident_kib: int
    gpu_mib: int | None = None

    @property
    def is_zombie(self) -> bool:
        return self.state.startswith("Z")


@dataclass(frozen=True)
class Seen:
    """A container at one moment. `started` changes whenever its main process is a new one."""

    id: str
    image: str
    running: bool
    started: str
    restarts: int
    processes: dict[int, Process]

    @property
    def resident_mib(self) -> int:
        return sum(process.resident_kib for process in self.processes.values()) // 1024

    @property
    def gpu_mib(self) -> int | None:
        """GPU memory of all processes; None where no GPU can be seen."""
        shares = [p.gpu_mib for p in self.processes.values() if p.gpu_mib is not None]
        return sum(shares) if shares else None


class Container(Protocol):
    """The engine's container; both raise Undetermined where it cannot be seen."""

    def look(self) -> Seen:
        """How it is now."""

    def log(self) -> list[str]:
        """What it has logged since it was started the last time."""


@dataclass(frozen=True)
class Docker:
    """A container that this node's docker knows by `name`."""

    name: str

    def look(self) -> Seen:
        content = _inspected(_docker("inspect", "--type", "container", self.name))
        running = bool(content["State"]["Running"])
        table = _docker("top", self.name, *_PS) if running else ""
        return seen(content, with_gpu_memory(parse_ps(table)))

    def log(self) -> list[str]:
        started = _inspected(_docker("inspect", "--type", "container", self.name))["State"]
        return _docker("logs", "--since", started["StartedAt"], self.name).splitlines()


@dataclass(frozen=True)
class Facts:
    """A container that a folder tells of: as docker said, before the smoke test began.

    Its processes are looked for in `proc`, which must be the host's: in the engine's own space of
    process ids the smoke test would be ended together with an engine that ends.
    """

    folder: Path
    proc: Path = Path("/proc")

    def look(self) -> Seen:
        content = _inspected(self._read(INSPECT))
        return seen(content, below(int(content["State"]["Pid"]), self.proc))

    def log(self) -> list[str]:
        return self._read(LOG).splitlines()

    def _read(self, name: str) -> str:
        file = self.folder / name
        try:
            return file.read_text(errors="replace")
        except OSError as error:
            raise Undetermined(
                f"container: {file}: cannot be read: {error.strerror}; "
                "role smoke writes it before the run"
            ) from None


@dataclass(frozen=True)
class Hidden:
    """A container that cannot be seen, and why."""

    why: str

    def look(self) -> Seen:
        raise Undetermined(self.why)

    def log(self) -> list[str]:
        raise Undetermined(self.why)


def choose(url: str, name: str, facts: Path | None, outside: bool) -> Container | None:
    """The container to watch, as the options say; None for none (--outside).

    Raises:
        InputError: more than one of them.
    """
    given = [bool(name), facts is not None, outside]
    if sum(given) > 1:
        raise InputError(
            "container: got several of --container, --container-facts and --outside, wanted one"
        )
    if outside:
        return None
    if name:
        return Docker(name)
    if facts:
        return Facts(facts)
    if paths.PATCHES_FILE.exists():
        return Hidden("container: no docker inside an image; give --container-facts or --outside")
    if not is_here(url):
        return Hidden(f"container: {url} is not this host; give --outside")
    return of_port(url)


def of_port(url: str) -> Container:
    """The container of this node that publishes the port of `url`."""
    port = urlsplit(url).port
    try:
        found = _docker("ps", "--no-trunc", "--quiet", "--filter", f"publish={port}").split()
    except Undetermined as error:
        return Hidden(str(error))
    if len(found) != 1:
        return Hidden(f"container: {len(found)} publish port {port} here; {HOW}")
    return Docker(found[0])


def seen(content: dict[str, Any], found: dict[int, Process]) -> Seen:
    """One answer of docker inspect, and the processes."""
    state = content["State"]
    return Seen(
        id=content["Id"],
        image=content["Image"],
        running=state["Running"],
        started=state["StartedAt"],
        restarts=content["RestartCount"],
        processes=found,
    )


def parse_ps(table: str) -> dict[int, Process]:
    """The processes in what ps says; its first line names the columns."""
    found = {}
    for line in table.splitlines()[1:]:
        pid, state, resident, title = line.split(maxsplit=3)
        found[int(pid)] = Process(int(pid), title[:80], state, int(resident))
    return found


def below(root: int, proc: Path) -> dict[int, Process]:
    """Process `root` and all below it, as `proc` says; none where it has ended."""
    described = {}
    for folder in proc.iterdir():
        if folder.name.isdigit() and (process := _described(folder)):
            described[int(folder.name)] = process
    parents = {pid: parent for pid, (parent, _) in described.items()}
    return {
        pid: process
        for pid, (_, process) in described.items()
        if pid == root or processes.is_below(pid, root, parents)
    }


def _described(folder: Path) -> tuple[int, Process] | None:
    """The parent and the process; None where it ended while we looked."""
    try:
        text = (folder / "status").read_text(errors="replace")
        title = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return None
    fields = dict(line.split(":", 1) for line in text.splitlines() if ":" in line)
    resident = fields.get("VmRSS", "0").split()[0]  # a zombie has none
    state, name = fields["State"].split()[0], fields["Name"].strip()
    shown = title.strip()[:80] or name
    return int(fields["PPid"]), Process(int(folder.name), shown, state, int(resident))


def with_gpu_memory(found: dict[int, Process]) -> dict[int, Process]:
    """The same processes with what each holds of the GPUs, where nvidia-smi says so."""
    held: dict[int, int] = {}
    try:
        table = _run("nvidia-smi", *_GPU_PROCESSES)
    except Undetermined:
        return found
    for line in table.splitlines():
        pid, _, memory = line.partition(",")
        if pid.strip().isdigit() and memory.strip().isdigit():  # else "[N/A]"
            held[int(pid)] = held.get(int(pid), 0) + int(memory)
    return {pid: replace(process, gpu_mib=held.get(pid)) for pid, process in found.items()}


def _inspected(text: str) -> dict[str, Any]:
    try:
        content: dict[str, Any] = json.loads(text)[0]
    except (ValueError, IndexError, KeyError):
        raise Undetermined(f"container: {text[:80]!r} is not what docker inspect says") from None
    return content


def _docker(*arguments: str) -> str:
    return _run("docker", *arguments)


def _run(*command: str) -> str:
    """What a command says on both of its outputs; Undetermined where it does not work."""
    try:
        done = subprocess.run(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=DOCKER_SECONDS,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        said = error.strerror if isinstance(error, OSError) else f"no answer in {DOCKER_SECONDS} s"
        raise Undetermined(f"container: {command[0]}: {said}; {HOW}") from None
    if done.returncode != 0:
        said = " ".join(done.stdout.split())[:160]
        raise Undetermined(f"container: {' '.join(command[:2])}: {said}; {HOW}")
    return done.stdout
