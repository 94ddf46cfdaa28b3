"""A release in small: a wheel of three files, two patches, a lock; made by the kit's own code."""

import difflib
import os
import zipfile
from pathlib import Path

import pytest
from typer.testing import CliRunner

from dflash_kit import paths
from dflash_kit.errors import KitError
from dflash_kit.releases import requirements
from dflash_kit.releases.cli import app

NAME = "1.0-dflash.1"
WHEEL = "sglang-1.0-cp311-cp311-manylinux_2_34_x86_64.whl"
CATALOGUE = f"""\
default: {NAME}
releases:
  {NAME}:
    sglang: "1.0"
    base: debian:bookworm-slim
    python: "3.11"
    glibc: "2.36"
    uv: 0.13.9
    cutoff: 2026-05-20
    drop:
      - sglang/test
    variants:
      cpu: {{torch_index: "index.example/cpu", overrides: [torch==2.13.0+cpu]}}
      cuda: {{}}
"""
LINES = [f"line {number}\n" for number in range(1, 61)]
FILES = {"sglang/a.py": LINES, "sglang/srt/b.py": LINES, "sglang/test/t.py": ["test\n"]}


def edited(lines: list[str], *numbers: int) -> list[str]:
    """The lines with those numbers (from 1) changed."""
    return [f"new {text}" if n in numbers else text for n, text in enumerate(lines, 1)]


def patch(subject: str, changes: dict[str, tuple[list[str], list[str]]]) -> str:
    """A patch as git writes it: text before and after by path."""
    text = (
        f"From: A <a@b.c>\nSubject: [PATCH] {subject}\n\nWhy.\n\nUpstream: none\nDrop-When: 2.0\n"
    )
    for path, (before, after) in changes.items():
        text += f"\ndiff --git a/{path} b/{path}\n"
        text += "".join(difflib.unified_diff(before, after, f"a/{path}", f"b/{path}"))
    return text


class Miniature:
    """A root folder with one locked release, which `dflash-kit release` works on."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.dir = root / "images" / NAME
        self.patches = self.dir / "patches"
        self.wheel = root / "build" / "wheels" / WHEEL
        self.patches.mkdir(parents=True)
        self.wheel.parent.mkdir(parents=True)
        (root / "images" / "releases.yaml").write_text(CATALOGUE)
        with zipfile.ZipFile(self.wheel, "w") as archive:
            for path, lines in FILES.items():
                archive.writestr(path, "".join(lines))
            archive.writestr("sglang-1.0.dist-info/METADATA", "Version: 1.0\n")
            archive.writestr("sglang-1.0.dist-info/RECORD", "stale\n")
            archive.writestr("tools/x.py", "not the engine\n")
        self.write_patch("first.patch", {"sglang/a.py": (LINES, edited(LINES, 5))})
        self.write_patch(
            "second.patch",
            {
                "sglang/a.py": (edited(LINES, 5), edited(LINES, 5, 50)),
                "sglang/srt/b.py": (LINES, edited(LINES, 10, 40)),
            },
        )
        (self.patches / "series").write_text("# in this order\nfirst.patch\nsecond.patch\n")
        for variant in ("cpu", "cuda"):
            (self.dir / f"requirements-{variant}.in").write_text("numpy\n")

    def write_patch(self, name: str, changes: dict[str, tuple[list[str], list[str]]]) -> None:
        (self.patches / name).write_text(patch(f"what {name} does", changes))

    def relock(self) -> None:
        assert self.run("lock") == (0, "")

    def run(self, *arguments: str) -> tuple[int, str]:
        """Exit code of `dflash-kit release ...` and the line or lines that it fails with."""
        result = CliRunner().invoke(app, list(arguments))
        if isinstance(result.exception, KitError):
            return result.exception.exit_code, str(result.exception)
        assert result.exception is None or isinstance(result.exception, SystemExit)
        return result.exit_code, ""

    def output(self, *arguments: str) -> str:
        return CliRunner().invoke(app, list(arguments)).stdout


@pytest.fixture
def mini(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Miniature:
    """A locked miniature; compiling requirements, which needs a network, is a stand-in."""
    for key in [key for key in os.environ if key.startswith("GIT_")]:
        monkeypatch.delenv(key)
    monkeypatch.setattr(paths, "ROOT", tmp_path)
    monkeypatch.setattr(paths, "IMAGES", tmp_path / "images")
    monkeypatch.setattr(paths, "RELEASES_FILE", tmp_path / "images" / "releases.yaml")
    monkeypatch.setattr(
        requirements,
        "compiled",
        lambda release, variant, source: (
            requirements.header(release, variant)
            + f"torch==2.13.0\ncompiled from {source.read_text()}"
        ),
    )
    made = Miniature(tmp_path)
    made.relock()
    return made
