"""The cuda variant on a machine without a GPU: same engine, same smoke test, and its compiler."""

import json

import docker
import pytest

from dflash_kit.paths import IMAGES
from dflash_kit.profiles.load import load_profile, profile_names
from dflash_kit.releases import card_code, engine_data
from dflash_kit.releases.architectures import Architecture
from tests.e2e.node import image, lock, running

PORT = 30030
KERNELS = "/opt/dflash-kit/kernels"
PACKAGES = "/opt/venv/lib/python3.11/site-packages"
FLASH_OPS = "sgl_kernel/flash_ops.abi3.so"
CAPABILITIES = sorted(
    {
        capability
        for name in profile_names()
        if (capability := load_profile(name).hardware.compute_capability)
    }
)


def said(*command: str) -> str:
    """What a command in the image prints."""
    run = docker.from_env().containers.run
    return str(run(image("cuda"), command[1:], entrypoint=[command[0]], remove=True).decode())


@pytest.fixture(scope="module")
def held() -> dict[str, list[Architecture]]:
    """Library -> the architectures that it holds code for; the table of them is printed."""
    table = json.loads(said("python3", "-m", "dflash_kit.releases.architectures", PACKAGES))
    for library, row in sorted(table.items(), key=lambda item: -item[1]["bytes"]):
        codes = " ".join(f"{code} x {count}" for code, count in row["codes"].items())
        print(f"{row['bytes'] / 1e6:8.1f} MB  {library}: {codes}")
    return {
        library: [Architecture.named(code) for code in row["codes"]]
        for library, row in table.items()
    }


@pytest.mark.parametrize("capability", CAPABILITIES)
def test_the_libraries_hold_code_for_the_card(
    held: dict[str, list[Architecture]], capability: str
) -> None:
    """As the build found, but with every library read."""
    lacking = [
        library
        for library in card_code.required(capability)
        if not any(code.runs_on(capability) for code in held.get(library, []))
    ]
    assert lacking == []


@pytest.mark.parametrize("capability", [each for each in CAPABILITIES if float(each) >= 10])
def test_flash_ops_is_of_no_use_on_blackwell(
    held: dict[str, list[Architecture]], capability: str
) -> None:
    """Else a build for such a card would have to keep it (images/build/install-deps)."""
    assert held[FLASH_OPS]
    assert not any(code.runs_on(capability) for code in held[FLASH_OPS])


def test_flashinfer_cubin_is_for_10_x_alone() -> None:
    """As flash_ops. By the second byte of e_flags: not all have an architecture in their names."""
    locked = IMAGES / lock()["release"] / "requirements-cuda.txt"
    if "flashinfer-cubin==" not in locked.read_text():
        pytest.skip(f"{locked.parent.name} does not lock flashinfer-cubin")
    print(said("du", "-sm", f"{PACKAGES}/flashinfer_cubin", f"{PACKAGES}/{FLASH_OPS}"))
    script = (
        "import pathlib, sys; print(*{file.open('rb').read(50)[49]"
        " for file in pathlib.Path(sys.argv[1]).rglob('*.cubin')})"
    )
    found = said("python3", "-c", script, f"{PACKAGES}/flashinfer_cubin")
    assert set(found.split()) == {"100", "103"}


def test_cuda_variant_passes_the_same_smoke_test() -> None:
    with running(
        "dflash-kit-cuda", PORT, DFLASH_KIT_VARIANT="cuda", DFLASH_KIT_PROFILE="cpu-tiny"
    ) as node:
        done = node.compose("run", "--rm", "smoke", check=False)
        print(done.stdout)
        assert done.returncode == 0, done.stdout + done.stderr


def test_labels_are_those_of_the_lock() -> None:
    labels = docker.from_env().images.get(image("cuda")).labels
    assert labels["io.dflash-kit.tree"] == lock()["tree"]
    assert labels["io.dflash-kit.variant"] == "cuda"


def test_kernels_compile_for_every_card_the_kit_serves() -> None:
    """nvcc of the wheels, read-only root, no capability, as on a host: a fatbin for each arch."""
    script = (
        "set -e; cd /tmp; echo '__global__ void k(float *x) { x[0] = 1; }' > k.cu;"
        "for arch in 90a 100a 103a 120a; do"
        " /usr/local/cuda/bin/nvcc -arch=sm_$arch -cubin -o $arch.cubin k.cu;"
        " done; ninja --version; ls *.cubin"
    )
    said = docker.from_env().containers.run(
        image("cuda"),
        ["-c", script],
        entrypoint=["sh"],
        read_only=True,
        cap_drop=["ALL"],
        tmpfs={"/tmp": "mode=1777,size=4g,exec"},
        remove=True,
    )
    assert said.decode().split()[-4:] == ["100a.cubin", "103a.cubin", "120a.cubin", "90a.cubin"]


def test_what_a_library_holds_is_what_nvcc_was_told_to_make() -> None:
    """The suffixes too, which NVIDIA documents nowhere."""
    names = ["sm_90", "sm_90a", "sm_100", "sm_100a", "sm_100f", "sm_103a", "sm_103f", "sm_120"]
    names += ["sm_120a", "sm_120f", "compute_90a", "compute_100", "compute_100f", "compute_120"]
    script = (
        "cd /tmp; echo '__global__ void k(float *x) { x[0] = 1; }' > k.cu;"
        f"for name in {' '.join(names)}; do number=${{name#*_}};"
        " /usr/local/cuda/bin/nvcc -gencode arch=compute_$number,code=$name -Xcompiler -fPIC"
        " -c -o k.o k.cu; g++ -shared -nostdlib -o $name.so k.o; done;"
        " python3 -m dflash_kit.releases.architectures /tmp"
    )
    table = json.loads(said("sh", "-ec", script))
    assert {library: row["codes"] for library, row in table.items()} == {
        f"{name}.so": {name: 1} for name in names
    }


def test_what_is_baked_is_found_by_the_engine_and_not_compiled_again() -> None:
    """As serve and prewarm do it, each for one card: a cache that begins with the image's own."""
    release = lock()["release"]
    script = f"""
import os, sys
from dflash_kit.engine import caches, kernels
from dflash_kit.releases import engine_data

os.environ |= caches.cache_environment("{lock()["tree"]}", "profile", "driver")
data = engine_data.load("{release}")
baked = [each.model_dump() for each in data.kernels if each.baked]
assert baked
kernels.compile_all(data.kernel_tools, baked, sys.argv[1])
"""
    # ninja adds a line to its log for each step that it takes.
    logs = "find . -name .ninja_log -exec grep -c . {} + | sort"
    said = docker.from_env().containers.run(
        image("cuda"),
        [
            "-c",
            f'for card in {" ".join(CAPABILITIES)}; do python3 -c "$SCRIPT" $card; done;'
            f"echo; cd {KERNELS}; {logs}; echo; cd $DFLASH_KIT_CACHE/kernels-*; {logs}",
        ],
        entrypoint=["sh", "-e"],
        environment={"SCRIPT": script},
        read_only=True,
        cap_drop=["ALL"],
        tmpfs={"/tmp": "size=4g,exec", "/var/lib/dflash-kit/cache": "uid=10001,gid=10001,exec"},
        remove=True,
    )
    print(said.decode())
    _, of_the_image, afterwards = said.decode().split("\n\n")
    assert of_the_image.split() == afterwards.split()
    baked = [each for each in engine_data.load(release).kernels if each.baked]
    assert len(afterwards.split()) == len(baked) * len(CAPABILITIES)
