"""A release that is not exactly its lock does not build, and the build says what differs."""

import json
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.e2e.node import KIT, ROOT, lock

RELEASE = lock()["release"]


def flip_a_patch_byte(release: Path) -> str:
    patch = release / "patches" / lock()["patches"][0]["name"]
    data = bytearray(patch.read_bytes())
    data[len(data) // 2] ^= 1
    patch.write_bytes(data)
    return patch.name


def stale_requirements(release: Path) -> str:
    requirements = release / "requirements-cpu.txt"
    requirements.write_text(requirements.read_text() + "# touched\n")
    return requirements.name


def edit_lock(release: Path, edit: Callable[[dict[str, object]], None]) -> None:
    path = release / "release.lock.json"
    data = json.loads(path.read_text())
    edit(data)
    path.write_text(json.dumps(data))


def other_wheel(release: Path) -> str:
    edit_lock(release, lambda data: data["wheel"].update(sha256="0" * 64))  # type: ignore[attr-defined]
    return str(lock()["wheel"]["file"])


def other_tree(release: Path) -> str:
    edit_lock(release, lambda data: data.update(tree="0" * 64))
    return "tree"


def dropped_patch(release: Path) -> str:
    series = release / "patches" / "series"
    lines = series.read_text().splitlines()
    series.write_text("\n".join(lines[:-1]) + "\n")
    return lines[-1]


@pytest.mark.parametrize(
    "harm", [flip_a_patch_byte, stale_requirements, other_wheel, other_tree, dropped_patch]
)
def test_harmed_release_does_not_build(harm: Callable[[Path], str], tmp_path: Path) -> None:
    for part in ("Dockerfile", ".dockerignore", "docker-bake.hcl", "docker-bake.json"):
        shutil.copy(ROOT / part, tmp_path)
    for part in ("images", "src", "models", "smoke_tests"):
        shutil.copytree(ROOT / part, tmp_path / part)
    named = harm(tmp_path / "images" / RELEASE)

    base = json.loads(
        subprocess.run(
            [KIT, "release", "show", RELEASE, "--json"], check=True, capture_output=True, text=True
        ).stdout
    )["base"]
    build = 'eval "$(scripts/build-env "$1")"; cd "$2"; docker buildx bake --progress=plain \
      --file docker-bake.json --file docker-bake.hcl --set "*.target=sglang" "$3"'
    target = f"engine-{RELEASE.replace('.', '-')}-cpu"
    done = subprocess.run(
        ["bash", "-ec", build, "build", base, str(tmp_path), target],
        cwd=ROOT,
        env=os.environ,
        capture_output=True,
        text=True,
    )
    assert done.returncode != 0
    refusals = [line for line in done.stderr.splitlines() if "dflash-kit: " in line]
    assert any(named in line for line in refusals), done.stderr[-3000:]
