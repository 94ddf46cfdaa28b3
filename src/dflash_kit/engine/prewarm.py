"""`dflash-kit prewarm`: compile before a start what an engine would compile at its first use."""

import os

from dflash_kit.engine import kernels
from dflash_kit.engine.caches import cache_environment
from dflash_kit.engine.config import DEFAULT_POINT
from dflash_kit.engine.identity import identify
from dflash_kit.engine.serve import choose_profile
from dflash_kit.profiles.detect import here
from dflash_kit.releases import engine_data


def run(profile_name: str | None) -> None:
    """Compile into the cache that `serve` will use with the same profile; nothing without a GPU.

    InputError where serve would refuse the profile.
    """
    host = here()
    profile = choose_profile(profile_name, host)
    capability = profile.hardware.compute_capability
    identity = identify(profile.name, DEFAULT_POINT)
    data = engine_data.load(identity.release)
    wanted = [kernel.model_dump() for kernel in data.kernels if profile.pair in kernel.pairs]
    if capability is None or not wanted or data.kernel_tools is None:
        print(f"{profile.name}: nothing to compile")
        return
    os.environ.update(cache_environment(identity.tree, profile.name, host.driver))
    kernels.compile_all(data.kernel_tools, wanted, capability)
