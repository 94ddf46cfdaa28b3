"""uv and pip as the kit calls them, without a network."""

import zipfile
from pathlib import Path

import pytest
from miniature_release import CATALOGUE, NAME

from dflash_kit.errors import Undetermined
from dflash_kit.releases import catalogue, requirements, tree, wheels


@pytest.fixture
def release(tmp_path: Path) -> catalogue.Release:
    (tmp_path / "releases.yaml").write_text(CATALOGUE.replace("torch==2.13.0", "torch==1.0"))
    return catalogue.load(tmp_path / "releases.yaml").releases[NAME]


@pytest.fixture
def wheelhouse(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with torch 1.0+cpu, and sglang 1.0 which asks for another torch."""
    for name, extra in {"torch-1.0+cpu": "", "sglang-1.0": "Requires-Dist: torch==2.0\n"}.items():
        package, version = name.split("-")
        info = f"{name}.dist-info"
        metadata = f"Metadata-Version: 2.1\nName: {package}\nVersion: {version}\n{extra}"
        with zipfile.ZipFile(tmp_path / f"{name}-py3-none-any.whl", "w") as archive:
            archive.writestr(f"{info}/METADATA", metadata)
            archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
            archive.writestr(f"{info}/RECORD", "")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    monkeypatch.setenv("UV_OFFLINE", "1")
    monkeypatch.setenv("UV_NO_CACHE", "1")
    return tmp_path


def test_a_wheel_of_the_wheelhouse_is_locked_by_hash_and_sglang_left_out(
    release: catalogue.Release, wheelhouse: Path
) -> None:
    source = wheelhouse / "requirements-cpu.in"
    source.write_text("sglang\n")
    sha256 = tree.file_sha256(wheelhouse / "torch-1.0+cpu-py3-none-any.whl")
    assert requirements.compiled(release, "cpu", source) == (
        requirements.header(release, "cpu") + f"torch==1.0+cpu \\\n    --hash=sha256:{sha256}\n"
    )


def test_a_variant_without_its_own_index_takes_nothing_from_the_wheelhouse(
    release: catalogue.Release, wheelhouse: Path
) -> None:
    source = wheelhouse / "requirements-cuda.in"
    source.write_text("torch\n")
    with pytest.raises(Undetermined, match=f"^{source}: cannot be compiled: .+$"):
        requirements.compiled(release, "cuda", source)


@pytest.mark.parametrize(
    ("wheel", "asked"),
    [
        ("torch-1.0+cpu-cp311-cp311-linux_x86_64.whl", False),
        ("torch-1.0-cp311-cp311-linux_x86_64.whl", True),
        ("torch-1.0.1+cpu-cp311-cp311-linux_x86_64.whl", True),
        ("other.whl", True),
    ],
)
def test_torch_is_asked_of_its_index_where_no_wheelhouse_has_it(
    release: catalogue.Release,
    wheel: str,
    asked: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / wheel).touch()
    monkeypatch.setenv("PIP_FIND_LINKS", f"{tmp_path / 'missing'} {tmp_path}")
    source = tmp_path / "requirements.in"
    command = " ".join(requirements.command(release, "cpu", source, "overrides.txt"))
    assert f"--find-links {tmp_path / 'missing'} --find-links {tmp_path}" in command
    # Without the last one the cut-off refuses an index that tells no upload times.
    index = (
        " --index index.example/cpu --index-strategy unsafe-best-match"
        " --exclude-newer-package torch=false"
    )
    assert (index in command) == asked
    assert "--index" not in requirements.command(release, "cuda", source, "overrides.txt")


def test_a_wheel_that_pip_cannot_get_is_one_line(
    release: catalogue.Release, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.delenv("PIP_FIND_LINKS", raising=False)
    with pytest.raises(Undetermined, match=r"^sglang 1\.0: pip cannot download it: ERROR: .+$"):
        wheels.upstream_wheel(release, tmp_path / "wheels")
