"""The shape of a profile file and of a pair file; a field that is not here is a mistake."""

from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from dflash_kit import paths

PointName = Literal["latency", "throughput"]
Argument = str | int | float | bool | list[str] | list[int]
NO_ACCELERATOR = "none"


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class Hardware(_Strict):
    """What a host must have: `count` GPUs whose product name is `accelerator`, or none, and
    `memory_mib` of main memory that the engine may use."""

    accelerator: str
    count: int = Field(default=0, ge=0)
    memory_mib: int = Field(gt=0)

    @model_validator(mode="after")
    def _count_goes_with_accelerator(self) -> "Hardware":
        if (self.accelerator == NO_ACCELERATOR) != (self.count == 0):
            raise ValueError(f"count {self.count} does not go with accelerator {self.accelerator}")
        return self


class Point(_Strict):
    """One operating point: whether DFlash is on."""

    dflash: bool


class Engine(_Strict):
    """The engine's command-line arguments (names without --) and environment."""

    arguments: dict[str, Argument]
    environment: dict[str, str]

    @model_validator(mode="after")
    def _has_a_port(self) -> "Engine":
        port = self.arguments.get("port")
        if type(port) is not int or not 1 <= port <= 65535:
            raise ValueError(f"arguments.port: got {port!r}, wanted a port: 1 to 65535")
        return self


class Limits(_Strict):
    """How long, in seconds, an engine may start, give no token, and finish its last requests."""

    start_seconds: float = Field(gt=0, allow_inf_nan=False)
    hang_seconds: float = Field(gt=0, allow_inf_nan=False)
    drain_seconds: float = Field(gt=0, allow_inf_nan=False)


class Profile(_Strict):
    """The configuration of one kind of host."""

    name: str
    summary: str
    hardware: Hardware
    pair: str
    points: dict[PointName, Point]
    engine: Engine
    limits: Limits


class Model(_Strict):
    """A model's folder; a relative path starts at the root of the kit."""

    path: str

    @property
    def folder(self) -> Path:
        return paths.ROOT / self.path


class Match(_Strict):
    """What the target and the draft must have in common, and with which values."""

    block_size: int = Field(gt=1)
    mask_token_id: int = Field(ge=0)
    hidden_size: int = Field(gt=0)
    target_layer_ids: list[int] = Field(min_length=1)
    dtype: str
    vocab_size: int = Field(gt=0)


class Acceptance(_Strict):
    """The least mean number of tokens that a verify pass must yield, of `block_size`."""

    floor: float = Field(gt=1, allow_inf_nan=False)


class Pair(_Strict):
    """A target model and its draft."""

    name: str
    summary: str
    target: Model
    draft: Model
    match: Match
    acceptance: Acceptance
    known_answers: str

    @property
    def known_answers_file(self) -> Path:
        return paths.ROOT / self.known_answers
