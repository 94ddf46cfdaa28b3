"""What an image for some cards alone does not carry, tried on an environment that is made up."""

import subprocess
from pathlib import Path

import pytest

from dflash_kit import paths

SCRIPT = paths.RELEASES_FILE.parent / "build" / "leave-out"
FLASH_OPS, CUBINS = "sgl_kernel/flash_ops.abi3.so", "flashinfer_cubin/cubins/a.cubin"
OTHER = "sgl_kernel/sm100/common_ops.abi3.so"


def left(venv: Path, variant: str, capabilities: str, *files: str) -> set[str]:
    """Which of `files` are there after the script."""
    packages = venv / "lib" / "python3.11" / "site-packages"
    for name in files:
        (packages / name).parent.mkdir(parents=True, exist_ok=True)
        (packages / name).touch()
    subprocess.run([SCRIPT, variant, str(venv), capabilities], check=True)
    return {name for name in files if (packages / name).exists()}


@pytest.mark.parametrize(
    ("capabilities", "kept"),
    [
        ("", {FLASH_OPS, CUBINS}),
        ("9.0", {FLASH_OPS}),
        ("10.3", {CUBINS}),
        ("12.0", set()),
        ("12.0 10.3", {CUBINS}),
        ("12.0 8.9", {FLASH_OPS}),
        ("9.0 10.0", {FLASH_OPS, CUBINS}),
    ],
)
def test_what_no_card_can_run_is_left_out(
    capabilities: str, kept: set[str], tmp_path: Path
) -> None:
    assert left(tmp_path, "cuda", capabilities, FLASH_OPS, CUBINS, OTHER) == kept | {OTHER}


def test_the_cpu_variant_is_for_no_card(tmp_path: Path) -> None:
    assert left(tmp_path, "cpu", "12.0", FLASH_OPS) == {FLASH_OPS}


def test_a_release_without_them_is_built_too(tmp_path: Path) -> None:
    assert left(tmp_path, "cuda", "12.0", OTHER) == {OTHER}


@pytest.mark.parametrize("wrong", ["12", "sm_120", "12.0,10.3"])
def test_a_capability_that_is_none_ends_the_build(wrong: str, tmp_path: Path) -> None:
    command = [SCRIPT, "cuda", str(tmp_path), f"9.0 {wrong}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr == (
        f"leave-out: CAPABILITIES: got {wrong}, wanted compute capabilities such as 12.0\n"
    )
