"""Which GPU architectures a library holds code for: read from its bytes, without a CUDA toolkit.

A library keeps its GPU code in the ELF section .nv_fatbin: containers one after another, each with
a header and entries, an entry being machine code of one architecture or PTX for one. NVIDIA
documents none of it; what is read here was compared with cuobjdump --list-elf and, for what is
specific to an architecture, with the compiler's arguments that uncompressed code keeps.
"""

import json
import mmap
import struct
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Self

Bytes = bytes | mmap.mmap
_ELF = b"\x7fELF\x02\x01"  # 64 bits, little-endian
_SECTION = b".nv_fatbin"
_MAGIC = 0xBA55ED50
_PTX, _CODE = 1, 2
# Only for this very architecture: sm_120a, not sm_120.
_SPECIFIC = 1 << 20
_CONTAINER = struct.Struct("<IHHQ")  # magic, version, bytes of this header, bytes of the entries
_ENTRY = struct.Struct("<HHIQ12xI8xQ")  # kind, version, header bytes, bytes, architecture, flags


@dataclass(frozen=True, order=True)
class Architecture:
    """What one piece of GPU code is for; `number` is 120 for compute capability 12.0."""

    number: int
    specific: bool = False
    ptx: bool = False

    def __str__(self) -> str:
        return f"{'compute' if self.ptx else 'sm'}_{self.number}{'a' * self.specific}"

    @classmethod
    def named(cls, name: str) -> Self:
        """The architecture called `name`, as str() gives it."""
        kind, _, number = name.partition("_")
        return cls(int(number.removesuffix("a")), number.endswith("a"), kind == "compute")

    def runs_on(self, capability: str) -> bool:
        """Whether a GPU of compute capability `capability`, such as `10.3`, can run it.

        Code runs on later minor versions of its major one, PTX is compiled for any later version,
        and what is specific runs on its own alone.
        """
        card = int(capability.replace(".", ""))
        if self.specific:
            return card == self.number
        return self.number <= card and (self.ptx or card // 10 == self.number // 10)


class Malformed(Exception):
    """A file that is no ELF library, or whose GPU code is not laid out as known."""


def architectures(library: Bytes) -> Counter[Architecture]:
    """How many pieces of code `library`, a file's content, holds for each architecture.

    Raises:
        Malformed: it is no library, or its GPU code cannot be read.
    """
    try:
        start, end = _fatbin(library)
        return Counter(_entries(library, start, end))
    except struct.error as error:
        raise Malformed(f"ends too early: {error}") from None


def _fatbin(data: Bytes) -> tuple[int, int]:
    """Where the section begins and ends; an empty range where there is none."""
    if data[: len(_ELF)] != _ELF:
        raise Malformed("no 64-bit little-endian ELF file")
    table, size, count, names = struct.unpack_from("<40xQ10xHHH", data)
    sections = [
        struct.unpack_from("<I4x8x8xQQ", data, table + size * number) for number in range(count)
    ]
    if not sections:
        return 0, 0
    strings = sections[names][1]
    for name, offset, length in sections:
        begin = strings + name
        if data[begin : begin + len(_SECTION) + 1] == _SECTION + b"\0":
            return offset, offset + length
    return 0, 0


def _entries(data: Bytes, place: int, end: int) -> Iterator[Architecture]:
    while place < end:
        magic, _, header, length = _CONTAINER.unpack_from(data, place)
        if magic == 0:  # the linker fills up to the next container
            place += 8
            continue
        if magic != _MAGIC:
            raise Malformed(f"at {place:#x}: got {magic:#x}, wanted the header of GPU code")
        place += header
        last = place + length
        while place < last:
            kind, _, header, size, number, flags = _ENTRY.unpack_from(data, place)
            if kind not in (_PTX, _CODE) or not header:
                raise Malformed(
                    f"at {place:#x}: got kind {kind} with a header of {header} bytes, wanted PTX "
                    "or code with one"
                )
            yield Architecture(number, bool(flags & _SPECIFIC), kind == _PTX)
            place += header + size


def held_below(root: Path) -> dict[str, Counter[Architecture]]:
    """Path below `root` -> what it holds, of every library with GPU code; links left out.

    Raises:
        Malformed: as architectures(), with the file.
    """
    found = {}
    for file in sorted(root.rglob("*.so*")):
        if file.is_symlink() or not file.is_file() or file.stat().st_size < len(_ELF):
            continue
        # Mapped: one of them has more than a gigabyte.
        with (
            file.open("rb") as stream,
            mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as data,
        ):
            if data[: len(_ELF)] != _ELF:
                continue
            try:
                held = architectures(data)
            except Malformed as error:
                raise Malformed(f"{file}: {error}") from None
        if held:
            found[str(file.relative_to(root))] = held
    return found


def main() -> None:
    """Print {library: {"bytes": size, "codes": {architecture: count}}} of those below a folder."""
    root = Path(sys.argv[1])
    try:
        found = held_below(root)
    except Malformed as error:
        sys.exit(f"architectures: {error}")
    table = {
        name: {
            "bytes": (root / name).stat().st_size,
            "codes": {str(code): count for code, count in sorted(held.items())},
        }
        for name, held in found.items()
    }
    print(json.dumps(table))


if __name__ == "__main__":
    main()
