"""A release of the cuda variant for a host whose GPUs are pretended."""

import docker

from tests.e2e.fleet.build import build, run
from tests.e2e.fleet.gpu.machine import HERE
from tests.e2e.fleet.registry import Registry
from tests.e2e.node import ROOT, image, lock

_NAME = "dflash-kit/pretended-gpu"


def offer_pretended(registry: Registry) -> str:
    """Publish the default release as its cuda variant; gives the repository."""
    run(str(ROOT / "scripts" / "image"), "cpu")
    locked = lock()
    release = str(locked["release"])
    arguments = {
        "ENGINE": image("cpu"),
        "RELEASE": release,
        "PATCHES": ",".join(patch["name"] for patch in locked["patches"]),
        "TREE": locked["tree"],
    }
    given = [
        word for name, value in arguments.items() for word in ("--build-arg", f"{name}={value}")
    ]
    build("--load", "--quiet", *given, "--tag", f"{_NAME}:test", str(HERE))
    tag = f"{release}-cuda"
    there = registry.config(_NAME, tag)
    if there != docker.from_env().images.get(f"{_NAME}:test").id:
        registry.forget(_NAME)
        registry.push(f"{_NAME}:test", _NAME, tag)
    return f"{registry.host}/{_NAME}"
