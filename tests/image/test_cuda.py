"""The cuda variant on a machine without a GPU: same engine, same smoke test, and its compiler."""

import docker

from tests.e2e.node import image, lock, running

PORT = 30030


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
