"""images/<release>/engine.yaml: what one release's engine can do, and what it logs."""

from __future__ import annotations

import re
from functools import cache
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from dflash_kit import paths
from dflash_kit.profiles.load import load_file
from dflash_kit.profiles.models import Strict


def _compiles(pattern: str) -> str:
    try:
        re.compile(pattern)
    except re.error as error:
        raise ValueError(f"got {pattern!r}, which is no regular expression: {error}") from None
    return pattern


Pattern = Annotated[str, Field(min_length=1), AfterValidator(_compiles)]
# Where a line of the log is judged: at the points with DFlash on, on hosts with a GPU, or both.
Where = Literal["always", "dflash", "gpu", "dflash-gpu"]


class Feature(Strict):
    """Whether the engine can do one thing; what is missing may be so only with DFlash on, or only
    with DFlash on a host without a GPU."""

    supported: bool
    when: Literal["always", "dflash", "dflash-cpu"] = "always"
    why: str = ""

    @model_validator(mode="after")
    def _says_why(self) -> Self:
        if not self.supported and not self.why:
            raise ValueError("supported: got false without a why")
        if self.supported and self.when != "always":
            raise ValueError(f"when: got {self.when}, which goes with supported: false")
        return self


class ForbiddenLine(Strict):
    """A line that a sound engine does not log; `means` says what it is the sign of."""

    pattern: Pattern
    means: str
    next_step: str
    when: Where = "always"


class RequiredLine(Strict):
    """A line that a sound engine logs at least `times` times."""

    pattern: Pattern
    means: str
    when: Where = "always"
    times: int = Field(default=1, gt=0)


class Log(Strict):
    """What a log must not have and must have; `begins` starts a log that is whole."""

    begins: str
    forbidden: list[ForbiddenLine]
    required: list[RequiredLine]


class Kernel(Strict):
    """What the engine compiles at its first use for one of `pairs`, without a GPU.

    The function does it, given the torch dtypes and then the flags; where it gives a `recipe`
    (flashinfer's JitSpec), that one's build() does. `baked`: while the image is built.
    """

    module: str
    function: str
    dtypes: list[str] = []
    flags: list[bool] = []
    recipe: bool = False
    pairs: list[str] = Field(min_length=1)
    baked: bool


class EngineData(Strict):
    """What differs from release to release, as data.

    `processes` is in the title of every process that must not end, `scheduler` in that of each
    rank's. `kernel_tools` is the module of sglang in which a kernel's architecture is chosen
    (override_jit_cuda_arch). `graph_sizes` are the keys, one below the other, under which
    /server_info has the batch sizes of the decode graphs.
    """

    features: dict[str, Feature]
    log: Log
    processes: Pattern
    scheduler: Pattern
    graph_sizes: list[str] = Field(min_length=1)
    kernels: list[Kernel]
    kernel_tools: str | None = None

    @model_validator(mode="after")
    def _can_compile(self) -> Self:
        if self.kernels and not self.kernel_tools:
            raise ValueError("kernel_tools: got none, and kernels to compile")
        return self


def applies(when: Where, *, dflash: bool, gpu: bool) -> bool:
    """Whether a line is judged at a point with `dflash` on a host with a `gpu`."""
    needs = {"always": (), "dflash": (dflash,), "gpu": (gpu,), "dflash-gpu": (dflash, gpu)}
    return all(needs[when])


@cache
def load(release: str) -> EngineData:
    """The data of `release`; InputError where there are none or they are wrong."""
    return load_file(EngineData, paths.IMAGES / release / "engine.yaml")
