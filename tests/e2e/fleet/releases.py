"""What the fleet's registry offers: releases, bad ones that nothing outside tells, small ones."""

import random
import tempfile
from pathlib import Path

import docker

from tests.e2e.fleet import faults
from tests.e2e.fleet.build import build, run
from tests.e2e.fleet.registry import Registry
from tests.e2e.node import ROOT, lock

ENGINE = "dflash-kit/engine"
VARIANT = "cpu"
_SHARED_BYTES = 4_000_000
_OWN_BYTES = 20_000


def offer(registry: Registry, release: str) -> str:
    """Build a release and publish it; gives its repository."""
    run(str(ROOT / "scripts" / "image"), VARIANT, release)
    if not _is_there(registry, f"{ENGINE}:{release}-{VARIANT}", ENGINE, release):
        registry.publish(VARIANT, release, ENGINE)
    return f"{registry.host}/{ENGINE}"


def offer_broken(registry: Registry, fault: str, release: str) -> str:
    """`release`, offered before, with a fault, under its own tag; gives the repository."""
    name = f"dflash-kit/{fault}"
    registry.extend(ENGINE, name, f"{release}-{VARIANT}", faults.layer(fault))
    return f"{registry.host}/{name}"


def offer_small(registry: Registry, release: str) -> str:
    """A release of 4 MB in which nothing runs, for tests of its way to a host only.

    As in real ones a large layer is the same in all, and a small one is the release's own.
    """
    name = "dflash-kit/small"
    image = build_small(release)
    if not _is_there(registry, image, name, release):
        registry.push(image, name, f"{release}-{VARIANT}")
    return f"{registry.host}/{name}"


def build_small(release: str) -> str:
    """The small release's image in this machine's Docker; gives its name."""
    locked = lock(release)
    labels = {
        "release": release,
        "variant": VARIANT,
        "patches": ",".join(patch["name"] for patch in locked["patches"]),
        "tree": locked["tree"],
    }
    lines = ["FROM scratch", "COPY shared /", "COPY own /"]
    lines += [f'LABEL io.dflash-kit.{key}="{value}"' for key, value in labels.items()]
    image = f"dflash-kit/small:{release}"
    with tempfile.TemporaryDirectory() as folder:
        # Not compressible, and the same in each session.
        for file, seed, size in (("shared", "", _SHARED_BYTES), ("own", release, _OWN_BYTES)):
            Path(folder, file).write_bytes(random.Random(seed).randbytes(size))
            run("touch", "--date=@0", f"{folder}/{file}")
        build("--load", "--quiet", "--tag", image, "--file", "-", folder, stdin="\n".join(lines))
    return image


def _is_there(registry: Registry, image: str, name: str, release: str) -> bool:
    """Whether the registry has it already; another one of the name is removed."""
    there = registry.config(name, f"{release}-{VARIANT}")
    if there and there != docker.from_env().images.get(image).id:
        registry.forget(name)
        return False
    return bool(there)
