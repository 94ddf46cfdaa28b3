"""What the tools of a host print, as values. Pure, and no text whatever makes one of these raise.

Sizes are in the unit that the name ends in; None means that the tool did not say.
"""

import json
import re
from dataclasses import dataclass
from typing import Any

Row = dict[str, str]
Matrix = dict[str, dict[str, str]]

_ANSI = re.compile(r"\x1b\[[0-9;]*m")
_GPU = re.compile(r"GPU\d+", re.ASCII)
_NUMBER = re.compile(r"-?\d{1,15}(?:\.\d{1,9})?", re.ASCII)
# Bridges that send a transfer between two GPUs up to the root complex instead of across.
_ACS_ON = re.compile(r"\b(?:SrcValid|ReqRedir|CmpltRedir)\+")


@dataclass(frozen=True)
class Gpu:
    """One line of `nvidia-smi --query-gpu`."""

    index: str
    name: str
    bus: str
    driver: str
    capability: str
    memory_mib: float | None
    persistence: str
    mig: str


@dataclass(frozen=True)
class FileSystem:
    """One line of `df -PT -B1`."""

    kind: str
    free_bytes: int


def csv_rows(text: str) -> list[Row]:
    """The rows under a header of `nvidia-smi --format=csv`; units in the header are dropped."""
    lines = [line for line in text.splitlines() if line.strip()]
    if not lines:
        return []
    names = [cell.split("[")[0].strip() for cell in lines[0].split(",")]
    rows = [[cell.strip() for cell in line.split(",")] for line in lines[1:]]
    return [dict(zip(names, row, strict=True)) for row in rows if len(row) == len(names)]


def gpus(text: str) -> list[Gpu]:
    """The GPUs of collect.py's `gpus` query, in its order."""
    return [
        Gpu(
            index=row.get("index", ""),
            name=row.get("name", ""),
            bus=row.get("pci.bus_id", ""),
            driver=row.get("driver_version", ""),
            capability=row.get("compute_cap", ""),
            memory_mib=number(row.get("memory.total", "")),
            persistence=row.get("persistence_mode", ""),
            mig=row.get("mig.mode.current", ""),
        )
        for row in csv_rows(text)
    ]


def number(text: str) -> float | None:
    """The number that `text` begins with: `275040 MiB` is 275040.0, `[N/A]` is None."""
    found = _NUMBER.match(text.strip())
    return float(found.group()) if found else None


def version_text(text: str) -> str:
    """The first dotted number in `text`, as it stands there; empty where there is none."""
    found = re.search(r"\d{1,9}(?:\.\d{1,9})+", text, re.ASCII)
    return found.group() if found else ""


def version(text: str) -> tuple[int, ...]:
    """The first dotted number in `text`, to compare: `580.126.09` is (580, 126, 9)."""
    return tuple(int(part) for part in version_text(text).split(".") if part)


def matrix(text: str) -> Matrix:
    """GPU -> other GPU -> what `nvidia-smi topo -m` or `-p2p` says of the two."""
    columns: list[str] = []
    rows: Matrix = {}
    for line in _ANSI.sub("", text).splitlines():
        cells = line.split()
        if not columns:
            # The header; columns of NICs and affinities follow those of the GPUs.
            columns = [cell for cell in cells if _GPU.fullmatch(cell)]
        elif cells and _GPU.fullmatch(cells[0]):
            pairs = zip(columns, cells[1:], strict=False)
            rows[cells[0]] = {other: said for other, said in pairs if other != cells[0]}
    return rows


def nvlinks(text: str) -> dict[str, list[float]]:
    """GPU -> speed of each of its links in GB/s, 0 where one is down (`nvlink --status`)."""
    links: dict[str, list[float]] = {}
    current: list[float] = []
    for line in text.splitlines():
        if gpu := re.match(r"GPU (\d{1,9}):", line, re.ASCII):
            current = links.setdefault(f"GPU{gpu.group(1)}", [])
        elif link := re.match(r"\s+Link \d+: (.*)", line):
            current.append(number(link.group(1)) or 0.0)
    return links


def bar1_mib(text: str) -> list[float]:
    """Each GPU's BAR1 (`nvidia-smi -q -d MEMORY`)."""
    found = re.findall(r"BAR1 Memory Usage\s+Total\s*:\s*(\d{1,15}) MiB", text, re.ASCII)
    return [float(size) for size in found]


def xids(text: str) -> list[int]:
    """The driver's error numbers in a kernel log."""
    return [int(code) for code in re.findall(r"NVRM: Xid \([^)]*\): (\d{1,9})", text, re.ASCII)]


def acs_bridges(text: str) -> tuple[list[str], int]:
    """Addresses whose ACS redirects transfers, and how many devices say what theirs does."""
    redirecting, said, device = [], 0, ""
    for line in text.splitlines():
        if line and not line[0].isspace():
            device = line.split()[0]
        elif "ACSCtl:" in line:
            said += 1
            if _ACS_ON.search(line):
                redirecting.append(device)
    return redirecting, said


def fields(text: str, separator: str) -> Row:
    """`name<separator>value` lines; the first line of a name counts."""
    found: Row = {}
    for line in text.splitlines():
        name, cut, value = line.partition(separator)
        if cut:
            found.setdefault(name.strip(), value.strip())
    return found


def hard_limits(text: str) -> Row:
    """Limit -> its hard value, from /proc/PID/limits."""
    lines = (re.split(r"\s{2,}", line.strip()) for line in text.splitlines()[1:])
    return {cells[0]: cells[2] for cells in lines if len(cells) > 2}


def file_system(text: str) -> FileSystem | None:
    """The last line of `df -PT -B1`."""
    cells = (text.splitlines() or [""])[-1].split()
    if len(cells) < 7 or not (cells[4].isascii() and cells[4].isdigit()):
        return None
    return FileSystem(cells[1], int(number(cells[4]) or 0))


def ports(text: str) -> set[int]:
    """TCP ports that something listens on, from /proc/net/tcp or tcp6."""
    found = re.findall(r"^ *\d+: [0-9A-F]+:([0-9A-F]{4}) \S+ 0A ", text, re.ASCII | re.MULTILINE)
    return {int(port, 16) for port in found}


def json_object(text: str) -> dict[str, Any]:
    """A JSON object; empty where `text` is none."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def json_lines(text: str) -> list[dict[str, Any]]:
    """One JSON object a line; other lines are left out."""
    return [found for line in text.splitlines() if (found := json_object(line))]
