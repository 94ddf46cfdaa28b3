"""The image build's program: a bare Python, nothing but the releases package next to it."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from miniature_release import NAME, Miniature, mini

from dflash_kit import releases
from dflash_kit.releases import tree

__all__ = ["mini"]


def assemble(
    mini: Miniature, variant: str = "cpu", **asked: str
) -> subprocess.CompletedProcess[str]:
    lock = json.loads((mini.dir / "release.lock.json").read_text())
    alone = mini.root / "kit" / "dflash_kit" / "releases"
    shutil.copytree(Path(releases.__file__).parent, alone, dirs_exist_ok=True)
    # -S: no site-packages, so that an import of anything installed fails here as it would there.
    command = [sys.executable, "-S", "-m", "dflash_kit.releases.assemble"]
    command += ["--release-dir", str(mini.dir), "--wheel", str(mini.wheel)]
    command += ["--out", str(mini.root / "out"), "--info", str(mini.root / "info")]
    for name in ("release", "tree"):
        command += [f"--{name}", asked.get(name, lock[name])]
    return subprocess.run(
        [*command, "--variant", variant],
        env=os.environ | {"PYTHONPATH": str(mini.root / "kit")},
        capture_output=True,
        text=True,
    )


def test_the_tree_and_what_it_says_of_itself(mini: Miniature) -> None:
    done = assemble(mini, "cuda")
    assert (done.returncode, done.stderr) == (0, "")
    lock = json.loads((mini.dir / "release.lock.json").read_text())
    assert (mini.root / "info" / "tree.sha256").read_text() == tree.listing(mini.root / "out")
    assert tree.tree_sha256(mini.root / "out") == lock["tree"]
    assert json.loads((mini.root / "info" / "patches.json").read_text()) == {
        "release": NAME,
        "variant": "cuda",
        "sglang": "1.0",
        "tree": lock["tree"],
        "patches": lock["patches"],
    }


def test_a_release_that_is_not_as_locked_is_refused_with_each_reason(mini: Miniature) -> None:
    for file in (mini.patches / "first.patch", mini.dir / "requirements-cpu.txt"):
        file.write_text(file.read_text() + "\n")
    done = assemble(mini)
    assert done.returncode == 1
    first, second = done.stderr.splitlines()
    assert first.startswith(f"dflash-kit: {mini.patches}/first.patch: patch hash: got ")
    assert second.startswith(f"dflash-kit: {mini.dir}/requirements-cpu.txt: requirements: got ")
    assert not (mini.root / "info").exists()


@pytest.mark.parametrize("asked", [{"release": "1.0-dflash.2"}, {"tree": "0" * 64}])
def test_labels_that_are_not_the_locks_are_refused(mini: Miniature, asked: dict[str, str]) -> None:
    done = assemble(mini, **asked)
    lock = json.loads((mini.dir / "release.lock.json").read_text())
    got, wanted = lock | asked, lock
    assert done.returncode == 1
    assert done.stderr == (
        f"dflash-kit: docker-bake.json: got {got['release']} with tree {got['tree']}, "
        f"wanted {wanted['release']} with tree {wanted['tree']} as in release.lock.json; "
        "next: dflash-kit release lock\n"
    )
    assert not (mini.root / "out").exists()


def test_a_wheel_that_is_no_archive_is_one_line(mini: Miniature) -> None:
    lock = mini.dir / "release.lock.json"
    mini.wheel.write_text("x")
    wanted = json.loads(lock.read_text())["wheel"]["sha256"]
    lock.write_text(lock.read_text().replace(wanted, tree.file_sha256(mini.wheel)))
    done = assemble(mini)
    assert done.returncode == 1
    assert done.stderr == f"dflash-kit: {mini.wheel}: cannot be unpacked: File is not a zip file\n"
