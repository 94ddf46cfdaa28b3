"""The shape of a profile file and of a pair file; a field that is not here is a mistake."""

from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from dflash_kit import paths
from dflash_kit.errors import Undetermined

PointName = Literal["latency", "throughput"]
Argument = str | int | float | bool | list[str] | list[int]
NO_ACCELERATOR = "none"


class Strict(BaseModel):
    """A field that is not here, or of another type, is a mistake."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class NvLink(Strict):
    """The links of one GPU: how many, and the speed of each in GB/s."""

    links: int = Field(gt=0)
    gb_s: float = Field(gt=0, allow_inf_nan=False)


class Pcie(Strict):
    """What the slot of each GPU must be able to do."""

    generation: int = Field(gt=0)
    width: int = Field(gt=0)


class AllReduce(Strict):
    """Microseconds that the GPUs take to add up their parts, for one token and for a block."""

    name: str
    one_us: float = Field(gt=0, allow_inf_nan=False)
    block_us: float = Field(gt=0, allow_inf_nan=False)


class Speed(Strict):
    """What the plan computes a step's time from: the memory's bandwidth in TB/s, the share of it
    that is reached, the ways to all-reduce, and milliseconds of a step that are none of these."""

    bandwidth_tb_s: float = Field(gt=0, allow_inf_nan=False)
    efficiency: float = Field(gt=0, le=1)
    other_ms: float = Field(ge=0, allow_inf_nan=False)
    all_reduce: list[AllReduce] = Field(min_length=1)


class Hardware(Strict):
    """What a host must have: `count` equal GPUs whose product name is `accelerator` or one of
    `also`, or none, and `memory_mib` of main memory that the engine may use, `shm_mib` of it as
    shared memory between its processes.

    A fact of the GPUs that is left out is not held against a host.
    """

    accelerator: str
    also: list[str] = []
    count: int = Field(default=0, ge=0)
    memory_mib: int = Field(gt=0)
    shm_mib: int = Field(default=64, gt=0)
    gpu_memory_mib: int | None = Field(default=None, gt=0)
    compute_capability: str | None = None
    pcie: Pcie | None = None
    nvlink: NvLink | None = None
    speed: Speed | None = None

    @model_validator(mode="after")
    def _count_goes_with_accelerator(self) -> "Hardware":
        if (self.accelerator == NO_ACCELERATOR) != (self.count == 0):
            raise ValueError(f"count {self.count} does not go with accelerator {self.accelerator}")
        return self

    @property
    def accelerators(self) -> list[str]:
        """All product names that will do."""
        return [self.accelerator, *self.also]


class Point(Strict):
    """One operating point: whether DFlash is on, or the pair's fallback instead of it.

    `draft_tokens` is the width of a draft's block where it shall be another than the draft was
    built for. `arguments` and `environment` win over the engine's. `step_ms` is the longest decode
    step that a bench lets pass, by concurrency: a step, since tokens per second also depend on how
    well the prompts can be drafted, which has the pair's floor.
    """

    dflash: bool
    fallback: bool = False
    draft_tokens: int | None = Field(default=None, gt=1)
    step_ms: dict[int, Annotated[float, Field(gt=0, allow_inf_nan=False)]] = {}
    arguments: dict[str, Argument] = {}
    environment: dict[str, str] = {}

    @model_validator(mode="after")
    def _one_kind_of_draft(self) -> "Point":
        if self.fallback and self.dflash:
            raise ValueError("fallback: got true beside dflash: true, wanted one of them")
        if self.draft_tokens and not self.dflash:
            raise ValueError("draft_tokens: got a value without dflash: true")
        return self


class Engine(Strict):
    """The engine's command-line arguments (names without --) and environment."""

    arguments: dict[str, Argument]
    environment: dict[str, str]

    @model_validator(mode="after")
    def _has_a_port(self) -> "Engine":
        port = self.arguments.get("port")
        if type(port) is not int or not 1 <= port <= 65535:
            raise ValueError(f"arguments.port: got {port!r}, wanted a port: 1 to 65535")
        return self


class Limits(Strict):
    """How long, in seconds, an engine may start, give no token, and finish its last requests."""

    start_seconds: float = Field(gt=0, allow_inf_nan=False)
    hang_seconds: float = Field(gt=0, allow_inf_nan=False)
    drain_seconds: float = Field(gt=0, allow_inf_nan=False)


class Profile(Strict):
    """The configuration of one kind of host; one that is not `detected` must be named.

    By `start_noise`, as a share, the speeds of two starts of one deployment may lie apart.
    """

    name: str
    summary: str
    detected: bool = True
    hardware: Hardware
    pair: str
    points: dict[PointName, Point]
    engine: Engine
    limits: Limits
    start_noise: float = Field(default=0.08, gt=0, lt=1)


class Model(Strict):
    """A model: its folder (a relative path starts at the root of the kit) and where it is from.

    `gib` is its size on the disk, 0 where the image carries it.
    """

    path: str
    repository: str | None = None
    revision: str | None = None
    gib: float = Field(default=0, ge=0, allow_inf_nan=False)

    @property
    def folder(self) -> Path:
        return paths.ROOT / self.path


class Match(Strict):
    """What the target and the draft must have in common, and with which values."""

    block_size: int = Field(gt=1)
    mask_token_id: int = Field(ge=0)
    hidden_size: int = Field(gt=0)
    target_layer_ids: list[int] = Field(min_length=1)
    dtype: str
    vocab_size: int = Field(gt=0)
    rope_theta: float | None = Field(default=None, gt=0, allow_inf_nan=False)


class Fallback(Strict):
    """Another kind of draft for the same target, and the engine's arguments for it."""

    draft: Model
    arguments: dict[str, Argument]


class Acceptance(Strict):
    """The least mean number of tokens that a verify pass must yield, of `block_size`."""

    floor: float = Field(gt=1, allow_inf_nan=False)


class Pair(Strict):
    """A target model and its draft; `shape` names the file with the sizes of both."""

    name: str
    summary: str
    target: Model
    draft: Model
    match: Match
    acceptance: Acceptance
    shape: str | None = None
    routed_bits: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    fallback: Fallback | None = None
    known_answers: str | None = None

    @property
    def gib(self) -> float:
        """Size of both models on the disk."""
        return self.target.gib + self.draft.gib

    @property
    def known_answers_file(self) -> Path:
        if self.known_answers is None:
            raise Undetermined(f"pair {self.name}: known_answers: none were recorded yet")
        return paths.ROOT / self.known_answers
