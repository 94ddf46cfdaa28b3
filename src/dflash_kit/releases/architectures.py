"""Which GPU architectures a library holds code for: read from its bytes, without a CUDA toolkit.

A library keeps its GPU code in the ELF section .nv_fatbin: containers one after another, each with
a header and entries, an entry being machine code of one architecture or PTX for one. NVIDIA
documents none of it; what is read here was compared with cuobjdump --list-elf, and the suffixes
with what nvcc was told to make (tests/image/test_cuda.py does so again).
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
# Of the flags: sm_120a and sm_120f are not sm_120.
_SUFFIXES = {0: "", 1 << 20: "a", 1 << 21: "f"}
_SUFFIX_FLAGS = sum(_SUFFIXES)
_CONTAINER = struct.Struct("<IHHQ")  # magic, version, bytes of this header, bytes of the entries
_ENTRY = struct.Struct("<HHIQ12xI8xQ")  # kind, version, header bytes, bytes, architecture, flags


@dataclass(frozen=True, order=True)
class Architecture:
    """What one piece of GPU code is for; `number` is 120 for compute capability 12.0.

    `suffix` says what it uses beyond what every later card has: "a" what only this very
    architecture has, "f" what only its family has.
    """

    number: int
    suffix: str = ""
    ptx: bool = False

    def __str__(self) -> str:
        return f"{'compute' if self.ptx else 'sm'}_{self.number}{self.suffix}"

    @classmethod
    def named(cls, name: str) -> Self:
        """The architecture called `name`, as str() gives it."""
        kind, _, number = name.partition("_")
        digits = number.rstrip("af")
        return cls(int(digits), number[len(digits) :], kind == "compute")

    def runs_on(self, capability: str) -> bool:
        """Whether a GPU of compute capability `capability`, such as `10.3`, can run it.

        Machine code runs on later minor versions of its major one, and PTX is compiled for any
        later version. With "f" both run on later minor versions alone: sm_100f on 10.0 and 10.3.
        With "a" both run on their own version alone.

        https://docs.nvidia.com/cuda/cuda-programming-guide/05-appendices/compute-capabilities.html
        https://developer.nvidia.com/blog/nvidia-blackwell-and-nvidia-cuda-12-9-introduce-family-specific-architecture-features
        """
        card = int(capability.replace(".", ""))
        if self.suffix == "a":
            return card == self.number
        any_major = self.ptx and not self.suffix
        return self.number <= card and (any_major or card // 10 == self.number // 10)


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
            suffix = _SUFFIXES.get(flags & _SUFFIX_FLAGS)
            if suffix is None:
                raise Malformed(f"at {place:#x}: got flags {flags:#x}, wanted one suffix at most")
            yield Architecture(number, suffix, kind == _PTX)
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
