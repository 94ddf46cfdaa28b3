"""The GPU code in a library, read from libraries that are made up byte by byte."""

import json
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from dflash_kit.releases import card_code
from dflash_kit.releases.architectures import Architecture, Malformed, architectures, held_below

PTX, CODE, SPECIFIC, FAMILY = 1, 2, 1 << 20, 1 << 21
SM_120 = Architecture(120)


def entry(number: int, kind: int = CODE, flags: int = 0x11, header: int = 64) -> bytes:
    payload = b"\x7fELF" + bytes(20)
    head = struct.pack("<HHIQ12xI8xQ", kind, 0x101, header, len(payload), number, flags)
    return head.ljust(header, b"\0") + payload


def container(*entries: bytes) -> bytes:
    body = b"".join(entries)
    return struct.pack("<IHHQ", 0xBA55ED50, 1, 16, len(body)) + body


def library(fatbin: bytes | None, section: bytes = b".nv_fatbin") -> bytes:
    """An ELF file of three sections: none, the names, and one that holds `fatbin`."""
    names = b"\0.shstrtab\0" + section + b"\0"
    fatbin = fatbin or b""
    table = 64 + len(names) + len(fatbin)
    header = b"\x7fELF\x02\x01".ljust(40, b"\0") + struct.pack("<Q10xHHH", table, 64, 3, 1)
    sections = [(0, 0, 0), (1, 64, len(names)), (11, 64 + len(names), len(fatbin))]
    rows = [struct.pack("<I4x8x8xQQ24x", *row) for row in sections]
    return header + names + fatbin + b"".join(rows)


def test_each_piece_of_code_counts_for_its_architecture() -> None:
    first = container(entry(90), entry(90, flags=0x11 | SPECIFIC), entry(120, header=112))
    family = (entry(100, flags=0x1000011 | FAMILY), entry(100, PTX, flags=0x8011 | FAMILY))
    second = container(entry(120), entry(80, PTX), *family)
    held = architectures(library(first + bytes(8) + second))
    assert {str(code): count for code, count in held.items()} == {
        "sm_90": 1,
        "sm_90a": 1,
        "sm_120": 2,
        "compute_80": 1,
        "sm_100f": 1,
        "compute_100f": 1,
    }


@pytest.mark.parametrize(
    "content", [library(None), library(container(entry(90)), b".nv_fatbinx")], ids=["none", "other"]
)
def test_a_library_without_gpu_code_holds_none(content: bytes) -> None:
    assert architectures(content) == {}


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"#!/bin/sh\n", "no 64-bit little-endian ELF file"),
        (b"\x7fELF\x01\x01" + bytes(80), "no 64-bit little-endian ELF file"),
        (library(container(entry(90)))[:70], "ends too early"),
        (library(b"\x01" * 32), "got 0x1010101, wanted the header of GPU code"),
        (library(container(entry(90, kind=7))), "got kind 7 with a header of 64 bytes"),
        (
            library(container(struct.pack("<HHIQ48x", CODE, 1, 0, 0))),
            "got kind 2 with a header of 0",
        ),
        (library(container(entry(90, header=64), b"\0" * 64)), "got kind 0 with"),
        (library(container(entry(90, flags=SPECIFIC | FAMILY))), "got flags 0x300000, wanted one"),
    ],
    ids=[
        "script",
        "32 bits",
        "cut off",
        "no header",
        "unknown kind",
        "no end",
        "no entry",
        "flags",
    ],
)
def test_what_cannot_be_read_is_said(content: bytes, reason: str) -> None:
    with pytest.raises(Malformed, match=reason):
        architectures(content)


@pytest.mark.parametrize(
    ("code", "capability", "runs"),
    [
        (SM_120, "12.0", True),
        (SM_120, "12.1", True),
        (SM_120, "10.3", False),
        (Architecture(100), "10.3", True),
        (Architecture(100), "12.0", False),
        (Architecture(103), "10.0", False),
        (Architecture(100, "a"), "10.3", False),
        (Architecture(103, "a"), "10.3", True),
        (Architecture(80, ptx=True), "12.0", True),
        (Architecture(121, ptx=True), "12.0", False),
        (Architecture(90, "a", ptx=True), "10.0", False),
        (Architecture(100, "f"), "10.3", True),
        (Architecture(103, "f"), "10.0", False),
        (Architecture(100, "f", ptx=True), "10.3", True),
        (Architecture(100, "f", ptx=True), "12.0", False),
        (Architecture(120, "f"), "12.1", True),
    ],
    ids=lambda value: str(value),
)
def test_which_card_runs_it(code: Architecture, capability: str, runs: bool) -> None:
    assert code.runs_on(capability) is runs


@pytest.mark.parametrize("name", ["sm_90", "sm_103a", "sm_100f", "compute_120", "compute_90a"])
def test_a_name_is_read_as_it_is_written(name: str) -> None:
    assert str(Architecture.named(name)) == name


def test_libraries_below_a_folder(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "a.so.1").write_bytes(library(container(entry(120))))
    (tmp_path / "a.so").symlink_to("deep/a.so.1")
    (tmp_path / "script.so").write_text("INPUT(a.so.1)\n")
    (tmp_path / "empty.so").touch()
    (tmp_path / "plain.so").write_bytes(library(None))
    assert held_below(tmp_path) == {"deep/a.so.1": {SM_120: 1}}
    command = [sys.executable, "-m", "dflash_kit.releases.architectures", str(tmp_path)]
    printed = json.loads(subprocess.check_output(command))
    size = (tmp_path / "deep" / "a.so.1").stat().st_size
    assert printed == {"deep/a.so.1": {"bytes": size, "codes": {"sm_120": 1}}}


def test_a_broken_library_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.so").write_bytes(library(b"\x01" * 32))
    with pytest.raises(Malformed, match=r"a\.so: at 0x"):
        held_below(tmp_path)


def packages(folder: Path, common_ops: bytes) -> Path:
    """Those of an image whose torch is for 9.0 and 10.0, and what comes later by PTX."""
    torch = library(container(entry(90), entry(100), entry(90, PTX)))
    for name, content in (
        ("sgl_kernel/sm100/common_ops.abi3.so", common_ops),
        ("torch/lib/libtorch_cuda.so", torch),
    ):
        (folder / name).parent.mkdir(parents=True)
        (folder / name).write_bytes(content)
    return folder


@pytest.mark.parametrize(
    ("held", "capability", "said"),
    [
        (entry(100), "10.3", None),
        (entry(100, flags=0x1000011 | FAMILY), "10.3", None),
        (entry(80, PTX), "12.0", None),
        (entry(100, flags=0x1000011 | SPECIFIC), "10.3", "got code for sm_100a, wanted some that"),
        (entry(100, flags=0x1000011 | FAMILY), "12.0", "got code for sm_100f, wanted some that"),
        (b"", "10.3", "got code for none, wanted some that runs on 10.3"),
    ],
)
def test_a_build_for_a_card_that_the_libraries_cannot_run_on_fails(
    held: bytes, capability: str, said: str | None, tmp_path: Path
) -> None:
    content = library(container(held) if held else None)
    command = [sys.executable, "-m", "dflash_kit.releases.card_code"]
    command += [str(packages(tmp_path, content)), capability]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == (0 if said is None else 1), done.stderr
    lines = done.stderr.splitlines()
    assert len(lines) == (0 if said is None else 2)
    if said:
        assert lines[0].startswith("card_code: sgl_kernel/sm100/common_ops.abi3.so: ")
        assert said in lines[0]


def test_a_library_that_is_not_there_has_no_code(tmp_path: Path) -> None:
    found = list(card_code.lacking(packages(tmp_path, library(None)), ["9.0"]))
    assert len(found) == 1 and "No such file or directory" in found[0]
    assert found[0].startswith("sgl_kernel/sm90/common_ops.abi3.so: ")
